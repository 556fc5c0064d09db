//! Network namespaces.

#![allow(dead_code, reason = "each suite needs some of it")]

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

/// A network namespace, for as long as this lives.
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("berth-test-{}-{count}", std::process::id());
        run(&["netns", "add", &name]);
        Self { name }
    }

    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// What `ip` says of it.
    pub fn ip(&self, words: &[&str]) -> Value {
        let printed = run(&[&["-netns", &self.name, "-json"], words].concat());
        serde_json::from_str(if printed.trim().is_empty() { "[]" } else { &printed }).unwrap()
    }

    /// Has `ip` change something.
    pub fn set(&self, words: &[&str]) {
        run(&[&["-netns", &self.name], words].concat());
    }

    pub fn link_names(&self) -> Vec<String> {
        let links = self.ip(&["link"]);
        let names = links
            .as_array()
            .unwrap()
            .iter()
            .map(|link| link["ifname"].as_str().unwrap().to_owned());
        names.filter(|name| name != "lo").collect()
    }

    /// On a thread that is in there.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let file = File::open(self.path()).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                act()
            });
            thread.join().unwrap()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

fn run(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output().expect("ip is there");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {error}", words.join(" "));
    String::from_utf8(output.stdout).unwrap()
}
