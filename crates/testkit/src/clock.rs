//! A clock that stands still while something is to be done.

/// Runs it on this thread, under a clock that goes on only when all wait: the same steps in every
/// run, and hours in no time.
pub fn on_a_stopped_clock<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}
