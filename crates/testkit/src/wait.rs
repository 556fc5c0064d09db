//! Waiting for conditions. No test states a time.

use std::fmt::Debug;
use std::io::Write;
use std::time::Duration;

use tokio::time::Instant;

/// The limit for a run that would hang. It is no measure of speed: a test that works stays far
/// below it, however busy the machine is. A stopped clock reaches it at once.
const BOUND: Duration = Duration::from_secs(4 * 3600);

/// The same by the machine's clock: a hanging run ends before the process that waits for it gives
/// up.
const MACHINE_BOUND: Duration = Duration::from_secs(10 * 60);

/// How often a run that seems to hang reports what it waits for.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Polls until there is a value.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let mut wait = Wait::new(what);
    loop {
        match look().await {
            Some(found) => return found,
            None => tokio::time::sleep(wait.pause(String::new)).await,
        }
    }
}

/// Polls until `Ok`. If the test ends before, it prints the last error.
pub async fn until_ok<T, E: Debug>(what: &str, mut look: impl AsyncFnMut() -> Result<T, E>) -> T {
    let mut wait = Wait::new(what);
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => tokio::time::sleep(wait.pause(|| format!(": {seen:#?}"))).await,
        }
    }
}

/// Polls until the condition is true, without a runtime.
#[track_caller]
pub fn until_so(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut wait = Wait::new(what);
    while !is_so() {
        std::thread::sleep(wait.pause(String::new));
    }
}

/// Returns the output of a future that is expected to end.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(found) => found,
        Err(_) => panic!("not so after {BOUND:?}: {what}"),
    }
}

struct Wait<'a> {
    what: &'a str,
    start: Instant,
    /// By the machine's clock, which goes on while tokio's is stopped.
    begun: std::time::Instant,
    told: std::time::Instant,
}

impl<'a> Wait<'a> {
    fn new(what: &'a str) -> Self {
        Self {
            what,
            start: Instant::now(),
            begun: std::time::Instant::now(),
            told: std::time::Instant::now(),
        }
    }

    /// The time until the next poll: short at first, then longer, so that slow conditions are
    /// polled less often.
    #[track_caller]
    fn pause(&mut self, seen: impl Fn() -> String) -> Duration {
        let (what, waited) = (self.what, self.start.elapsed());
        assert!(waited < BOUND, "not so after {BOUND:?}: {what}{}", seen());
        let begun = self.begun.elapsed();
        assert!(begun < MACHINE_BOUND, "not so after {begun:.0?}: {what}{}", seen());
        if self.told.elapsed() > REPORT_INTERVAL {
            self.told = std::time::Instant::now();
            let line = format!("still waiting after {waited:.0?}: {what}{}", seen());
            // Directly to the terminal: the harness keeps other output until the test ends.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        (waited / 20).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_late_is_found_soon_after() {
        let start = Instant::now();
        let comes = start + Duration::from_secs(1000);
        let found = until("it is time", async || (Instant::now() >= comes).then_some("there"));
        assert_eq!(found.await, "there");
        assert!(start.elapsed() <= Duration::from_secs(1001), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "not so after 14400s: pigs fly")]
    async fn what_never_comes_ends_the_test_by_name() {
        until("pigs fly", async || None::<()>).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "not so after 14400s: pigs fly")]
    async fn a_future_that_never_ends_ends_the_test_by_name() {
        within("pigs fly", std::future::pending::<()>()).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "not so after 14400s: pigs fly: \"a walking pig\"")]
    async fn what_was_seen_instead_is_said() {
        until_ok("pigs fly", async || Err::<(), _>("a walking pig")).await;
    }

    #[test]
    fn a_test_without_a_runtime_waits_too() {
        let mut looks = 0;
        until_so("the third look", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }
}
