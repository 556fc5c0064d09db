//! `berth dashboard` under its own role, on a real kube-apiserver whose ledger is in AddressBlocks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use berth_api::names::NAMESPACE;
use berth_api::{NodeNetworkConfig, Subnet};
use berth_testbed::Cluster;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::form::{clusters, make_cluster};

/// A process of ours that ends with the test.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str], kubeconfig: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
        Self(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// From the line that says that it is up.
    fn address(&mut self) -> SocketAddr {
        let mut line = String::new();
        let mut out = BufReader::new(self.0.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let (_, address) = line.trim_end().split_once("http://").expect(&line);
        address.trim_end_matches('/').parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

async fn connect(cluster: &Cluster) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

fn get(address: SocketAddr, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn post(address: SocketAddr, path: &str, token: &str, body: &Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Type: \
         application/json\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, serde_json::from_str(body).unwrap())
}

/// Its schema, its CEL rules, its dry runs and its conflicts are the real ones here.
async fn forms_write_once_the_role_lets_them(
    cluster: &Cluster,
    client: &Client,
    address: SocketAddr,
    token: &str,
) {
    cluster.apply(&deploy("machines/crds")).unwrap();
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let established = conditions::is_crd_established();
    await_condition(crds, "clusters.kubermatic.k8s.io", established)
        .await
        .unwrap();
    make_cluster(client, "blue", json!({"vsphere": {}})).await;
    let path = "/api/clusters/blue";
    let form =
        |networks: Value| json!({"version": get(address, path)["version"], "networks": networks});
    let one = json!([{"cidr": "192.168.1.128/25", "gateway": "192.168.1.1"}]);
    let told = get(address, path);
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("dashboard-write.yaml"), "{told}");

    cluster.apply(&deploy("rbac/dashboard-write.yaml")).unwrap();
    for (verb, resource) in [
        ("patch", "clusters.kubermatic.k8s.io"),
        ("create", "machines.cluster.k8s.io"),
        ("patch", "machines.machine.k8s.io"),
    ] {
        while !may(cluster, verb, resource) {}
    }
    let many: Vec<Value> = (0..17).map(|n| json!({"cidr": format!("10.0.{n}.0/24")})).collect();
    let (code, told) = post(address, "/api/clusters/blue/check", token, &form(json!(many)));
    assert_eq!(
        (code, &told["errors"][0]["field"]),
        (200, &json!("spec.machineNetworks"))
    );
    let old = form(json!([{"cidr": "10.9.0.0/24"}]));
    let (code, told) = post(address, path, token, &form(one.clone()));
    assert_eq!(code, 200, "{told}");
    let networks = async || {
        let live = clusters(client).get("blue").await.unwrap();
        live.data["spec"]["machineNetworks"].clone()
    };
    assert_eq!(networks().await, one);
    let (code, told) = post(address, path, token, &old);
    assert_eq!(code, 409, "{told}");
    let (code, told) = post(address, path, token, &form(json!([])));
    assert_eq!(code, 422, "{told}");
    assert_eq!(networks().await, one);
}

fn may(cluster: &Cluster, verb: &str, resource: &str) -> bool {
    let account = format!("--as=system:serviceaccount:{NAMESPACE}:berth-dashboard");
    let mut kubectl = cluster.kubectl();
    let output = kubectl.args(["auth", "can-i", verb, resource, "-A", &account]).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim() == "yes"
}

/// Three Nodes that have asked for 16 addresses each.
async fn fill(client: &Client) {
    let subnet: Subnet = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "pods"},
        "spec": {"cidrs": ["10.64.0.0/20"], "gateways": ["10.64.0.1"]},
    }))
    .unwrap();
    let params = PostParams::default();
    Api::<Subnet>::all(client.clone())
        .create(&params, &subnet)
        .await
        .unwrap();
    let nodes = Api::<Node>::all(client.clone());
    let nncs = Api::<NodeNetworkConfig>::namespaced(client.clone(), NAMESPACE);
    for name in ["n1", "n2", "n3"] {
        let node = json!({
            "metadata": {"name": name},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
        });
        nodes
            .create(&params, &serde_json::from_value(node).unwrap())
            .await
            .unwrap();
        let asked = Patch::Merge(json!({"spec": {"requestedIPCount": 16}}));
        // The controller makes it.
        while nncs.patch(name, &PatchParams::default(), &asked).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_map_of_address_blocks_counts_what_the_subnet_counts() {
    let cluster = berth_testbed::control_plane().unwrap();
    for path in ["crds", "rbac/controller.yaml", "rbac/dashboard.yaml"] {
        cluster.apply(&deploy(path)).unwrap();
    }
    let account = |name: &str| cluster.kubeconfig_of_account(NAMESPACE, name, None).unwrap();
    let client = connect(cluster).await;
    let _controller = Process::start(&["controller"], &account("berth-controller"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let flags = [
        "dashboard",
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        file.to_str().unwrap(),
    ];
    let mut dashboard = Process::start(&flags, &account("berth-dashboard"));
    let address = dashboard.address();
    let token = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    fill(&client).await;

    let subnets = Api::<Subnet>::all(client.clone());
    let map = loop {
        let map = get(address, "/api/subnets/pods/map");
        let status = subnets.get_status("pods").await.unwrap().status.unwrap_or_default();
        let count = |name: &str| map["counts"][name].as_u64().map(u128::from);
        let Some(free) = count("free") else { continue };
        let taken = ["primary", "leased", "assigned"].map(|name| count(name).unwrap());
        if status
            .reserved
            .is_some_and(|all| all.0 == 51 && all.0 == taken.iter().sum::<u128>())
            && status.free.map(|all| all.0) == Some(free)
        {
            break map;
        }
    };
    assert_eq!(map["source"], "addressBlocks");
    assert_eq!(
        (&map["counts"]["primary"], &map["counts"]["leased"]),
        (&json!(3), &json!(48))
    );
    // Both ends, and the gateway.
    assert_eq!(map["counts"]["setAside"], 3);
    let mut cells = map["cells"].as_array().unwrap().iter();
    let leased = cells.find(|cell| cell["leased"] == 1).unwrap();
    assert!(
        leased["detail"]["owner"].as_str().unwrap().starts_with("secondary n"),
        "{leased}"
    );
    assert!(leased["detail"]["since"].is_string(), "{leased}");

    let state = loop {
        let state = get(address, "/api/state");
        if state["unsynced"].as_array().unwrap().is_empty() && state["leaders"][0].is_object() {
            break state;
        }
    };
    assert_eq!(state["leaders"][0]["name"], "berth-controller");
    assert_eq!(state["leaders"][0]["isExpired"], false);
    assert_eq!(state["totals"]["nodes"], 3);
    assert_eq!(state["missing"], json!([]), "Machines are not missed");

    assert!(may(cluster, "list", "pods") && may(cluster, "watch", "subnets.berth.dev"));
    for verb in ["create", "update", "patch", "delete"] {
        for resource in ["pods", "nodes", "subnets.berth.dev", "addressblocks.berth.dev"] {
            assert!(!may(cluster, verb, resource), "{verb} {resource}");
        }
    }
    assert!(!may(cluster, "list", "secrets"));
    forms_write_once_the_role_lets_them(cluster, &client, address, &token).await;
}
