//! `berth dashboard` beside a cluster that runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::pods::deploy;
use super::{Running, berth, http, refused, up};

struct Dashboard {
    child: Child,
    address: SocketAddr,
    /// What else it printed, as far as it was asked for.
    out: BufReader<ChildStdout>,
}

impl Dashboard {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let (said, address) = line.trim_end().split_once(" http://").unwrap();
        assert_eq!(said, "Berth's dashboard is up.");
        let address = address.trim_end_matches('/').parse().unwrap();
        Self { child, address, out }
    }

    fn ask(&self, path: &str) -> Value {
        let (code, text) = http(self.address, path, "localhost");
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test]
async fn a_separate_dashboard_shows_cluster_state_and_add_latency() {
    let parent = tempfile::tempdir().unwrap();
    let running = Running::start(up(parent.path()));
    let mut command = berth();
    command.args(["dashboard", "--listen", "127.0.0.1:0", "--kubeconfig"]);
    command.arg(running.kubeconfig());
    let metrics = format!("http://{}/metrics", running.dashboard());
    command.args(["--agent-metrics", &metrics]);
    let dashboard = Dashboard::start(command);
    while dashboard.ask("/api/latency")["times"].as_array().unwrap().is_empty() {}

    deploy(&running.client().await, 12).await;
    loop {
        let totals = dashboard.ask("/api/state")["totals"].clone();
        if totals["nodes"] == 3 && totals["pods"] == 12 && totals["podsWaiting"] == 0 {
            break;
        }
    }
    let is_slow = |seconds: &Value| seconds.as_f64().is_some_and(|seconds| seconds > 0.0);
    loop {
        let columns = dashboard.ask("/api/latency");
        if columns["median"].as_array().unwrap().iter().any(is_slow) {
            break;
        }
    }
}

fn post(address: SocketAddr, path: &str, token: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Type: \
         application/json\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (code, answer)
}

#[test]
fn dashboard_changes_need_the_token_printed_or_in_the_file() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let running = Running::start(up(&data));
    let machine = |name: &str| {
        format!(r#"{{"group": "cluster.k8s.io", "namespace": "default", "name": "{name}"}}"#)
    };
    // Of `berth up`: a file for its owner alone.
    let file = data.join("dashboard-token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let own = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert_eq!(own.len(), 64);
    let path = "/api/machines";
    let (code, text) = post(running.dashboard(), path, &own, &machine("m1"));
    assert_eq!(code, 200, "{text}");

    // Of `berth dashboard`: printed, and another each time.
    let dashboard = || {
        let mut command = berth();
        command.args(["dashboard", "--listen", "127.0.0.1:0", "--kubeconfig"]);
        command.arg(running.kubeconfig());
        command
    };
    let mut one = Dashboard::start(dashboard());
    let mut line = String::new();
    one.out.read_line(&mut line).unwrap();
    let printed = line.trim_end().strip_prefix("Changes need the token ").unwrap();
    assert_eq!(post(one.address, path, &own, &machine("m2")).0, 401);
    let (code, text) = post(one.address, path, printed, &machine("m2"));
    assert_eq!(code, 200, "{text}");

    // Or handed in.
    let mut command = dashboard();
    command.arg("--token-file").arg(&file);
    let other = Dashboard::start(command);
    assert_eq!(post(other.address, path, printed, &machine("m3")).0, 401);
    let (code, text) = post(other.address, path, &own, &machine("m3"));
    assert_eq!(code, 200, "{text}");
}

#[test]
fn a_token_that_others_can_read_or_guess_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("token");
    for (text, mode, word) in [
        ("a-token-that-is-long", 0o644, "chmod 600"),
        ("short", 0o600, "at least 16"),
    ] {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        let data = parent.path().join("data");
        let mut command = up(&data);
        command.arg("--dashboard-token-file").arg(&file);
        refused(&command.output().unwrap(), &["--dashboard-token-file", word]);
        assert!(!data.exists(), "nothing was changed");
        let mut command = berth();
        command
            .args(["dashboard", "--listen", "127.0.0.1:0", "--token-file"])
            .arg(&file);
        refused(&command.output().unwrap(), &["--token-file", word]);
    }
}

#[test]
fn a_non_loopback_listen_and_a_bad_metrics_url_are_refused() {
    let output = berth().args(["dashboard", "--listen", "0.0.0.0:0"]).output().unwrap();
    refused(&output, &["--listen", "loopback", "127.0.0.1:0"]);
    for url in ["https://10.0.0.4:9464/metrics", "/metrics"] {
        let output = berth().args(["dashboard", "--agent-metrics", url]).output().unwrap();
        refused(&output, &["--agent-metrics", url, "http://"]);
    }
}
