//! A clock that stands still while there is work to do.

/// Runs a test on this thread, under a clock that advances only when all tasks wait: the same steps
/// in every run, and hours pass in no time.
pub fn on_a_stopped_clock<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}
