//! AWS, as moto's server has it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "clouds/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "some of its words are for Neutron")]
#[path = "clouds/proxy.rs"]
mod proxy;
#[path = "clouds/server.rs"]
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use berth_routes::backend::aws::{Aws, AwsSettings};
use berth_routes::backend::{Backend, ErrorKind};
use cluster::{Cluster, table_is, wait_for};
use http::StatusCode;
use proxy::Proxy;
use server::Server;

/// A VPC with a route table and instances.
struct Ec2 {
    server: Server,
    tables: Vec<String>,
    instances: Vec<String>,
    credentials: tempfile::NamedTempFile,
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let parts = text.split(open).skip(1);
    parts
        .filter_map(|part| part.split_once(close))
        .map(|(inside, _)| inside)
        .collect()
}

impl Ec2 {
    fn start(tables: usize, instances: usize) -> Self {
        Self::start_with(tables, instances, None)
    }

    /// With a number: after so many calls, moto wants to know who calls.
    fn start_with(tables: usize, instances: usize, open_calls: Option<usize>) -> Self {
        let python = berth_testbed::peers::moto().unwrap();
        let server = Server::start(|_, port| {
            let mut command = Command::new(python);
            command.args([
                "-m",
                "moto.server",
                "-H",
                "127.0.0.1",
                "-p",
                &port.to_string(),
            ]);
            if let Some(calls) = open_calls {
                command.env("INITIAL_NO_AUTH_ACTION_COUNT", calls.to_string());
            }
            command
        });
        let mut credentials = tempfile::NamedTempFile::new().unwrap();
        let keys = "[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret\n";
        credentials.write_all(keys.as_bytes()).unwrap();
        let mut ec2 = Self {
            server,
            tables: Vec::new(),
            instances: Vec::new(),
            credentials,
        };
        let vpc = ec2.call("CreateVpc", "CidrBlock=10.0.0.0/16");
        let vpc = between(&vpc, "<vpcId>", "</vpcId>")[0].to_owned();
        let subnet = ec2.call(
            "CreateSubnet",
            &format!("VpcId={vpc}&CidrBlock=10.0.0.0/20"),
        );
        let subnet = between(&subnet, "<subnetId>", "</subnetId>")[0].to_owned();
        for _ in 0..tables {
            let table = ec2.call("CreateRouteTable", &format!("VpcId={vpc}"));
            ec2.tables
                .push(between(&table, "<routeTableId>", "</routeTableId>")[0].to_owned());
        }
        if instances > 0 {
            let parameters = format!(
                "ImageId=ami-12c6146b&MinCount={instances}&MaxCount={instances}&SubnetId={subnet}"
            );
            let run = ec2.call("RunInstances", &parameters);
            ec2.instances = between(&run, "<instanceId>", "</instanceId>")
                .into_iter()
                .map(String::from)
                .collect();
        }
        ec2
    }

    fn call(&self, action: &str, parameters: &str) -> String {
        let body = format!("Action={action}&Version=2016-11-15&{parameters}");
        let authorization = "AWS4-HMAC-SHA256 \
                             Credential=AKIDTEST/20260101/us-east-1/ec2/aws4_request, \
                             SignedHeaders=host, Signature=0";
        let headers = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Authorization", authorization),
        ];
        let (status, answer) = self.server.ask("POST", "/", &headers, &body);
        assert_eq!(status, 200, "{action}: {answer}");
        answer
    }

    fn backend(&self, port: u16) -> Arc<Aws> {
        let tables: Vec<String> = self
            .tables
            .iter()
            .map(|id| format!("RouteTableID = {id}\n"))
            .collect();
        self.backend_of(port, &format!("[Global]\n{}", tables.concat()))
    }

    fn backend_of(&self, port: u16, file: &str) -> Arc<Aws> {
        let environment = BTreeMap::from([
            ("AWS_REGION".to_owned(), "us-east-1".to_owned()),
            (
                "AWS_ENDPOINT_URL".to_owned(),
                format!("http://127.0.0.1:{port}"),
            ),
            (
                "AWS_SHARED_CREDENTIALS_FILE".to_owned(),
                self.credentials.path().display().to_string(),
            ),
        ]);
        Arc::new(Aws::new(AwsSettings::new(Some(file), &environment).unwrap()).unwrap())
    }

    fn provider_id(&self, at: usize) -> String {
        format!("aws:///us-east-1a/{}", self.instances[at])
    }

    /// The routes to instances that the tables have in common.
    fn table(&self) -> BTreeSet<String> {
        self.table_of(0)
    }

    fn table_of(&self, at: usize) -> BTreeSet<String> {
        let answer = self.call(
            "DescribeRouteTables",
            &format!("RouteTableId.1={}", self.tables[at]),
        );
        let routes = between(&answer, "<routeSet>", "</routeSet>")[0].to_owned();
        let items = between(&routes, "<item>", "</item>");
        items
            .into_iter()
            .filter_map(|item| {
                let instance = between(item, "<instanceId>", "</instanceId>")
                    .first()
                    .copied()?;
                let v4 = between(item, "<destinationCidrBlock>", "</destinationCidrBlock>");
                Some(format!("{} by {instance}", v4.first()?))
            })
            .collect()
    }

    fn wanted(&self, nodes: &[(usize, usize)]) -> Vec<String> {
        let one = |(third, at): &(usize, usize)| {
            format!("10.120.{third}.0/24 by {}", self.instances[*at])
        };
        nodes.iter().map(one).collect()
    }

    async fn node(&self, cluster: &Cluster, at: usize) {
        let cidr = format!("10.120.{at}.0/24");
        let address = format!("10.0.0.{}", 10 + at);
        cluster
            .node(&format!("n{at}"), &cidr, &address, &self.provider_id(at))
            .await;
    }
}

fn ec2_error(status: u16, code: &str) -> Response {
    let body = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>test</Message></Error></Errors></Response>"
    );
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

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
async fn a_restart_in_the_middle_leaves_the_wanted_table_and_routes_of_others() {
    let ec2 = Ec2::start(1, 8);
    // Of somebody else, with an instance that is no node.
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
    let full = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_full = full.clone();
    proxy.instead(move |_, body| {
        let creates = body.contains("Action=CreateRoute") && body.contains("10.120.3.0");
        let full = is_full.load(std::sync::atomic::Ordering::SeqCst);
        (creates && full).then(|| ec2_error(400, "RouteLimitExceeded"))
    });
    let cluster = Cluster::open().await;
    let controller = cluster.start(ec2.backend(proxy.port), "10.120.0.0/16");
    for at in 0..4 {
        ec2.node(&cluster, at).await;
    }
    cluster.unavailable_is("n3", "True").await;
    table_is(|| ec2.table(), &ec2.wanted(&[(0, 0), (1, 1), (2, 2)])).await;
    full.store(false, std::sync::atomic::Ordering::SeqCst);
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
