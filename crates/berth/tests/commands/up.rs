//! `berth up` as a person or a script runs it.

mod agents;
mod dashboard;
mod demo;
mod inspect;
mod machines;
mod metrics;
mod network;
mod people;
mod pods;
mod private;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

pub use pods::has_kubectl;

fn berth() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    // The tests' own environment must not decide.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BERTH_") {
            command.env_remove(name);
        }
    }
    command
}

fn up(directory: &Path) -> Command {
    let mut command = berth();
    command.args(["up", "--api-listen", "127.0.0.1:0", "--dashboard-listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(directory);
    command
}

/// A `berth up` that has said that it is up.
struct Running {
    child: Child,
    lines: Vec<String>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        command.stderr(Stdio::inherit());
        Self::start_as_is(command)
    }

    /// With what it logs wherever the command says.
    fn start_as_is(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines = out.lines().take(4).map(Result::unwrap).collect();
        Self { child, lines }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.lines[0].split_once("KUBECONFIG=").unwrap().1.into()
    }

    fn dashboard(&self) -> SocketAddr {
        let (_, rest) = self.lines[2].split_once("http://").unwrap();
        rest.trim_end_matches('/').parse().unwrap()
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }

    fn signal(mut self, name: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap()
    }
}

/// A test that fails must not leave a server behind.
impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn refused(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("berth: "), "{text}");
    for word in words {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    assert!(output.stdout.is_empty());
}

fn http(address: SocketAddr, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

#[test]
fn four_lines_say_what_to_do_next_and_nothing_follows() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let mut berth = Running::start(up(&directory));
    let kubeconfig = directory.join("kubeconfig");
    assert_eq!(
        berth.lines[0],
        format!("Berth is up. export KUBECONFIG={}", kubeconfig.display())
    );
    assert!(berth.lines[1].contains("kubectl "), "{:?}", berth.lines);
    assert!(berth.lines[2].contains("http://127.0.0.1:"), "{:?}", berth.lines);
    assert!(berth.lines[3].contains("Ctrl-C"), "{:?}", berth.lines);
    let mode = kubeconfig.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(berth.child.stdout.take());
    assert_eq!(berth.signal("INT").code(), Some(0));
}

#[tokio::test]
async fn the_kubeconfig_reaches_nodes_and_berths_own_resources() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args(["--nodes", "2", "--in-memory"]);
    let berth = Running::start(command);
    let client = berth.client().await;
    let nodes = Api::<Node>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(nodes.items.len(), 2);
    let crds = Api::<CustomResourceDefinition>::all(client)
        .list(&ListParams::default())
        .await
        .unwrap();
    let names: Vec<_> = crds
        .iter()
        .map(|crd| crd.spec.names.singular.clone().unwrap_or_default())
        .collect();
    for name in ["nodenetworkconfig", "clustersubnetstate", "subnet", "addressblock"] {
        assert!(names.contains(&name.to_owned()), "{name} is not in {names:?}");
    }
}

#[tokio::test]
async fn a_second_start_goes_on_where_the_first_stopped() {
    let parent = tempfile::tempdir().unwrap();
    let map = |name: &str| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.into());
        map
    };
    let berth = Running::start(up(parent.path()));
    let maps = Api::<ConfigMap>::default_namespaced(berth.client().await);
    let uid = maps
        .create(&PostParams::default(), &map("kept"))
        .await
        .unwrap()
        .metadata
        .uid;
    let node = Api::<Node>::all(berth.client().await)
        .get("berth-node-1")
        .await
        .unwrap();
    assert_eq!(berth.signal("TERM").code(), Some(0));

    let berth = Running::start(up(parent.path()));
    let maps = Api::<ConfigMap>::default_namespaced(berth.client().await);
    assert_eq!(maps.get("kept").await.unwrap().metadata.uid, uid);
    let again = Api::<Node>::all(berth.client().await)
        .get("berth-node-1")
        .await
        .unwrap();
    assert_eq!(again.metadata.uid, node.metadata.uid);
}

#[test]
fn a_directory_in_use_is_refused_and_its_kubeconfig_stays() {
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(parent.path()));
    let before = std::fs::read(berth.kubeconfig()).unwrap();
    let output = up(parent.path()).output().unwrap();
    refused(&output, &["--data-dir", "in use", parent.path().to_str().unwrap()]);
    assert_eq!(std::fs::read(berth.kubeconfig()).unwrap(), before);
}

#[test]
fn a_port_in_use_is_refused_before_anything_is_made() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--api-listen", "--dashboard-listen"] {
        let mut command = berth();
        command.args(["up", "--data-dir"]).arg(&directory);
        let other = if flag == "--api-listen" {
            "--dashboard-listen"
        } else {
            "--api-listen"
        };
        let output = command.args([flag, &address, other, "127.0.0.1:0"]).output().unwrap();
        refused(&output, &[flag, &address]);
        assert!(!directory.exists());
    }
}

#[test]
fn a_damaged_directory_is_refused_and_left_as_it_is() {
    let parent = tempfile::tempdir().unwrap();
    assert_eq!(Running::start(up(parent.path())).signal("INT").code(), Some(0));
    let file = parent.path().join("objects.redb");
    let length = file.metadata().unwrap().len();
    let garbage = vec![0x5a; usize::try_from(length).unwrap()];
    std::fs::write(&file, &garbage).unwrap();
    let output = up(parent.path()).output().unwrap();
    refused(&output, &["--data-dir", "damaged"]);
    assert!(std::fs::read(&file).unwrap() == garbage, "the file has changed");
}

