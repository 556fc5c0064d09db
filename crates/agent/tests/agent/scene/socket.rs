//! An agent that serves, and calls to it as they are on the wire.

use std::io;
use std::path::{Path, PathBuf};

use berth_agent::Agent;
use berth_agent::server::{Listener, router};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::node::Node;

pub struct Served {
    pub node: Node,
    pub path: PathBuf,
    stop: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[allow(dead_code, reason = "each test program needs some of it")]
impl Served {
    pub async fn new(addresses: &[&str]) -> Self {
        Self::of(Node::new(), addresses).await
    }

    /// With its journal in a directory of somebody's.
    pub async fn with_state(addresses: &[&str], state_dir: &Path) -> Self {
        Self::of(Node::with_state(state_dir), addresses).await
    }

    /// As the next agent would find it, without a word to the one that runs.
    pub fn reopened(&self) -> Agent {
        self.node.open_again()
    }

    async fn of(node: Node, addresses: &[&str]) -> Self {
        node.deliver(addresses);
        let path = node.path("agent.sock");
        let listener = Listener::bind(&path).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(listener.serve(router(node.agent.clone()), stop.clone()));
        Self { node, path, stop }
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        send(&self.path, "POST", path, &body.to_string()).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        send(&self.path, "GET", path, "").await.unwrap()
    }
}

pub async fn add(served: &Served, n: u32) -> (u16, Value) {
    let attachment = json!({"container": format!("c{n}"), "interface": "eth0"});
    let request =
        json!({"attachment": attachment, "network": "pods", "started": served.node.agent.now()});
    served.post("/v1/request", &request).await
}

pub async fn send(socket: &Path, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
    let mut stream = UnixStream::connect(socket).await?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: agent\r\nConnection: \
         close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    // One that is refused before all of it is read answers and closes.
    let _ = stream.write_all(body.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| io::Error::other(format!("no answer: {answer}")))?;
    Ok((code, serde_json::from_str(body).unwrap_or(Value::Null)))
}
