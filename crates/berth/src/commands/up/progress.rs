//! How far the start has come, on a terminal.

use std::cell::Cell;
use std::time::Duration;

use indicatif::ProgressBar;

/// The steps of a start.
const STEPS: u32 = 6;

/// Draws nothing unless stderr is a terminal.
pub struct Progress {
    spinner: ProgressBar,
    step: Cell<u32>,
}

impl Progress {
    pub fn start() -> Self {
        let spinner = ProgressBar::new_spinner();
        spinner.enable_steady_tick(Duration::from_millis(80));
        Self {
            spinner,
            step: Cell::new(0),
        }
    }

    pub fn begin(&self, what: &str) {
        let step = self.step.get() + 1;
        self.step.set(step);
        self.spinner.set_message(format!("[{step}/{STEPS}] {what}"));
    }

    pub fn end(&self) {
        self.spinner.finish_and_clear();
    }
}
