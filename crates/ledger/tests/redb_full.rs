//! A disk that is full, and then is not any more. In a program of its own: the limit is the whole
//! process's.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use berth_addr::Plan;
use berth_ledger::store::RedbStore;
use berth_ledger::{Clock, Kind, LeaseId, Ledger, LedgerMetrics, Owner};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uuid::Uuid;

/// Files can't grow beyond `bytes`: to a program that writes them the disk is full.
fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit = Rlimit {
        current: bytes.or(maximum),
        maximum,
    };
    setrlimit(Resource::Fsize, limit).unwrap();
}

/// A write over the limit must fail, and not end the process.
fn ignore_the_signal() {
    // The shell that starts this program again does: dispositions that ignore a signal are
    // inherited.
    if std::env::var_os("BERTH_IGNORES_XFSZ").is_none() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let status = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(arguments)
            .env("BERTH_IGNORES_XFSZ", "yes")
            .status();
        std::process::exit(status.unwrap().code().unwrap_or(1));
    }
}

fn ids(numbers: std::ops::Range<u128>) -> Vec<LeaseId> {
    numbers.map(Uuid::from_u128).collect()
}

#[test]
fn a_ledger_goes_on_when_a_full_disk_has_room_again() {
    ignore_the_signal();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.redb");
        let store = Arc::new(RedbStore::open(&path).unwrap());
        let ledger = Ledger::new(store, Clock::system(), LedgerMetrics::unregistered());
        let plan = Plan {
            cidrs: vec!["10.0.0.0/8".parse().unwrap()],
            ..Plan::default()
        };
        ledger.set_subnet("pods", &plan, Duration::ZERO).await.unwrap();
        let owner = Owner::new(Kind::Secondary, "c", "node", "uid").unwrap();
        let first = ledger.lease("pods", &owner, ids(0..100), None).await.unwrap();

        limit(Some(std::fs::metadata(&path).unwrap().len()));
        let mut asked = 100;
        let refused = loop {
            let next = ids(asked..asked + 2_000);
            match ledger.lease("pods", &owner, next, None).await {
                Ok(_) => asked += 2_000,
                Err(error) => break error,
            }
        };
        println!("{refused}");
        limit(None);

        // The same that was refused: what of it was written is found, and no more is given.
        let mut held = Vec::new();
        for _ in 0..100 {
            if let Ok(grant) = ledger.lease("pods", &owner, ids(asked..asked + 2_000), None).await {
                assert_eq!((grant.leases.len(), grant.short), (2_000, 0));
                held = ledger.held("pods", &owner).await.unwrap();
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let expected = usize::try_from(asked).unwrap() + 2_000;
        assert_eq!(held.len(), expected, "it did not come back");
        assert!(first.leases.iter().all(|lease| held.contains(lease)));
    });
}
