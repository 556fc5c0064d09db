//! Agents of the test's own making.

#![allow(dead_code, reason = "each suite needs some of it")]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use serde_json::Value;

/// What an agent does with a call.
#[derive(Clone, Debug)]
pub enum Manner {
    /// Status and body.
    Answers(u16, String),
    AnswersLater(Duration, u16, String),
    /// Reads, and says nothing until the caller goes.
    Silent,
    /// Ends the connection without having read anything, which the caller sees as a reset.
    Resets,
    /// Reads, and ends the connection.
    Closes,
    /// Says just this, and ends the connection.
    Says(Vec<u8>),
    /// Says this again and again.
    Babbles(Vec<u8>),
}

impl Manner {
    pub fn answers(status: u16, body: &Value) -> Self {
        Self::Answers(status, body.to_string())
    }
}

#[derive(Clone, Debug)]
pub struct Asked {
    pub line: String,
    pub body: Value,
}

/// Answers the first call by the first manner, and so on; the last manner is for all that follow.
pub struct Server {
    path: PathBuf,
    asked: Arc<Mutex<Vec<Asked>>>,
    stopping: Arc<Mutex<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Its socket is in this directory.
    pub fn start(directory: &Path, manners: &[Manner]) -> Self {
        let path = directory.join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let stopping = Arc::new(Mutex::new(false));
        let (heard, stop, mut manners) = (asked.clone(), stopping.clone(), manners.to_vec());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if *stop.lock().unwrap() {
                    return;
                }
                let manner = if manners.len() > 1 {
                    manners.remove(0)
                } else {
                    manners[0].clone()
                };
                serve(stream.unwrap(), &manner, &heard);
            }
        });
        Self {
            path,
            asked,
            stopping,
            thread: Some(thread),
        }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *self.stopping.lock().unwrap() = true;
        // So that it looks.
        let _ = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(mut stream: UnixStream, manner: &Manner, heard: &Mutex<Vec<Asked>>) {
    if matches!(manner, Manner::Resets) {
        // Some of it must have come, or the end is an orderly one.
        let _ = stream.read(&mut [0; 1]);
        return;
    }
    let asked = read(&mut stream);
    heard.lock().unwrap().push(asked);
    // The caller may be gone by then, which is its affair.
    let _ = match manner {
        Manner::Answers(status, body) => answer(&mut stream, *status, body),
        Manner::AnswersLater(delay, status, body) => {
            sleep(*delay);
            answer(&mut stream, *status, body)
        }
        Manner::Says(bytes) => stream.write_all(bytes),
        Manner::Babbles(bytes) => {
            while stream.write_all(bytes).is_ok() {}
            Ok(())
        }
        Manner::Silent => stream.read(&mut [0; 1]).map(|_| ()),
        Manner::Closes | Manner::Resets => stream.shutdown(Shutdown::Both),
    };
}

fn answer(stream: &mut UnixStream, status: u16, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())
}

fn read(stream: &mut UnixStream) -> Asked {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        received.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&received).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert_ne!(count, 0, "the question was cut");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .unwrap();
        if body.len() >= length.parse().unwrap() {
            return Asked {
                line: head.lines().next().unwrap().to_owned(),
                body: serde_json::from_str(body).unwrap_or(Value::Null),
            };
        }
        assert_ne!(count, 0, "the question was cut");
    }
}
