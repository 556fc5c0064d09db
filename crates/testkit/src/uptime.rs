//! The tests of a program once more, on a machine that was booted weeks or seconds ago.
//!
//! Nobody can wait for that, and what agent and plugins do must not depend on it. A time namespace
//! has clocks of its own, for all processes in it: a real machine could not be told from it.

use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const DAY: Duration = Duration::from_secs(86_400);

/// The program's tests with this in their names, where the machine has been up for 35 days. Tests
/// in a module `uptime` are left out: that is where this is called.
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
    // One that ran no test would be well, too.
    assert!(!said.contains(" 0 passed"), "{said}");
}

/// By how many seconds this process's own clock is off already. Offsets count from the machine's
/// clock, also in a namespace of a namespace.
fn shifted() -> i64 {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap();
    let boottime = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    let seconds = boottime.and_then(|rest| rest.split_whitespace().next());
    seconds.map_or(0, |seconds| seconds.parse().unwrap())
}
