//! The dashboard of `berth up` in a real Chromium: it loads, tells what changes, counts as the API
//! does, and can be used by everybody. Screenshots are left in `target/e2e/dashboard`.
//!
//! It needs Chromium, Node.js and what `npm ci` puts into `crates/dashboard/web`; `cargo xtask
//! test` sets them up.

use std::time::SystemTime;

use berth_api::Subnet;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::up::{Berth, screenshots};

const VIEWS: [&str; 7] = ["", "subnets", "nodes", "pods", "machines", "routes", "events"];

async fn deploy(client: &Client, replicas: i32) {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    }))
    .unwrap();
    let api = Api::<Deployment>::default_namespaced(client.clone());
    api.create(&PostParams::default(), &deployment).await.unwrap();
}

async fn pods_with_address(client: &Client) -> Vec<Pod> {
    let api = Api::<Pod>::default_namespaced(client.clone());
    let pods = api.list(&ListParams::default()).await.unwrap().items;
    let has = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
    pods.into_iter().filter(has).collect()
}

fn milliseconds(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()
}

#[tokio::test]
async fn a_change_in_the_cluster_is_on_the_page_without_a_reload() {
    let berth = Berth::start(&["--in-memory"]);
    let client = berth.client().await;
    let mut browser = berth.browser();
    browser.size(1440, 900, "light");
    browser.open("");
    browser.wait("a[href='#/subnets/pods']");
    let subnet: Subnet = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "extra"},
        "spec": {"cidrs": ["10.99.0.0/24"], "nodeSelector": {"matchLabels": {"no": "node"}}},
    }))
    .unwrap();
    let subnets = Api::<Subnet>::all(client);
    subnets.create(&PostParams::default(), &subnet).await.unwrap();
    let written = milliseconds(SystemTime::now());
    let seen = browser.wait("a[href='#/subnets/extra']");
    println!("on the page {} ms after the API's answer", seen.saturating_sub(written));
    assert_eq!(browser.errors(), [""; 0]);
}

#[tokio::test]
async fn the_map_counts_what_the_api_counts() {
    let berth = Berth::start(&["--in-memory", "--subnet", "10.64.0.0/20"]);
    let client = berth.client().await;
    let mut browser = berth.browser();
    browser.size(1440, 900, "light");
    deploy(&client, 40).await;
    browser.open("subnets/pods");
    let subnets = Api::<Subnet>::all(client.clone());
    // All of it moves until every pod has its address and no node asks for more.
    let (counts, pods) = loop {
        let pods = pods_with_address(&client).await;
        let before = subnets.get_status("pods").await.unwrap().status.unwrap();
        let counts = browser.counts();
        let count = |name: &str| u128::from(counts[name].as_u64().unwrap());
        let reserved = count("primary") + count("leased") + count("assigned");
        let agrees = before.reserved.map(|count| count.0) == Some(reserved)
            && before.free.map(|count| count.0) == Some(count("free"))
            && before.capacity.map(|all| all.0) == Some(4096 - count("setAside"));
        if agrees && pods.len() == 40 && count("assigned") == 40 {
            break (counts, pods);
        }
    };
    assert_eq!(counts["primary"], 3, "one for each node");

    // A cell says whose it is, and keys do what a mouse does.
    let address = pods[0].status.clone().unwrap().pod_ip.unwrap();
    let parts: Vec<u64> = address.split('.').map(|part| part.parse().unwrap()).collect();
    let told = browser.hover(parts[2] * 256 + parts[3]);
    let name = pods[0].metadata.name.clone().unwrap();
    assert!(told.starts_with(&format!("{address}: assigned")), "{told}");
    assert!(told.contains(&format!("pod default/{name}")), "{told}");
    assert!(told.contains("node berth-node-"), "{told}");
    assert!(told.contains("since "), "{told}");
    browser.press(&["Home", "ArrowRight"]);
    browser.says(".cell", "10.64.0.1: ");
    assert_eq!(browser.errors(), [""; 0]);
}

#[tokio::test]
async fn keys_look_into_a_cell_and_back() {
    let berth = Berth::start(&["--in-memory"]);
    let mut browser = berth.browser();
    browser.size(1440, 900, "light");
    browser.open("subnets/pods");
    browser.wait("[data-window='10.64.0.0/16']");
    browser.press(&["Home", "Enter"]);
    browser.wait("[data-window='10.64.0.0/24']");
    browser.press(&["Backspace"]);
    browser.wait("[data-window='10.64.0.0/16']");
    assert_eq!(browser.errors(), [""; 0]);
}

#[tokio::test]
async fn everybody_can_read_every_view_on_a_desk_and_on_a_phone() {
    // Too few addresses, so that pods wait, and podCIDRs in the second run.
    let small = ["--in-memory", "--subnet", "10.9.0.0/27"];
    let cidrs = ["--in-memory", "--node-cidrs", "10.244.0.0/16"];
    for (arguments, name) in [(small, "pods"), (cidrs, "node-cidrs")] {
        let berth = Berth::start(&arguments);
        let client = berth.client().await;
        deploy(&client, 60).await;
        let mut browser = berth.browser();
        if name == "pods" {
            browser.open("");
            browser.wait(".tile.bad");
        }
        for (width, height) in [(1440, 900), (360, 740)] {
            for theme in ["light", "dark"] {
                browser.size(width, height, theme);
                for view in VIEWS {
                    browser.open(view);
                    if view == "subnets" {
                        browser.wait("[data-window]");
                        browser.wait(".chart .u-over");
                    }
                    let shown = if view.is_empty() { "overview" } else { view };
                    let place = format!("{name} {shown} at {width} in {theme}");
                    assert_eq!(browser.faults(), [""; 0], "{place}");
                    let file = format!("{name}-{shown}-{width}-{theme}.png");
                    browser.shot(&screenshots().join(file));
                }
            }
        }
        assert_eq!(browser.errors(), [""; 0]);
    }
}
