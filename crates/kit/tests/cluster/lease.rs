//! Two contenders for one Lease, on tokio's paused clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use berth_kit::lease::{ElectionMetrics, LeaderElection, Leadership};
use berth_testkit::within;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};
use prometheus_client::registry::Registry;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::server::{Fault, Server};

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth";
const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

struct Contender {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Contender {
    fn start(client: kube::Client, identity: &str) -> Self {
        let election = LeaderElection::new(client, "kube-system", "berth", identity);
        let stop = CancellationToken::new();
        Self {
            leadership: election.leadership(),
            task: tokio::spawn(election.run(stop.clone())),
            stop,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.is_leader()
    }
}

fn spec(server: &Server) -> Value {
    server.object(PATH).unwrap()["spec"].clone()
}

/// How long it takes until `condition` holds, to 10 ms.
async fn time_until(condition: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    within("the lease changes hands", async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    start.elapsed()
}

/// A client that is cut off from the server while the switch is set.
fn switchable(server: &Server) -> (kube::Client, Arc<AtomicBool>) {
    let cut = Arc::new(AtomicBool::new(false));
    let switch = cut.clone();
    let client = server.client(move || Fault {
        refused: switch.load(Relaxed),
        ..Fault::default()
    });
    (client, cut)
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_goes_on_leading() {
    let server = Server::default();
    let a = Contender::start(server.reliable(), "a");
    time_until(|| a.leads()).await;
    let b = Contender::start(server.reliable(), "b");
    for _ in 0..1000 {
        sleep(Duration::from_millis(100)).await;
        assert!(a.leads() && !b.leads());
    }
    let spec = spec(&server);
    assert_eq!(spec["holderIdentity"], "a");
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_another_takes_over_within_lease_and_retry() {
    let server = Server::default();
    let a = Contender::start(server.reliable(), "a");
    time_until(|| a.leads()).await;
    let b = Contender::start(server.reliable(), "b");
    sleep(Duration::from_secs(60)).await;
    a.task.abort();
    let took = time_until(|| b.leads()).await;
    assert!(took <= LEASE + RETRY, "{took:?}");
    assert_eq!(spec(&server)["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_hands_over_at_the_next_retry() {
    let server = Server::default();
    let a = Contender::start(server.reliable(), "a");
    time_until(|| a.leads()).await;
    let b = Contender::start(server.reliable(), "b");
    sleep(Duration::from_secs(61)).await;
    a.stop.cancel();
    let took = time_until(|| b.leads()).await;
    assert!(took <= RETRY, "{took:?}");
    a.task.await.unwrap();
    assert_eq!(spec(&server)["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_not_released_while_a_term_is_held() {
    let server = Server::default();
    let mut a = Contender::start(server.reliable(), "a");
    let term = a.leadership.acquired().await.unwrap();
    assert!(term.lasts());
    a.stop.cancel();
    term.lost().await;
    assert!(!term.lasts() && !a.leads());
    sleep(Duration::from_secs(3)).await;
    assert_eq!(spec(&server)["holderIdentity"], "a");
    drop(term);
    a.task.await.unwrap();
    assert_eq!(spec(&server)["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_never_let_go_of_leaves_the_lease_to_expire() {
    let server = Server::default();
    let mut a = Contender::start(server.reliable(), "a");
    let _term = a.leadership.acquired().await.unwrap();
    let start = Instant::now();
    a.stop.cancel();
    a.task.await.unwrap();
    assert!(start.elapsed() <= DEADLINE);
    assert_eq!(spec(&server)["holderIdentity"], "a");
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_steps_down_before_its_lease_ends() {
    let server = Server::default();
    let (client, cut) = switchable(&server);
    let mut a = Contender::start(client, "a");
    let term = a.leadership.acquired().await.unwrap();
    cut.store(true, Relaxed);
    let start = Instant::now();
    term.lost().await;
    assert!(!a.leads());
    assert!(start.elapsed() <= DEADLINE, "{:?}", start.elapsed());
    cut.store(false, Relaxed);
    let again = a.leadership.acquired().await.unwrap();
    assert!(again.lasts() && !term.lasts());
}

#[tokio::test(start_paused = true)]
async fn a_leaders_deadline_counts_from_the_request_not_the_answer() {
    let server = Server::default();
    let mut requests = 0;
    let client = server.client(move || {
        requests += 1;
        Fault {
            // The read, then the write whose answer is slow, then nothing more.
            answer_delay: Duration::from_secs(if requests == 2 { 9 } else { 0 }),
            refused: requests > 2,
            ..Fault::default()
        }
    });
    let a = Contender::start(client, "a");
    sleep(Duration::from_millis(9_900)).await;
    assert!(a.leads());
    sleep(Duration::from_millis(200)).await;
    assert!(!a.leads());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_election_died_stops_believing() {
    let server = Server::default();
    let mut a = Contender::start(server.reliable(), "a");
    let term = a.leadership.acquired().await.unwrap();
    a.task.abort();
    term.lost().await;
    assert!(!a.leads() && !term.lasts());
    assert!(a.leadership.acquired().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_overruled_notices_at_its_next_renewal() {
    let server = Server::default();
    let a = Contender::start(server.reliable(), "a");
    time_until(|| a.leads()).await;
    let api = Api::<Lease>::namespaced(server.reliable(), "kube-system");
    let mut lease = api.get("berth").await.unwrap();
    lease.spec.as_mut().unwrap().holder_identity = Some("somebody".to_owned());
    api.replace("berth", &PostParams::default(), &lease).await.unwrap();
    let took = time_until(|| !a.leads()).await;
    assert!(took <= RETRY, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_metric_says_who_leads_as_client_go_s_does() {
    let server = Server::default();
    let mut registry = Registry::default();
    let metrics = ElectionMetrics::register(&mut registry);
    let election =
        LeaderElection::new(server.reliable(), "kube-system", "berth", "a").with_metrics(&metrics);
    let mut leadership = election.leadership();
    let stop = CancellationToken::new();
    let task = tokio::spawn(election.run(stop.clone()));
    let shows = |line: &str| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.contains(line)
    };
    leadership.acquired().await.unwrap();
    assert!(shows(r#"leader_election_master_status{name="berth"} 1"#));
    stop.cancel();
    task.await.unwrap();
    assert!(shows(r#"leader_election_master_status{name="berth"} 0"#));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_is_made_again_by_its_leader() {
    let server = Server::default();
    let mut a = Contender::start(server.reliable(), "a");
    let term = a.leadership.acquired().await.unwrap();
    server.delete_all();
    sleep(RETRY + Duration::from_millis(10)).await;
    assert!(term.lasts());
    assert_eq!(spec(&server)["holderIdentity"], "a");
}

/// Faults of every kind that a network has, more often than in a real one, and long outages.
fn storm(seed: u64) -> impl FnMut() -> Fault + Send + 'static {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut outage_ends = Instant::now();
    move || {
        if rng.random_bool(0.03) {
            outage_ends = Instant::now() + Duration::from_millis(rng.random_range(0..40_000));
        }
        let mut delay = |often| match rng.random_bool(often) {
            true => Duration::from_millis(rng.random_range(0..20_000)),
            false => Duration::from_millis(rng.random_range(0..50)),
        };
        Fault {
            delay: delay(0.1),
            answer_delay: delay(0.1),
            answer_lost: rng.random_bool(0.1),
            refused: Instant::now() < outage_ends || rng.random_bool(0.1),
        }
    }
}

/// Ten minutes, with a look every 50 ms.
const TICKS: u32 = 12_000;

/// About every two minutes a contender crashes or stops in order, and another one starts. Returns
/// how many ticks somebody led, and how often the lease changed hands.
async fn never_two_leaders(seed: u64) -> (u32, u64) {
    let server = Server::default();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut started = 0;
    let mut start = || {
        started += 1;
        let client = server.client(storm(seed * 1000 + started));
        Contender::start(client, &format!("contender-{started}"))
    };
    let mut contenders = [start(), start()];
    let mut led = 0;
    for _ in 0..TICKS {
        sleep(Duration::from_millis(50)).await;
        let leaders = contenders.iter().filter(|contender| contender.leads()).count();
        assert!(leaders <= 1, "seed {seed}: two leaders");
        led += u32::from(leaders == 1);
        if rng.random_ratio(1, 2_400) {
            let restarted = &mut contenders[rng.random_range(0..2)];
            match rng.random_bool(0.5) {
                true => restarted.task.abort(),
                // It goes on releasing while its successor starts.
                false => restarted.stop.cancel(),
            }
            *restarted = start();
        }
    }
    contenders.iter().for_each(|contender| contender.task.abort());
    let transitions = spec(&server)["leaseTransitions"].as_u64().unwrap();
    (led, transitions)
}

#[tokio::test(start_paused = true)]
async fn never_two_leaders_whatever_the_network_does() {
    let (mut led, mut transitions) = (0, 0);
    for seed in 0..12 {
        let (ticks, changes) = never_two_leaders(seed).await;
        led += ticks;
        transitions += changes;
    }
    // Otherwise the test has tried nothing.
    assert!(led > 12 * TICKS / 4, "somebody led in {led} of {} ticks", 12 * TICKS);
    assert!(transitions > 24, "{transitions} transitions");
}
