//! Network namespaces.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use berth_netlink::Socket;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, for as long as this lives.
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    /// With a pair that is up, where this end has 192.0.2.1/24 and 2001:db8::1/64.
    pub fn with_pair() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("berth-routes-{}-{count}", std::process::id());
        run(&["netns", "add", &name]);
        let namespace = Self { name };
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

    /// What `ip` prints, and changes, in there.
    pub fn ip(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        run(&[&["-netns", &self.name], &words[..]].concat())
    }

    pub fn socket(&self) -> Socket {
        let file = File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                Socket::open().unwrap()
            });
            thread.join().unwrap()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "delete", &self.name])
            .status();
    }
}

fn run(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
