//! The programs that are measured, each as a process.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};

use berth_testbed::Process;

use crate::server::Server;

/// Ends when it is dropped.
pub struct Program {
    child: Child,
}

impl Program {
    pub fn berth(server: &Server, flags: &[&str]) -> Self {
        let program = std::env::var_os("BERTH_PROGRAM")
            .expect("BERTH_PROGRAM names the program: use `cargo xtask bench machines`");
        let mut command = Command::new(program);
        command.arg("controller").arg("--leader-elect=false").args(flags);
        Self::start(server, "berth", command)
    }

    /// Without its webhook, which checks pools only.
    pub fn in_cluster(server: &Server, program: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(["--webhook-port=0", "--health-probe-bind-address=0"]);
        command.args(["--insecure-diagnostics", "--diagnostics-address=0"]);
        Self::start(server, "in-cluster", command)
    }

    fn start(server: &Server, name: &str, mut command: Command) -> Self {
        let log = File::create(server.scene.cluster.logs().join(format!("{name}.log"))).unwrap();
        command.arg("--kubeconfig").arg(server.scene.cluster.kubeconfig());
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Self { child }
    }

    pub fn process(&self) -> Process {
        Process::find(self.child.id()).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
