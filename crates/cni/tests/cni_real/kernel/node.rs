//! A host and its pods, as far as a plugin sees them: network namespaces.

use std::path::Path;

use berth_testkit::Namespace;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::call::{CNI, Call, Done, cni_conf};
use crate::server::{Manner, Server};

/// A node with an agent that does as it is told.
pub struct Node {
    pub host: Namespace,
    pub server: Option<Server>,
    /// After the server, whose socket is in it.
    pub directory: TempDir,
    pub conf: Value,
}

impl Node {
    pub fn new(manners: &[Manner]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Some(Server::start(directory.path(), manners));
        let host = Namespace::new();
        host.ip("link set lo up");
        Self {
            conf: cni_conf(directory.path()),
            host,
            directory,
            server,
        }
    }

    pub fn call(&self, command: &str, container: &str, pod: &Namespace) -> Call {
        self.call_without_pod(command, container).set("CNI_NETNS", &pod.path())
    }

    pub fn call_without_pod(&self, command: &str, container: &str) -> Call {
        let call = Call::new(CNI, command).by(&["ip", "netns", "exec", self.host.name()]);
        call.set("CNI_CONTAINERID", container).unset("CNI_NETNS")
    }

    pub fn add(&self, container: &str, pod: &Namespace) -> Value {
        self.call("ADD", container, pod).run(&self.conf).result()
    }

    pub fn del(&self, container: &str, pod: &Namespace) -> Done {
        self.call("DEL", container, pod).run(&self.conf)
    }

    /// With the result of an ADD.
    pub fn check(&self, container: &str, pod: &Namespace, result: &Value) -> Done {
        let mut conf = self.conf.clone();
        conf["prevResult"] = result.clone();
        self.call("CHECK", container, pod).run(&conf)
    }

    /// Paths that the agent was asked by.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.server.as_ref().unwrap().asked();
        asked
            .iter()
            .map(|asked| asked.line.split(' ').nth(1).unwrap().to_owned())
            .collect()
    }

    pub fn queue(&self) -> Vec<String> {
        names_in(&self.directory.path().join("queue"))
    }

    /// Nothing of any pod.
    pub fn assert_empty(&self) {
        assert_eq!(self.host.link_names(), Vec::<String>::new());
        for words in ["route", "-6 route", "neighbour"] {
            assert_eq!(self.host.show(words), json!([]), "{words}");
        }
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != berth_api::agent::RESERVE)
        .collect()
}

/// An address of each family, ending in this number.
pub fn grant(number: u8) -> Manner {
    grant_of(&[&format!("10.64.0.{number}"), &format!("fd64::{number}")])
}

pub fn grant_of(addresses: &[&str]) -> Manner {
    let one = |address: &&str| {
        let length = if address.contains(':') { 64 } else { 16 };
        json!({"address": address, "length": length})
    };
    let addresses: Vec<Value> = addresses.iter().map(one).collect();
    Manner::answers(200, &json!({"addresses": addresses}))
}

/// To a release, a check and a GC.
pub fn done() -> Manner {
    Manner::answers(200, &json!({"released": 1}))
}
