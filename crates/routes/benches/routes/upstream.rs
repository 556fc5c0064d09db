//! Upstream's controller, as a process of its own beside ours.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use berth_testbed::{Figures, peers};

use crate::nodes::{Nodes, cidr};
use crate::{LATENCY, percentiles};

/// Each takes ten seconds.
const ROUNDS: usize = 8;

struct Upstream {
    child: Child,
    /// When a route was made, and its destination.
    made: Receiver<(SystemTime, String)>,
}

impl Upstream {
    fn start(program: &Path, kubeconfig: &Path, watch: bool) -> Self {
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.arg(format!("--watch={watch}"));
        command.arg(format!("--latency={}ms", LATENCY.as_millis()));
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (send, made) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Some((nanos, cidr)) = line.split_once(' ') else {
                    continue;
                };
                let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos.parse().unwrap());
                if send.send((at, cidr.to_owned())).is_err() {
                    return;
                }
            }
        });
        Self { child, made }
    }

    fn made(&self, cidr: &str) -> SystemTime {
        loop {
            let (at, found) = self.made.recv().unwrap();
            if found == cidr {
                return at;
            }
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub async fn measure(kubeconfig: &Path, nodes: &Nodes, watch: bool, figures: &mut Figures) {
    let program = match peers::cloud_provider() {
        Ok(program) if program.exists() => program,
        _ => return eprintln!("upstream's controller is not built: it is left out"),
    };
    let upstream = Upstream::start(&program, kubeconfig, watch);
    let how = if watch { "watching" } else { "polling" };
    let mut waits = Vec::new();
    for number in 0..ROUNDS {
        let start = nodes.join(number).await;
        let made = tokio::task::block_in_place(|| upstream.made(&cidr(number)));
        waits.push(made.duration_since(start).unwrap_or_default());
    }
    percentiles(
        figures,
        &format!("upstream, {how}: new node, podCIDR 0.1 s later"),
        waits,
    );
}
