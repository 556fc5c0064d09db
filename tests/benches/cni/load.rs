//! Requests straight on the agent's socket, from as many connections at a time as keep it busy.
//! Each assignment is in the journal before it is answered.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use berth_api::agent::{RELEASE, REQUEST, Release, Request, STATUS};
use berth_api::cni::PodRef;
use berth_testbed::Figures;
use serde::Serialize;
use serde_json::Value;

use crate::site::{Site, attachment};

const CONNECTIONS: usize = 16;
const DURATION: Duration = Duration::from_secs(5);

pub fn measure(figures: &mut Figures, site: &Site) {
    let rate = run(&site.socket(), false);
    figures.rate(&format!("agent: requests on {CONNECTIONS} connections"), rate);
    let rate = run(&site.socket(), true);
    figures.rate(
        &format!("agent: requests on a connection each, {CONNECTIONS} at a time"),
        rate,
    );
}

fn run(socket: &Path, fresh: bool) -> f64 {
    let start = Instant::now();
    let count: usize = std::thread::scope(|scope| {
        let caller = |n| {
            scope.spawn(move || {
                let mut caller = Caller::connect(socket);
                let mut count = 0;
                while start.elapsed() < DURATION {
                    for step in 0..2 {
                        if fresh {
                            caller = Caller::connect(socket);
                        }
                        caller.step(&format!("load-{n}-{count}"), step == 0);
                    }
                    count += 2;
                }
                count
            })
        };
        let callers: Vec<_> = (0..CONNECTIONS).map(caller).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    count as f64 / start.elapsed().as_secs_f64()
}

/// A connection that is kept open.
pub struct Caller {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Caller {
    pub fn connect(socket: &Path) -> Self {
        Self::on(UnixStream::connect(socket).unwrap())
    }

    pub fn on(stream: UnixStream) -> Self {
        let received = Vec::new();
        Self { stream, received }
    }

    fn step(&mut self, container: &str, is_request: bool) {
        let attachment = attachment(container);
        if is_request {
            let request = Request {
                attachment,
                network: "bench".to_owned(),
                pod: PodRef::default(),
                started: 0,
                desired: Vec::new(),
                wait_ms: 0,
            };
            self.call(REQUEST, &request);
        } else {
            self.call(
                RELEASE,
                &Release {
                    attachment,
                    started: 0,
                },
            );
        }
    }

    pub fn call(&mut self, path: &str, body: &impl Serialize) {
        let body = serde_json::to_string(body).unwrap();
        let (status, answer) = self.exchange("POST", path, &body);
        assert_eq!(status, 200, "{path}: {answer}");
    }

    /// Null while the agent has no valid answer.
    pub fn status(&mut self) -> Value {
        let (_, answer) = self.exchange("GET", STATUS, "");
        serde_json::from_str(&answer).unwrap_or(Value::Null)
    }

    fn exchange(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: berth\r\ncontent-length: {length}\r\n\r\n");
        self.stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        self.received.clear();
        loop {
            let mut buffer = [0; 4096];
            let count = self.stream.read(&mut buffer).unwrap();
            assert_ne!(count, 0, "the agent ended the connection");
            self.received.extend_from_slice(&buffer[..count]);
            if let Some(answer) = parse(std::str::from_utf8(&self.received).unwrap()) {
                return answer;
            }
        }
    }
}

fn parse(received: &str) -> Option<(u16, String)> {
    let (head, body) = received.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let length: usize = length.parse().ok()?;
    (body.len() >= length).then(|| (status, body.to_owned()))
}
