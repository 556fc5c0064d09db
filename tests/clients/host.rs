//! Stands in for the host of an Azure node. It tells CNS which interface the node has, up to which
//! version a network container is programmed, and which versions of metadata there are. A test says
//! what the host has programmed.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use berth_testbed::Node;
use serde_json::json;

/// The host's agent, and its metadata; both on the node itself.
pub const AGENT: &str = "127.0.0.1:9080";
const METADATA: &str = "169.254.169.254";

#[derive(Clone, Default)]
pub struct Host {
    /// The network container's id, and the version that it is programmed to.
    programmed: Arc<Mutex<(String, i64)>>,
}

impl Host {
    /// Answers until the test ends.
    pub fn start(node: &Node) -> Self {
        let host = Self::default();
        let mut command = node.command("ip");
        let added = command
            .args(["address", "add", METADATA, "dev", "lo"])
            .status()
            .unwrap();
        assert!(added.success());
        for address in [AGENT.to_owned(), format!("{METADATA}:80")] {
            let listener = node.on_network(|| Ok(TcpListener::bind(address)?)).unwrap();
            let (answering, interface) = (host.clone(), interface(node));
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    // A client that goes away is no failure.
                    drop(answering.answer(stream, &interface));
                }
            });
        }
        host
    }

    pub fn program(&self, id: &str, version: i64) {
        *self.programmed.lock().unwrap() = (id.to_owned(), version);
    }

    fn answer(&self, mut stream: TcpStream, interface: &str) -> Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let (status, body) = if request.contains("type=getinterfaceinfov1") {
            ("200 OK", interface.to_owned())
        } else if request.contains("interfaces%2Fapi-version%2F2") {
            let (id, version) = self.programmed.lock().unwrap().clone();
            let container = json!({"networkContainerId": id, "version": version.to_string()});
            let body = json!({"httpStatusCode": "200", "networkContainers": [container]});
            ("200 OK", body.to_string())
        } else if request.contains("/metadata/versions") {
            ("200 OK", json!({"apiVersions": ["2021-02-01"]}).to_string())
        } else {
            ("404 Not Found", String::new())
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        Ok(())
    }
}

fn interface(node: &Node) -> String {
    let address = node.address();
    format!(
        "<Interfaces><Interface MacAddress=\"000D3A000001\" \
         IsPrimary=\"true\"><IPSubnet Prefix=\"{address}/24\"><IPAddress \
         Address=\"{address}\" IsPrimary=\"true\"/></IPSubnet></Interface></Interfaces>"
    )
}
