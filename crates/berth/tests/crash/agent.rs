//! kill -9 of `berth agent` at random points, while plugins attach, detach and collect; started
//! again with its journal, with an old copy of it, with an empty one and with none. No address has
//! two owners, and none is lost.

mod node;
mod runtime;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use node::{ADDRESSES, Node};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use runtime::Living;
use serde_json::Value;

const CALLERS: u64 = 8;
const CALLS: u64 = 20_000;
/// What one caller has at a time.
const MAX: usize = 5;

/// Who has what, as those know it who were answered.
#[derive(Default)]
struct World {
    living: Living,
    owners: Mutex<BTreeMap<String, String>>,
    calls: AtomicU64,
    attached: AtomicU64,
    /// A runtime collects while nothing else is under way.
    quiet: RwLock<()>,
}

impl World {
    fn attach(&self, container: &str, answer: &Value, unlisted: Duration) {
        let addresses: Vec<String> = answer["ips"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ip| ip["address"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(addresses.len(), 1, "{answer}");
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        for address in &addresses {
            let other = owners.insert(address.clone(), container.to_owned());
            assert_eq!(other, None, "{address} has two owners: {container} as well");
        }
        drop(owners);
        // A runtime lists a sandbox when all of it is there: until then nobody but the agent knows
        // who has the address.
        std::thread::sleep(unlisted);
        self.living.add(container, &addresses);
        self.attached.fetch_add(1, Ordering::Relaxed);
    }

    /// Before the plugin is called: from then on the address may be another's.
    fn detach(&self, container: &str) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|_, owner| owner != container);
        drop(owners);
        self.living.remove(container);
    }
}

/// One runtime's worth of calls.
fn call(node: &Node, world: &World, caller: u64, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut mine: Vec<String> = Vec::new();
    let mut made = 0;
    while world.calls.fetch_add(1, Ordering::Relaxed) < CALLS {
        if caller == 0 && random.random_ratio(1, 50) {
            let _quiet = world.quiet.write().unwrap_or_else(PoisonError::into_inner);
            // Not answered while the agent is away: then nothing is collected.
            drop(node.plugin("GC", "", &world.living.containers()));
            continue;
        }
        let _busy = world.quiet.read().unwrap_or_else(PoisonError::into_inner);
        if mine.len() < MAX && random.random_ratio(2, 3) {
            let container = format!("caller{caller}-{made}");
            made += 1;
            match node.plugin("ADD", &container, &[]) {
                Ok(answer) => {
                    let unlisted =
                        Duration::from_secs(if random.random_ratio(1, 32) { 2 } else { 0 });
                    world.attach(&container, &answer, unlisted);
                    mine.push(container);
                }
                // A runtime detaches what it could not attach, and tries again after a while.
                Err(_) => {
                    node.plugin("DEL", &container, &[]).unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        } else if !mine.is_empty() {
            let container = mine.swap_remove(random.random_range(0..mine.len()));
            world.detach(&container);
            node.plugin("DEL", &container, &[]).unwrap();
            // Runtimes do it again when they are not certain.
            if random.random_ratio(1, 8) {
                node.plugin("DEL", &container, &[]).unwrap();
            }
        }
    }
    for container in mine {
        let _busy = world.quiet.read().unwrap_or_else(PoisonError::into_inner);
        world.detach(&container);
        node.plugin("DEL", &container, &[]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_crash_gives_an_address_twice_or_loses_one() {
    let world = Arc::new(World::default());
    let node = Arc::new(Node::start(&world.living).await);
    let mut agent = node.start_agent();
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (node, world) = (Arc::clone(&node), Arc::clone(&world));
            std::thread::spawn(move || call(&node, &world, caller, 1000 + caller))
        })
        .collect();
    let killer = {
        let (node, over) = (Arc::clone(&node), Arc::clone(&over));
        std::thread::spawn(move || {
            let mut random = StdRng::seed_from_u64(5);
            let mut kills = 0;
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(random.random_range(50..1500)));
                let old = node.journal();
                std::thread::sleep(Duration::from_millis(random.random_range(1..300)));
                agent.kill();
                kills += 1;
                let fate = random.random_range(0..16);
                match fate {
                    0 => node.put_journal(Some(&old)),
                    1 => node.put_journal(None),
                    2 => node.put_journal(Some(b"")),
                    _ => {}
                }
                // For a while nobody is there.
                std::thread::sleep(Duration::from_millis(random.random_range(0..200)));
                agent = node.start_agent();
                if fate < 3 && random.random_ratio(3, 4) {
                    // Long enough for it to be certain again.
                    std::thread::sleep(Duration::from_secs(6));
                }
            }
            (agent, kills)
        })
    };
    let ended: Vec<_> = callers.into_iter().map(std::thread::JoinHandle::join).collect();
    over.store(true, Ordering::Relaxed);
    let (agent, kills) = killer.join().unwrap();
    for caller in ended {
        caller.unwrap();
    }
    let attached = world.attached.load(Ordering::Relaxed);
    println!("{CALLS} calls, {attached} attached, {kills} times killed");
    assert!(attached > CALLS / 20, "hardly anything was attached: {attached}");
    // What an old journal says of containers that are long gone is found out by the observers. The
    // bound only ends a run that would hang.
    let start = std::time::Instant::now();
    loop {
        let pool = node.pool();
        assert!(start.elapsed() < Duration::from_secs(900), "addresses are lost: {pool}");
        if pool["free"].as_u64().unwrap() + pool["coolingDown"].as_u64().unwrap() == ADDRESSES {
            assert_eq!(pool["assigned"], 0);
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    drop(agent);
}
