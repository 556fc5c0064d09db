//! The network of `berth up`: a container for every node, and the Subnet that it is from.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::names::{DEFAULT_SUBNET, NAMESPACE};
use berth_api::nnc::NetworkContainer;
use berth_api::{NodeNetworkConfig, Subnet};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::{Running, refused, up};

/// The container of each of so many nodes, once all have one.
async fn containers(client: &Client, nodes: usize) -> BTreeMap<String, NetworkContainer> {
    let nncs = Api::<NodeNetworkConfig>::namespaced(client.clone(), NAMESPACE);
    loop {
        let nncs = nncs.list(&ListParams::default()).await.unwrap();
        let of_one = |nnc: NodeNetworkConfig| {
            let containers = nnc.status.clone().unwrap_or_default().network_containers;
            containers.into_iter().map(move |container| (nnc.name_any(), container))
        };
        let containers: BTreeMap<_, _> = nncs.into_iter().flat_map(of_one).collect();
        if containers.len() == nodes {
            return containers;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What `kubectl get` shows: each object's cells by the names of the columns, also those that only
/// `-o wide` shows.
async fn table(client: &Client, path: &str) -> Vec<BTreeMap<String, String>> {
    let request =
        http::Request::get(path).header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table: Value = client.request(request.body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(table["kind"], "Table");
    let columns = table["columnDefinitions"].as_array().unwrap();
    let of_row = |row: &Value| {
        let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        let cells = row["cells"].as_array().unwrap().iter().map(text);
        let names = columns.iter().map(|column| column["name"].as_str().unwrap().to_owned());
        names.zip(cells).collect()
    };
    table["rows"].as_array().unwrap().iter().map(of_row).collect()
}

#[tokio::test]
async fn every_node_gets_a_network_container_with_16_addresses() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args(["--nodes", "4", "--in-memory"]);
    let berth = Running::start(command);
    let client = berth.client().await;
    let supplied = |container: &NetworkContainer| container.ip_assignments.len() == 16;
    let containers = loop {
        let containers = containers(&client, 4).await;
        if containers.values().all(supplied) {
            break containers;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let names: Vec<&str> = containers.keys().map(String::as_str).collect();
    assert_eq!(names, ["berth-node-1", "berth-node-2", "berth-node-3", "berth-node-4"]);
    for container in containers.values() {
        assert_eq!(container.subnet_name, DEFAULT_SUBNET);
        assert!(container.primary_ip.starts_with("10.64.0."), "{container:?}");
    }
    let path = format!("/apis/acn.azure.com/v1alpha/namespaces/{NAMESPACE}/nodenetworkconfigs");
    for row in table(&client, &path).await {
        let shown = [
            ("Requested IPs", "16"),
            ("Allocated IPs", "16"),
            ("Subnet", DEFAULT_SUBNET),
            ("Subnet CIDR", "10.64.0.0/16"),
            ("NC ID", &containers[&row["Name"]].id),
            ("NC Mode", "dynamic"),
            ("NC Version", "1"),
        ];
        for (column, cell) in shown {
            assert_eq!(row[column], cell, "{column} in {row:?}");
        }
    }
}

#[tokio::test]
async fn the_first_start_creates_the_subnet_and_reports_its_usage() {
    let parent = tempfile::tempdir().unwrap();
    for (flags, cidrs, capacity, free) in [
        (&[][..], "10.64.0.0/16", "65534", "65500"),
        (&["--subnet", "10.99.0.0/24"][..], "10.99.0.0/24", "254", "220"),
    ] {
        let mut command = up(parent.path());
        command.args(["--nodes", "2", "--in-memory"]).args(flags);
        let berth = Running::start(command);
        let client = berth.client().await;
        let subnets = Api::<Subnet>::all(client.clone());
        assert_eq!(subnets.get(DEFAULT_SUBNET).await.unwrap().spec.cidrs, [cidrs]);
        loop {
            let rows = table(&client, "/apis/berth.dev/v1alpha1/subnets").await;
            let [row] = &rows[..] else {
                panic!("{rows:?}");
            };
            // An address for each node, and 16 for the pods of each.
            if row["Reserved"] == "34" {
                let columns =
                    ["Name", "Use", "Capacity", "Free", "Ready"].map(|column| row[column].as_str());
                assert_eq!(columns, [DEFAULT_SUBNET, "pods", capacity, free, "True"]);
                assert!(row["CIDRs"].contains(cidrs), "{row:?}");
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[test]
fn a_subnet_that_cannot_be_is_refused_before_anything_is_made() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    for (cidrs, words) in [
        (&["10.64.0.1/16"][..], ["--subnet 10.64.0.1/16", "10.64.0.0/16"]),
        (&["10.64.0.0/16", "10.64.3.0/24"], ["--subnet 10.64.0.0/16", "overlap"]),
        (&["pods"], ["--subnet pods", "10.64.0.0/16"]),
    ] {
        let mut command = up(&directory);
        for cidr in cidrs {
            command.args(["--subnet", cidr]);
        }
        refused(&command.output().unwrap(), &words);
    }
    assert!(!directory.exists());
}

#[test]
fn a_different_subnet_flag_after_the_first_start_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    assert_eq!(Running::start(up(parent.path())).signal("INT").code(), Some(0));
    let output = up(parent.path()).args(["--subnet", "10.99.0.0/24"]).output().unwrap();
    refused(
        &output,
        &["--subnet 10.99.0.0/24", "10.64.0.0/16", "append", "--data-dir"],
    );
}

#[tokio::test]
async fn every_node_has_the_address_that_it_had_before_a_kill() {
    let parent = tempfile::tempdir().unwrap();
    let addresses = |containers: BTreeMap<String, NetworkContainer>| -> BTreeMap<String, String> {
        let containers = containers.into_iter();
        containers
            .map(|(node, container)| (node, container.primary_ip))
            .collect()
    };
    let berth = Running::start(up(parent.path()));
    let before = addresses(containers(&berth.client().await, 3).await);
    berth.signal("KILL");
    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    // The first one that was not there before is given another address than all of those.
    let node = Node {
        metadata: ObjectMeta {
            name: Some("new".to_owned()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let mut after = addresses(containers(&client, 4).await);
    let new = after.remove("new").unwrap();
    assert_eq!(after, before);
    assert!(before.values().all(|address| *address != new), "{new} in {before:?}");
}

#[tokio::test]
async fn the_first_start_prints_its_own_lines_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let log = parent.path().join("log");
    let mut command = up(&parent.path().join("data"));
    command.stderr(std::fs::File::create(&log).unwrap());
    let berth = Running::start_as_is(command);
    containers(&berth.client().await, 3).await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "");
}
