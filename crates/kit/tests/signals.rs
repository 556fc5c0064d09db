//! Real signals, in a test process of their own: a signal handler is for the whole process.

#![cfg(test)]

use std::{convert::Infallible, process::Command, time::Duration};

use berth_kit::shutdown::{Shutdown, Unclean};

fn send(signal: &str) {
    let process = std::process::id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &process])
            .status()
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn sigterm_stops_the_tasks_and_sigint_after_it_ends_the_wait() {
    let limit = Duration::from_secs(60);
    let shutdown = Shutdown::on_signals().unwrap();
    let stopping = shutdown.tasks().stopping();
    let finished = tokio::spawn(shutdown.finished(limit));
    send("-TERM");
    assert_eq!(finished.await.unwrap(), Ok(()));
    assert!(stopping.is_cancelled());

    let shutdown = Shutdown::on_signals().unwrap();
    shutdown
        .tasks()
        .spawn("stuck", std::future::pending::<Result<(), Infallible>>());
    let stopping = shutdown.tasks().stopping();
    let finished = tokio::spawn(shutdown.finished(limit));
    send("-TERM");
    stopping.cancelled().await;
    send("-INT");
    let tasks = vec!["stuck".to_owned()];
    assert_eq!(finished.await.unwrap(), Err(Unclean::Interrupted { tasks }));
}
