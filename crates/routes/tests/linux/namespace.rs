//! Network namespaces.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use berth_netlink::Socket;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, for as long as this lives.
pub struct Namespace {
    name: String,
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

    /// Hears of every route that comes or goes from now on.
    pub fn monitor(&self) -> Monitor {
        let mut command = Command::new("ip");
        command.args(["-netns", &self.name, "monitor", "route", "link"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut monitor = Monitor { child, lines };
        // It listens once it tells of a change that is made for that.
        let mut round = 0;
        loop {
            round += 1;
            self.ip(&format!(
                "route replace 198.51.100.{}/32 dev near",
                round % 250
            ));
            if monitor.is_ready() {
                return monitor;
            }
        }
    }
}

pub struct Monitor {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Monitor {
    fn is_ready(&mut self) -> bool {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut ready = [rustix::event::PollFd::new(
            self.lines.get_ref(),
            rustix::event::PollFlags::IN,
        )];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut ready, Some(&now)).unwrap() > 0
    }

    /// All that it told until a line has this word.
    pub fn until(mut self, word: &str) -> String {
        let mut told = String::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "{told}");
            told.push_str(&line);
            if line.contains(word) {
                return told;
            }
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
