//! `ip monitor route` on a node.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use berth_testbed::Node;

use crate::stage::on_node;

pub struct Monitor {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Monitor {
    /// Returns once the monitor reports changes.
    pub fn start(node: &Node) -> Self {
        let mut command = node.command("ip");
        command.args(["monitor", "route"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut monitor = Self { child, lines };
        // The monitor may not listen yet, so routes are changed until it reports one.
        let maker = std::thread::scope(|scope| {
            let (stop, stopped) = std::sync::mpsc::channel::<()>();
            let making = scope.spawn(move || {
                let mut round = 0;
                while stopped.try_recv().is_err() {
                    round += 1;
                    on_node(node, &format!("ip route replace blackhole 203.0.113.{}", round % 250));
                }
            });
            let mut line = String::new();
            monitor.lines.read_line(&mut line).unwrap();
            stop.send(()).unwrap();
            making.join()
        });
        maker.unwrap();
        monitor
    }

    /// All that the monitor printed until a line has this word.
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
