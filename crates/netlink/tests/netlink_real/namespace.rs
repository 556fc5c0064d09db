//! Network namespaces.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use berth_netlink::Socket;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, for as long as this lives.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// With a loopback only.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("berth-netlink-{}-{count}", std::process::id());
        run(&["netns", "add", &name]);
        Self { name }
    }

    /// With a pair `near` and `far` that is up, where `near` has 192.0.2.1/24 and 2001:db8::1/64.
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

    /// What `ip` prints, and changes, in there.
    pub fn ip(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        run(&[&["-netns", &self.name], &words[..]].concat())
    }

    pub fn open(&self) -> File {
        File::open(format!("/run/netns/{}", self.name)).unwrap()
    }

    pub fn socket(&self) -> Socket {
        self.inside(|| Socket::open().unwrap())
    }

    /// Does something on a thread that is in there.
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
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "delete", &self.name])
            .status();
    }
}

fn run(words: &[impl AsRef<OsStr> + std::fmt::Debug]) -> String {
    let output = Command::new("ip")
        .args(words)
        .output()
        .expect("ip is there");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
