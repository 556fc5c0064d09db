//! Starts plugins, all in the same way.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct Program {
    pub label: String,
    path: PathBuf,
    conf: PathBuf,
    netns: String,
}

impl Program {
    pub fn new(label: &str, path: &Path, directory: &Path, conf: &Value) -> Self {
        let file = directory.join(format!("{label}.json"));
        std::fs::write(&file, conf.to_string()).unwrap();
        Self {
            label: label.to_owned(),
            path: path.to_owned(),
            conf: file,
            netns: "/run/netns/none".to_owned(),
        }
    }

    pub fn in_namespace(&self, netns: &str) -> Self {
        let netns = netns.to_owned();
        Self { netns, ..self.clone() }
    }

    /// Runs the plugin, and returns the time from its start to its end.
    pub fn call(&self, command: &str, container: &str) -> Duration {
        let mut process = self.command(command, container);
        process.stdout(Stdio::null());
        let start = Instant::now();
        let status = process.spawn().unwrap().wait().unwrap();
        let took = start.elapsed();
        assert!(
            status.success(),
            "{} {command}: {}",
            self.label,
            self.excuse(command, container)
        );
        took
    }

    fn command(&self, command: &str, container: &str) -> Command {
        let mut process = Command::new(&self.path);
        process
            .env_clear()
            .stdin(File::open(&self.conf).unwrap())
            .stderr(Stdio::null());
        process.env("CNI_COMMAND", command).env("CNI_CONTAINERID", container);
        process.env("CNI_NETNS", &self.netns).env("CNI_IFNAME", "eth0");
        process.env("CNI_PATH", super::DEBIAN);
        // Plugins of others call programs there, such as iptables.
        process.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        process
    }

    /// The plugin's error. Calls the plugin again, because the first call dropped its output.
    fn excuse(&self, command: &str, container: &str) -> String {
        let output = self
            .command(command, container)
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// For host-local itself, and for a plugin that delegates to it. host-local keeps its leases in the
/// directory.
pub fn host_local_conf(kind: &str, directory: &Path) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "bench", "type": kind,
        "ipam": {"type": "host-local", "dataDir": directory, "ranges": [[{"subnet": "10.65.0.0/16"}]]},
    })
}
