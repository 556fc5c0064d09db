//! A server of others, for as long as this lives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use parking_lot::Mutex;

pub struct Server {
    child: Child,
    pub port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    /// `command` is told its directory and its port.
    pub fn start(command: impl FnOnce(&std::path::Path, u16) -> Command) -> Self {
        // Nobody else of this program looks for a port until it is taken.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock();
        let directory = tempfile::tempdir().unwrap();
        let port = berth_testbed::free_port().unwrap();
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let mut command = command(directory.path(), port);
        command.current_dir(directory.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let mut server = Self {
            child,
            port,
            _directory: directory,
        };
        // As long as it lives it may become ready. A server of another program that was given the
        // same port is not the one that is waited for.
        while !is_listening(server.child.id(), port) {
            if let Some(status) = server.child.try_wait().unwrap() {
                let log = std::fs::read_to_string(server._directory.path().join("log"));
                panic!("the server ended with {status}: {}", log.unwrap());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        server
    }

    /// Status and body of one request, without any client.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut head = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n",
            self.port
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Neutron has a child of its own, which ends with it.
        let terminated = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        if terminated.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Whether this process, or a child of it, listens there.
fn is_listening(process: u32, port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let at = format!(":{port:04X}");
    let listens = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = words.get(1)?.ends_with(&at) && words.get(3) == Some(&"0A");
        found.then(|| format!("socket:[{}]", words.get(9).unwrap_or(&"")))
    };
    let Some(socket) = sockets.lines().skip(1).find_map(listens) else {
        return false;
    };
    let task = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(task).unwrap_or_default();
    let children = children.split_whitespace().map(String::from);
    let mut processes = children.chain([process.to_string()]);
    processes.any(|process| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd"));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| {
            let target = std::fs::read_link(file.path());
            target.is_ok_and(|target| target.as_os_str() == socket.as_str())
        })
    })
}
