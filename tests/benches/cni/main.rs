//! `cargo xtask bench cni`: how long a container waits to get its address and to give it back, the
//! start of the plugin included; the same for the peers, in the same run; and how many requests the
//! agent serves. The floor is a program that does nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod floor;
mod interfaces;
mod load;
mod program;
mod replay;
mod samples;
mod site;
mod steady;

use std::path::{Path, PathBuf};

use berth_testbed::{Figures, is_root, peers};

use program::Program;
use site::Site;

/// Where Debian's package puts its plugins.
const DEBIAN: &str = "/usr/lib/cni";

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    if !is_root() {
        eprintln!(
            "there is nothing to measure: only root may call the agent and make network namespaces"
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut figures = Figures::default();
    let site = Site::start(directory.path());
    figures.mebibytes("agent: resident with 250 addresses", site.resident());

    let floor = Program::new(
        "floor",
        &floor::build(directory.path()),
        directory.path(),
        &serde_json::json!({}),
    );
    let ours = Program::new(
        "berth-ipam",
        &plugins().join("berth-ipam"),
        directory.path(),
        &site.ipam_conf(),
    );
    let host_locals = [
        host_local(
            "host-local Debian",
            &Path::new(DEBIAN).join("host-local"),
            directory.path(),
        ),
        host_local("host-local 1.9.1", &peers::host_local().unwrap(), directory.path()),
    ];
    let host_locals: Vec<Program> = host_locals.into_iter().flatten().collect();
    steady::measure(&mut figures, &site, &floor, &ours, &host_locals);
    interfaces::measure(&mut figures, &site, directory.path());
    load::measure(&mut figures, &site);
    figures.mebibytes("agent: resident after all that", site.resident());
    replay::measure(&mut figures, directory.path());
    figures.print(json);
}

/// Where `cargo xtask bench cni` has built our plugins.
fn plugins() -> PathBuf {
    let named = std::env::var_os("BERTH_PLUGINS");
    PathBuf::from(
        named.expect(
            "BERTH_PLUGINS names the directory with the plugins: use `cargo xtask bench cni`",
        ),
    )
}

fn host_local(label: &str, path: &Path, directory: &Path) -> Option<Program> {
    if !path.exists() {
        eprintln!("{label} is left out: {} is not there", path.display());
        return None;
    }
    let conf = program::host_local_conf("ptp", &directory.join(label.replace(' ', "-")));
    Some(Program::new(label, path, directory, &conf))
}
