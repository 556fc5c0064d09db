//! AWS, as moto's server has it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "clouds/cluster.rs"]
mod cluster;
#[path = "clouds/ec2.rs"]
mod ec2;
#[path = "clouds/logs.rs"]
mod logs;
#[path = "clouds/proxy.rs"]
mod proxy;
#[path = "clouds/server.rs"]
mod server;
#[path = "clouds/web_identity.rs"]
mod web_identity;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use berth_routes::backend::{Backend, ErrorKind};
use cluster::{Cluster, table_is, wait_for};
use ec2::{Ec2, ec2_error};
use proxy::Proxy;

#[tokio::test(flavor = "multi_thread")]
async fn routes_come_change_and_go_with_their_nodes() {
    let ec2 = Ec2::start(1, 4);
    let cluster = Cluster::open().await;
    let controller = cluster.start(ec2.backend(ec2.server.port), "10.120.0.0/16");
    for at in 0..3 {
        ec2.node(&cluster, at).await;
    }
    table_is(|| ec2.table(), &ec2.wanted(&[(0, 0), (1, 1), (2, 2)])).await;
    cluster.unavailable_is("n0", "False").await;
    // Packets that are not its own may pass an instance that is a router.
    let attribute = format!("InstanceId={}&Attribute=sourceDestCheck", ec2.instances[0]);
    let check = ec2.call("DescribeInstanceAttribute", &attribute);
    assert!(check.contains("<value>false</value>"), "{check}");
    // Another machine under the same name and CIDR.
    cluster.delete("n1").await;
    cluster
        .node("n1", "10.120.1.0/24", "10.0.0.99", &ec2.provider_id(3))
        .await;
    cluster.delete("n2").await;
    table_is(|| ec2.table(), &ec2.wanted(&[(0, 0), (1, 3)])).await;
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_of_the_cluster_has_the_routes() {
    let ec2 = Ec2::start(2, 2);
    for table in &ec2.tables {
        let tag = "Tag.1.Key=kubernetes.io%2Fcluster%2Ftest&Tag.1.Value=owned";
        ec2.call("CreateTags", &format!("ResourceId.1={table}&{tag}"));
    }
    let cluster = Cluster::open().await;
    let backend = ec2.backend_of(ec2.server.port, "[Global]\nKubernetesClusterID = test\n");
    let controller = cluster.start(backend, "10.120.0.0/16");
    ec2.node(&cluster, 0).await;
    for at in 0..2 {
        table_is(|| ec2.table_of(at), &ec2.wanted(&[(0, 0)])).await;
    }
    // Somebody removes it from one of them.
    let lost = format!(
        "RouteTableId={}&DestinationCidrBlock=10.120.0.0%2F24",
        ec2.tables[1]
    );
    ec2.call("DeleteRoute", &lost);
    ec2.node(&cluster, 1).await;
    for at in 0..2 {
        table_is(|| ec2.table_of(at), &ec2.wanted(&[(0, 0), (1, 1)])).await;
    }
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_midway_converges_and_keeps_foreign_routes() {
    let ec2 = Ec2::start(1, 8);
    // Of somebody else, with an instance that is not a node.
    let foreign = format!(
        "RouteTableId={}&DestinationCidrBlock=10.120.200.0%2F24&InstanceId={}",
        ec2.tables[0], ec2.instances[7]
    );
    ec2.call("CreateRoute", &foreign);
    let cluster = Cluster::open().await;
    let controller = cluster.start(ec2.backend(ec2.server.port), "10.120.0.0/16");
    for at in 0..4 {
        ec2.node(&cluster, at).await;
    }
    wait_for("one is there", async || {
        if ec2.table().len() > 1 {
            Ok(())
        } else {
            Err(String::new())
        }
    })
    .await;
    controller.kill();
    cluster.delete("n0").await;
    cluster.delete("n1").await;
    let controller = cluster.start(ec2.backend(ec2.server.port), "10.120.0.0/16");
    for at in 4..6 {
        ec2.node(&cluster, at).await;
    }
    table_is(
        || ec2.table(),
        &ec2.wanted(&[(2, 2), (3, 3), (4, 4), (5, 5), (200, 7)]),
    )
    .await;
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn throttling_and_duplicates_end_with_the_wanted_table() {
    let ec2 = Ec2::start(1, 20);
    let proxy = Proxy::start(ec2.server.port);
    let mut calls = 0;
    proxy.instead(move |_, body| {
        calls += 1;
        let creates = body.contains("Action=CreateRoute");
        (creates && calls % 3 == 0).then(|| ec2_error(503, "RequestLimitExceeded"))
    });
    let cluster = Cluster::open().await;
    let controller = cluster.start(ec2.backend(proxy.port), "10.120.0.0/16");
    for at in 0..10 {
        ec2.node(&cluster, at).await;
    }
    // By another hand, while the controller makes the same.
    for at in 10..20 {
        let same = format!(
            "RouteTableId={}&DestinationCidrBlock=10.120.{at}.0%2F24&InstanceId={}",
            ec2.tables[0], ec2.instances[at]
        );
        ec2.call("CreateRoute", &same);
        ec2.node(&cluster, at).await;
    }
    let all: Vec<(usize, usize)> = (0..20).map(|at| (at, at)).collect();
    table_is(|| ec2.table(), &ec2.wanted(&all)).await;
    for at in 0..20 {
        cluster.unavailable_is(&format!("n{at}"), "False").await;
    }
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_table_is_visible_and_goes_on_when_there_is_room() {
    let ec2 = Ec2::start(1, 4);
    let proxy = Proxy::start(ec2.server.port);
    let full = Arc::new(AtomicBool::new(true));
    let is_full = full.clone();
    proxy.instead(move |_, body| {
        let creates = body.contains("Action=CreateRoute") && body.contains("10.120.3.0");
        let full = is_full.load(Ordering::SeqCst);
        (creates && full).then(|| ec2_error(400, "RouteLimitExceeded"))
    });
    let cluster = Cluster::open().await;
    let controller = cluster.start(ec2.backend(proxy.port), "10.120.0.0/16");
    for at in 0..4 {
        ec2.node(&cluster, at).await;
    }
    cluster.unavailable_is("n3", "True").await;
    table_is(|| ec2.table(), &ec2.wanted(&[(0, 0), (1, 1), (2, 2)])).await;
    full.store(false, Ordering::SeqCst);
    cluster.delete("n0").await;
    table_is(|| ec2.table(), &ec2.wanted(&[(1, 1), (2, 2), (3, 3)])).await;
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_one_clear_error() {
    let ec2 = Ec2::start_with(0, 0, Some(2));
    let backend = ec2.backend_of(ec2.server.port, "[Global]\nRouteTableID = rtb-1\n");
    let error = tokio::time::timeout(Duration::from_secs(60), backend.list())
        .await
        .unwrap();
    let error = error.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
    assert!(
        error.message.starts_with("DescribeRouteTables: "),
        "{error}"
    );
    assert!(!error.message.contains("secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_there_is_named() {
    let ec2 = Ec2::start(0, 0);
    let backend = ec2.backend_of(ec2.server.port, "[Global]\nKubernetesClusterID = other\n");
    let error = backend.list().await.unwrap_err();
    assert!(
        error.message.contains("kubernetes.io/cluster/other"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_instead_of_routes_deletes_nothing() {
    let ec2 = Ec2::start(1, 2);
    let proxy = Proxy::start(ec2.server.port);
    let mut lists = 0;
    proxy.after(move |_, body| {
        let is_list = body.contains("<routeTableSet>");
        lists += usize::from(is_list);
        // The end of it is lost, or all of it.
        match (is_list, lists) {
            (true, 1) => body[..body.len() / 2].to_owned(),
            (true, 2) => String::new(),
            _ => body,
        }
    });
    let cluster = Cluster::open().await;
    let controller = cluster.start(ec2.backend(proxy.port), "10.120.0.0/16");
    for at in 0..2 {
        ec2.node(&cluster, at).await;
    }
    table_is(|| ec2.table(), &ec2.wanted(&[(0, 0), (1, 1)])).await;
    assert!(
        !proxy
            .calls()
            .iter()
            .any(|call| call.contains("Action=DeleteRoute"))
    );
    controller.stop().await;
    cluster.close().await;
}
