//! A server of others, for as long as this lives.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct Server {
    child: Child,
    pub port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    /// `command` is told its directory and its port.
    pub fn start(command: impl FnOnce(&std::path::Path, u16) -> Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
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
        // As long as it lives it may become ready.
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
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

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
