//! The start of an agent with a long journal.

use std::path::Path;
use std::time::{Duration, Instant};

use berth_agent::journal::{Entry, Held, Journal};
use berth_agent::{Agent, AgentMetrics, Clock, Storage};
use berth_api::cni::PodRef;
use berth_testbed::Figures;
use prometheus_client::registry::Registry;

use crate::site::attachment;

const RECORDS: u64 = 100_000;
const TIMES: usize = 5;

pub fn measure(figures: &mut Figures, directory: &Path) {
    let mut times: Vec<f64> = (0..TIMES)
        .map(|n| replay(&directory.join(format!("replay-{n}"))))
        .collect();
    times.sort_by(f64::total_cmp);
    figures.millis(&format!("agent: replay of {RECORDS} records"), times[TIMES / 2]);
}

/// In milliseconds. Each run has a journal of its own: the agent may compact a journal that it has
/// read.
fn replay(directory: &Path) -> f64 {
    let storage = Storage {
        node: "bench".to_owned(),
        state_dir: directory.to_owned(),
        mark: directory.with_extension("mark"),
        boot: "bench".to_owned(),
        clock: Clock::Boot,
        rest: Duration::ZERO,
    };
    let (mut journal, _) = Journal::open(&storage.state_dir, &storage.mark, &storage.boot).unwrap();
    for n in 0..RECORDS / 2 {
        journal.append(&pair(n)).unwrap();
    }
    drop(journal);
    let metrics = AgentMetrics::register(&mut Registry::default()).of("bench");
    let start = Instant::now();
    let (agent, _) = Agent::open(&storage, metrics).unwrap();
    let took = start.elapsed();
    assert!(agent.holdings().is_empty());
    took.as_secs_f64() * 1e3
}

/// An attachment is made and released.
fn pair(n: u64) -> [Entry; 2] {
    let attachment = attachment(&format!("{n:064x}"));
    let address = [10, 64, 0, u8::try_from(n % 250).unwrap()].into();
    let name = format!("00000000-0000-4000-8000-{:012x}", n % 250);
    let started = 2 * n + 1;
    let assigned = Entry::Assigned {
        at: started,
        started,
        attachment: attachment.clone(),
        network: "bench".to_owned(),
        pod: PodRef {
            namespace: "default".to_owned(),
            name: format!("web-{n}"),
            uid: String::new(),
        },
        held: vec![Held { name, address }],
    };
    let released = Entry::Released {
        at: started + 1,
        started: started + 1,
        attachment,
    };
    [assigned, released]
}
