//! Runs the tests of a program again, as on a machine that was booted weeks or seconds ago.
//!
//! Agent and plugins must not depend on the uptime, and nobody can wait for weeks. A time namespace
//! has its own clocks for all of its processes: they cannot tell it from a real machine.

use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const DAY: Duration = Duration::from_secs(86_400);

/// Runs the program's tests with this in their names, where the machine has been up for 35 days.
/// Leaves out tests in a module `uptime`, which call this.
pub fn again_after_weeks(tests: &str) {
    again_after(DAY * 35, tests);
}

/// The same, where the machine has been up for three seconds.
pub fn again_after_seconds(tests: &str) {
    again_after(Duration::from_secs(3), tests);
}

fn again_after(uptime: Duration, tests: &str) {
    let booted = clock_gettime(ClockId::Boottime).tv_sec - shifted();
    let offset = (i64::try_from(uptime.as_secs()).unwrap() - booted).to_string();
    let mut unshare = Command::new("unshare");
    unshare.args(["--time", "--boottime", &offset, "--monotonic", &offset]);
    unshare.arg(std::env::current_exe().unwrap());
    unshare.args([tests, "--skip", "uptime::"]);
    let output = unshare.output().unwrap();
    let (said, complained) = (output.stdout, output.stderr);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&said),
        String::from_utf8_lossy(&complained)
    );
    assert!(output.status.success(), "{said}");
    // A run without any test would succeed, too.
    assert!(!said.contains(" 0 passed"), "{said}");
}

/// The offset in seconds that this process's clock has already. Offsets count from the machine's
/// clock, also in nested namespaces.
fn shifted() -> i64 {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap();
    let boottime = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    let seconds = boottime.and_then(|rest| rest.split_whitespace().next());
    seconds.map_or(0, |seconds| seconds.parse().unwrap())
}