#[test]
fn a_directory_that_cannot_be_one_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = up(file.path()).output().unwrap();
    refused(&output, &["--data-dir", file.path().to_str().unwrap()]);
}

#[test]
fn a_data_dir_too_long_for_sockets_is_refused_and_not_created() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("d".repeat(100));
    let output = up(&directory).output().unwrap();
    refused(&output, &["--data-dir", "socket", "shorter"]);
    assert!(!directory.exists());
}

#[test]
fn under_the_name_of_a_plugin_it_is_that_plugin() {
    for name in ["berth-ipam", "berth-cni"] {
        let output = berth().arg0(name).env("CNI_COMMAND", "VERSION").output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let versions = answer["supportedVersions"].as_array().unwrap();
        assert!(versions.contains(&"1.1.0".into()), "{answer}");
    }
}

#[test]
fn nodes_out_of_range_and_a_dashboard_for_everybody_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    for nodes in ["0", "1001"] {
        let output = up(&directory).args(["--nodes", nodes]).output().unwrap();
        refused(&output, &["--nodes", nodes, "1 to 1000"]);
    }
    let mut command = berth();
    command
        .args(["up", "--dashboard-listen", "0.0.0.0:0", "--data-dir"])
        .arg(&directory);
    refused(&command.output().unwrap(), &["--dashboard-listen", "loopback"]);
    assert!(!directory.exists());
}

#[test]
fn in_memory_keeps_nothing_but_the_kubeconfig_while_it_runs() {
    let parent = tempfile::tempdir().unwrap();
    // Stopped at once, when every node's agent begins a pass over its release queue: what one of
    // them is in the middle of must not recreate its directory.
    for _ in 0..8 {
        let mut command = berth();
        command.args([
            "up",
            "--in-memory",
            "--nodes",
            "20",
            "--api-listen",
            "127.0.0.1:0",
            "--dashboard-listen",
            "127.0.0.1:0",
        ]);
        command
            .env("TMPDIR", parent.path())
            .env("XDG_DATA_HOME", parent.path().join("xdg"));
        let berth = Running::start(command);
        let kubeconfig = berth.kubeconfig();
        assert!(kubeconfig.starts_with(parent.path()) && kubeconfig.exists());
        assert_eq!(berth.signal("INT").code(), Some(0));
        let left = Command::new("find")
            .arg(parent.path())
            .args(["-mindepth", "1"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    }
}

#[test]
fn flags_can_be_given_in_the_environment() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = berth();
    command
        .arg("up")
        .env("BERTH_DATA_DIR", parent.path())
        .env("BERTH_IN_MEMORY", "true")
        .env("BERTH_NODES", "1");
    command
        .env("BERTH_API_LISTEN", "127.0.0.1:0")
        .env("BERTH_DASHBOARD_LISTEN", "127.0.0.1:0");
    let berth = Running::start(command);
    assert_eq!(berth.kubeconfig(), parent.path().join("kubeconfig"));
    let (_, state) = http(berth.dashboard(), "/api/state", "localhost");
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert!(
        state["api"].as_str().unwrap().starts_with("https://127.0.0.1:"),
        "{state}"
    );
}

#[test]
fn the_dashboard_shows_what_runs_to_callers_on_this_machine() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args(["--in-memory", "--nodes", "2"]);
    let berth = Running::start(command);
    let address = berth.dashboard();
    let state = loop {
        let (code, state) = http(address, "/api/state", "localhost");
        assert_eq!(code, 200);
        let state: serde_json::Value = serde_json::from_str(&state).unwrap();
        if state["nodes"].as_array().unwrap().len() == 2 {
            break state;
        }
    };
    let mut nodes = state["nodes"].as_array().unwrap().iter();
    let node = nodes.find(|node| node["name"] == "berth-node-1").unwrap();
    assert_eq!(node["address"], "198.18.0.1");
    assert_eq!(state["version"], env!("CARGO_PKG_VERSION"));
    let (code, page) = http(address, "/", &address.to_string());
    assert_eq!(code, 200);
    assert!(page.contains("/app.js"), "{page}");
    for path in ["/app.js", "/app.css", "/icon.svg"] {
        assert_eq!(http(address, path, "127.0.0.1").0, 200, "{path}");
    }
    assert_eq!(http(address, "/", "evil.example").0, 403);
    assert_eq!(http(address, "/api/state", "evil.example").0, 403);
    assert_eq!(http(address, "/readyz", "127.0.0.1"), (200, "ok\n".to_owned()));
    let (_, metrics) = http(address, "/metrics", "127.0.0.1");
    assert!(metrics.contains("workqueue_depth"), "{metrics}");
}

#[test]
fn crds_and_version_are_printed() {
    let output = berth().arg("crds").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("kind: CustomResourceDefinition").count(), 4);
    let version = format!("berth {}\n", env!("CARGO_PKG_VERSION"));
    for argument in ["version", "--version"] {
        let output = berth().arg(argument).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), version);
    }
}
