//! The tests of the socket once more, on a machine that was booted weeks or seconds ago.

use berth_testkit::uptime;

#[test]
fn the_same_holds_after_weeks() {
    uptime::again_after_weeks("socket::");
}

#[test]
fn the_same_holds_after_seconds() {
    uptime::again_after_seconds("socket::");
}
