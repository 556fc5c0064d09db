//! Running a plugin.

#![allow(dead_code, reason = "each suite needs some of it")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

pub const IPAM: &str = env!("CARGO_BIN_EXE_berth-ipam");
pub const CNI: &str = env!("CARGO_BIN_EXE_berth-cni");

/// One call of a plugin, with an environment that is right.
pub struct Call {
    program: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Call {
    pub fn new(program: &str, command: &str) -> Self {
        let call = Self {
            program: vec![program.to_owned()],
            variables: Vec::new(),
        };
        call.set("CNI_COMMAND", command)
            .set("CNI_CONTAINERID", "c1")
            .set("CNI_NETNS", "/run/netns/none")
            .set("CNI_IFNAME", "eth0")
            .set("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1")
            .set("CNI_PATH", "/opt/cni/bin")
    }

    /// By another program, which is told to run it.
    pub fn by(mut self, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned());
        self.program = words.chain(self.program).collect();
        self
    }

    /// The last value of a variable counts.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(other, _)| other != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn unset(mut self, name: &str) -> Self {
        self.variables.retain(|(other, _)| other != name);
        self
    }

    pub fn run(&self, conf: &Value) -> Done {
        self.run_bytes(conf.to_string().as_bytes())
    }

    pub fn run_bytes(&self, stdin: &[u8]) -> Done {
        let mut child = self.command().stdin(Stdio::piped()).spawn().unwrap();
        // One that does not read to the end is not a failure of the writer.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Done::new(&child.wait_with_output().unwrap())
    }

    pub fn run_file(&self, stdin: &Path) -> Done {
        Done::new(&self.command().stdin(File::open(stdin).unwrap()).output().unwrap())
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.variables.iter().cloned());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Done {
    pub success: bool,
    pub stdout: String,
}

impl Done {
    pub fn new(output: &Output) -> Self {
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "",
            "a plugin says nothing on stderr"
        );
        Self {
            success: output.status.success(),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
        }
    }

    /// The document of an ADD that went well.
    pub fn result(&self) -> Value {
        assert!(self.success, "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Well, with nothing to say.
    pub fn silent(&self) {
        assert!(self.success && self.stdout.is_empty(), "{}", self.stdout);
    }

    /// Code and text of a failure, which says the version it is in.
    pub fn failure(&self) -> (u64, String) {
        assert!(!self.success, "{}", self.stdout);
        let document: Value = serde_json::from_str(&self.stdout).expect("a failure is a document");
        assert!(document["cniVersion"].is_string(), "{document}");
        let text = document["msg"].as_str().unwrap();
        assert!(!text.is_empty());
        (document["code"].as_u64().unwrap(), text.to_owned())
    }

    pub fn code(&self) -> u64 {
        self.failure().0
    }
}

/// For `berth-ipam`, with a socket and a queue in a directory of the test.
pub fn ipam_conf(directory: &Path) -> Value {
    json!({
        "cniVersion": "1.1.0", "name": "pods", "type": "ptp",
        "ipam": {
            "type": "berth-ipam", "timeout": "5s",
            "socket": directory.join("agent.sock"), "queueDir": directory.join("queue"),
        },
    })
}

/// For `berth-cni`, with the same.
pub fn cni_conf(directory: &Path) -> Value {
    json!({
        "cniVersion": "1.1.0", "name": "pods", "type": "berth-cni", "timeout": "5s",
        "socket": directory.join("agent.sock"), "queueDir": directory.join("queue"),
    })
}
