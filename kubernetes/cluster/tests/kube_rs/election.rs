//! Leader election on a Lease, as every Berth process with a leader does it.

use std::time::Duration;

use berth_kit::lease::{LeaderElection, Leadership, Timing};
use berth_testkit::until;
use berth_testkit::within;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::space::{Space, in_space};

struct Contender {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// The lease is long and retries are quick: a contender leads because the other let go, never
/// because it was slow.
fn stand(space: &Space, identity: &str) -> Contender {
    let seconds = Duration::from_secs;
    let timing = Timing::new(seconds(60), seconds(50), Duration::from_millis(50)).unwrap();
    let election = LeaderElection::new(space.client.clone(), &space.name, "leader", identity)
        .with_timing(timing);
    let stop = CancellationToken::new();
    Contender {
        leadership: election.leadership(),
        task: tokio::spawn(election.run(stop.clone())),
        stop,
    }
}

#[test]
fn one_of_two_contenders_leads_until_it_lets_go_then_the_other() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let contenders = [stand(&space, "one"), stand(&space, "two")];
        let first = until("one leads", async || {
            contenders.iter().position(|c| c.leadership.is_leader())
        })
        .await;
        let [one, two] = contenders;
        let (mut leader, mut other) = if first == 0 { (one, two) } else { (two, one) };

        let term = within("its term", leader.leadership.acquired()).await.unwrap();
        let before = leases.get("leader").await.unwrap().spec.unwrap();
        until("the leader renews", async || {
            let now = leases.get("leader").await.unwrap().spec.unwrap();
            (now.renew_time > before.renew_time && now.holder_identity == before.holder_identity)
                .then_some(())
        })
        .await;
        assert!(!other.leadership.is_leader());

        leader.stop.cancel();
        within("the term is over", term.lost()).await;
        assert!(!other.leadership.is_leader(), "the term is still held");
        drop(term);
        within("the first lets go", leader.task).await.unwrap();
        within("the second leads", other.leadership.acquired()).await.unwrap();
        let after = leases.get("leader").await.unwrap().spec.unwrap();
        assert_ne!(after.holder_identity, before.holder_identity);
        assert_eq!(after.lease_transitions, before.lease_transitions.map(|count| count + 1));

        other.stop.cancel();
        within("the second lets go", other.task).await.unwrap();
    });
}
