//! Network namespaces.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

/// A network namespace, for as long as this lives.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Has only a loopback, which is down.
    #[allow(clippy::new_without_default, reason = "it makes something in the kernel")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("berth-test-{}-{count}", std::process::id());
        ip(&["netns", "add", &name]);
        Self { name }
    }

    /// Has a veth pair `near` and `far` that is up, where `near` has 192.0.2.1/24 and
    /// 2001:db8::1/64.
    pub fn with_pair() -> Self {
        let namespace = Self::new();
        for words in [
            "link add near type veth peer name far",
            "address add 192.0.2.1/24 dev near",
            "address add 2001:db8::1/64 dev near nodad",
            "link set near up",
            "link set far up",
        ] {
            namespace.ip(words);
        }
        namespace
    }

    /// The name for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    pub fn open(&self) -> File {
        File::open(self.path()).unwrap()
    }

    /// Runs `ip` in the namespace, and returns its output.
    pub fn ip(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        ip(&[&["-netns", &self.name], &words[..]].concat())
    }

    /// The output of `ip` in the namespace, as JSON.
    pub fn show(&self, words: &str) -> Value {
        let printed = self.ip(&format!("-json {words}"));
        serde_json::from_str(if printed.trim().is_empty() { "[]" } else { &printed }).unwrap()
    }

    /// The names of all links but the loopback.
    pub fn link_names(&self) -> Vec<String> {
        let links = self.show("link");
        let links = links.as_array().unwrap().iter();
        let names = links.map(|link| link["ifname"].as_str().unwrap().to_owned());
        names.filter(|name| name != "lo").collect()
    }

    /// Runs `act` on a thread that is in the namespace.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let file = self.open();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                act()
            });
            thread.join().unwrap()
        })
    }

    /// Forwards connections to this port of the namespace's loopback to the same port of the host,
    /// until the test program ends. The namespace's loopback must be up.
    pub fn forward(&self, port: u16) {
        let listener = self.inside(|| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        std::thread::spawn(move || {
            for inner in listener.incoming() {
                // If nothing listens on the host, dropping `inner` closes the connection.
                if let Ok(outer) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                    connect(inner.unwrap(), outer);
                }
            }
        });
    }
}

/// Copies in both directions.
fn connect(inner: TcpStream, outer: TcpStream) {
    let ends = (inner.try_clone().unwrap(), outer.try_clone().unwrap());
    for (mut from, mut to) in [(inner, ends.1), (outer, ends.0)] {
        std::thread::spawn(move || {
            // No more data comes, whatever the cause.
            drop(io::copy(&mut from, &mut to));
            drop(to.shutdown(Shutdown::Write));
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

fn ip(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output().expect("ip is there");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {error}", words.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
