//! `ip monitor` in a network namespace.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::namespace::Namespace;

pub struct Monitor {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Monitor {
    /// Hears of every route that comes or goes in there from now on.
    pub fn listen(namespace: &Namespace) -> Self {
        let mut command = Command::new("ip");
        command.args(["-netns", &namespace.name, "monitor", "route", "link"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut monitor = Self { child, lines };
        // It listens once it tells of a change that is made for that.
        for round in 0.. {
            namespace.ip(&format!(
                "route replace 198.51.100.{}/32 dev near",
                round % 250
            ));
            if monitor.is_ready() {
                break;
            }
        }
        monitor
    }

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
