//! EC2, as moto's server has it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use berth_routes::backend::aws::{Aws, AwsSettings};
use http::StatusCode;

use crate::cluster::Cluster;
use crate::server::Server;

/// A VPC with a route table and instances.
pub struct Ec2 {
    pub server: Server,
    pub tables: Vec<String>,
    pub instances: Vec<String>,
    credentials: tempfile::NamedTempFile,
}

pub fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let parts = text.split(open).skip(1);
    parts
        .filter_map(|part| part.split_once(close))
        .map(|(inside, _)| inside)
        .collect()
}

impl Ec2 {
    pub fn start(tables: usize, instances: usize) -> Self {
        Self::start_with(tables, instances, None)
    }

    /// With a number: after so many calls, moto wants to know who calls.
    pub fn start_with(tables: usize, instances: usize, open_calls: Option<usize>) -> Self {
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

    pub fn call(&self, action: &str, parameters: &str) -> String {
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

    pub fn backend(&self, port: u16) -> Arc<Aws> {
        let tables: Vec<String> = self
            .tables
            .iter()
            .map(|id| format!("RouteTableID = {id}\n"))
            .collect();
        self.backend_of(port, &format!("[Global]\n{}", tables.concat()))
    }

    pub fn backend_of(&self, port: u16, file: &str) -> Arc<Aws> {
        let credentials = self.credentials.path().display().to_string();
        backend(port, file, &[("AWS_SHARED_CREDENTIALS_FILE", &credentials)])
    }

    pub fn provider_id(&self, at: usize) -> String {
        format!("aws:///us-east-1a/{}", self.instances[at])
    }

    /// The routes to instances that the tables have in common.
    pub fn table(&self) -> BTreeSet<String> {
        self.table_of(0)
    }

    pub fn table_of(&self, at: usize) -> BTreeSet<String> {
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

    pub fn wanted(&self, nodes: &[(usize, usize)]) -> Vec<String> {
        let one = |(third, at): &(usize, usize)| {
            format!("10.120.{third}.0/24 by {}", self.instances[*at])
        };
        nodes.iter().map(one).collect()
    }

    pub async fn node(&self, cluster: &Cluster, at: usize) {
        let cidr = format!("10.120.{at}.0/24");
        let address = format!("10.0.0.{}", 10 + at);
        cluster
            .node(&format!("n{at}"), &cidr, &address, &self.provider_id(at))
            .await;
    }
}

pub fn backend(port: u16, file: &str, credentials: &[(&str, &str)]) -> Arc<Aws> {
    let endpoint = format!("http://127.0.0.1:{port}");
    let cloud = [
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
    ];
    let set = cloud.iter().chain(credentials);
    let environment: BTreeMap<String, String> = set
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Arc::new(Aws::new(AwsSettings::new(Some(file), &environment).unwrap()).unwrap())
}

pub fn ec2_error(status: u16, code: &str) -> Response {
    let body = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>test</Message></Error></Errors></Response>"
    );
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}
