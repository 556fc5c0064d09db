//! Main plugins, on the real kernel: `berth-cni` beside `ptp` with host-local.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use berth_testbed::Figures;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::DEBIAN;
use crate::program::{Program, host_local_conf};
use crate::samples::Samples;
use crate::site::Site;

const PODS: usize = 20;
const ROUNDS: usize = 6;

pub fn measure(figures: &mut Figures, site: &Site, directory: &Path) {
    let ptp = Path::new(DEBIAN).join("ptp");
    if !ptp.exists() {
        eprintln!("ptp is left out, and berth-cni with it: {} is not there", ptp.display());
        return;
    }
    let programs = [
        Program::new(
            "berth-cni",
            &crate::plugins().join("berth-cni"),
            directory,
            &site.cni_conf(),
        ),
        Program::new(
            "ptp + host-local",
            &ptp,
            directory,
            &host_local_conf("ptp", &directory.join("ptp-held")),
        ),
    ];
    let host = Namespace::new("host");
    let pods: Vec<Namespace> = (0..PODS).map(|n| Namespace::new(&format!("pod{n}"))).collect();
    let mut measured = [(); 2].map(|()| (Samples::default(), Samples::default()));
    // A child process starts in the network namespace of the thread that starts it, at no extra
    // cost.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            host.enter();
            for _ in 0..ROUNDS {
                for (program, (add, del)) in programs.iter().zip(&mut measured) {
                    let at = |n: usize, pod: &Namespace| {
                        (program.in_namespace(&pod.path()), format!("pod-{n}"))
                    };
                    for (n, pod) in pods.iter().enumerate() {
                        let (program, container) = at(n, pod);
                        add.add(program.call("ADD", &container));
                    }
                    for (n, pod) in pods.iter().enumerate() {
                        let (program, container) = at(n, pod);
                        del.add(program.call("DEL", &container));
                    }
                }
            }
        });
    });
    for (program, (add, del)) in programs.iter().zip(&measured) {
        for (command, samples) in [("ADD", add), ("DEL", del)] {
            figures.millis(&format!("{}: {command} p50", program.label), samples.median());
            figures.millis(&format!("{}: {command} p99", program.label), samples.percentile(99));
        }
    }
    let [ours, theirs] = &measured;
    figures.times(
        "berth-cni: ADD p50 of ptp + host-local's",
        ours.0.median() / theirs.0.median(),
    );
    figures.times(
        "berth-cni: DEL p50 of ptp + host-local's",
        ours.1.median() / theirs.1.median(),
    );
}

/// A network namespace, for as long as this lives.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Self {
        let name = format!("berth-bench-{}-{name}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).status();
        assert!(made.unwrap().success(), "ip netns add {name}");
        Self(name)
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }

    fn enter(&self) {
        let file = File::open(self.path()).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}
