//! Neutron, and a router of its own for each scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use berth_routes::backend::openstack::{OpenStack, OpenStackSettings};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::server::Server;

/// As the models of this Neutron have it: its migrations don't run on SQLite.
const SCHEMA: &str = "
import sys
from sqlalchemy import create_engine
from neutron.db.migration.models import head
head.get_metadata().create_all(create_engine(sys.argv[1]))
";

/// Those that run at the same time share one; the last one ends it.
fn shared() -> Arc<Server> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock();
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(Server::start(command));
    *shared = Arc::downgrade(&server);
    server
}

fn command(directory: &Path, port: u16) -> Command {
    let python = berth_testbed::peers::neutron().unwrap();
    let environment = python.parent().and_then(Path::parent).unwrap();
    let at = directory.display();
    let database = format!("sqlite:///{at}/neutron.sqlite");
    let paste = environment.join("etc/neutron/api-paste.ini");
    let settings = format!(
        "[DEFAULT]\nbind_host = 127.0.0.1\nbind_port = {port}\nauth_strategy = noauth\n\
         transport_url = fake://\ncore_plugin = ml2\nservice_plugins = router\n\
         api_workers = 1\nrpc_workers = 0\nrpc_state_report_workers = 0\nstate_path = {at}/state\n\
         api_paste_config = {}\n[oslo_concurrency]\nlock_path = {at}/lock\n\
         [database]\nconnection = {database}\n\
         [ml2]\ntype_drivers = local\ntenant_network_types = local\nmechanism_drivers =\n\
         extension_drivers = port_security\n",
        paste.display()
    );
    let file = directory.join("neutron.conf");
    std::fs::write(&file, settings).unwrap();
    let made = Command::new(&python)
        .args(["-W", "ignore", "-c", SCHEMA, &database])
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut command = Command::new(&python);
    command
        .args(["-W", "ignore"])
        .arg(environment.join("bin/neutron-server"));
    command.arg("--config-file").arg(file);
    command
}

/// A router with a network 10.0.0.0/16.
pub struct Router {
    server: Arc<Server>,
    id: String,
    tenant: String,
    network: String,
    subnet: String,
}

impl Router {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = shared();
        // Of its own: quotas are a tenant's, and so are default security groups.
        let tenant = format!("tenant-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let ask = |kind: &str, body: Value| {
            let path = format!("/v2.0/{kind}s");
            let body = json!({kind: body}).to_string();
            let (status, answer) = server.ask("POST", &path, JSON, &body);
            assert_eq!(status, 201, "{answer}");
            let answer: Value = serde_json::from_str(&answer).unwrap();
            answer[kind]["id"].as_str().unwrap().to_owned()
        };
        let network = ask("network", json!({"name": "nodes", "tenant_id": tenant}));
        let subnet = ask(
            "subnet",
            json!({"network_id": network, "cidr": "10.0.0.0/16", "ip_version": 4,
                   "tenant_id": tenant, "enable_dhcp": false}),
        );
        let id = ask("router", json!({"name": "router", "tenant_id": tenant}));
        let path = format!("/v2.0/routers/{id}/add_router_interface");
        let (status, answer) = server.ask(
            "PUT",
            &path,
            JSON,
            &json!({"subnet_id": subnet}).to_string(),
        );
        assert_eq!(status, 200, "{answer}");
        Self {
            server,
            id,
            tenant,
            network,
            subnet,
        }
    }

    pub fn port(&self) -> u16 {
        self.server.port
    }

    pub fn backend(&self) -> Arc<OpenStack> {
        self.backend_by(self.port())
    }

    pub fn backend_by(&self, port: u16) -> Arc<OpenStack> {
        self.backend_of(&format!(
            "auth-type = none\nendpoint = http://127.0.0.1:{port}\n"
        ))
    }

    pub fn backend_with_password(&self, port: u16, password: &str) -> Arc<OpenStack> {
        self.backend_of(&format!(
            "auth-url = http://127.0.0.1:{port}/v3\nusername = u\npassword = {password}\n\
             tenant-id = t\nregion = R\n"
        ))
    }

    fn backend_of(&self, global: &str) -> Arc<OpenStack> {
        let file = format!("[Global]\n{global}[Route]\nrouter-id = {}\n", self.id);
        let settings = OpenStackSettings::new(Some(&file), &BTreeMap::new()).unwrap();
        Arc::new(OpenStack::new(settings).unwrap())
    }

    /// By another hand.
    pub fn add(&self, routes: &Value) {
        let path = format!("/v2.0/routers/{}/add_extraroutes", self.id);
        let body = json!({"router": {"routes": routes}}).to_string();
        let (status, answer) = self.server.ask("PUT", &path, JSON, &body);
        assert_eq!(status, 200, "{answer}");
    }

    pub fn table(&self) -> BTreeSet<String> {
        let router = self.get(&format!("routers/{}", self.id));
        let routes = router["router"]["routes"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        routes
            .map(|one| format!("{} by {}", text(&one["destination"]), text(&one["nexthop"])))
            .collect()
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.server.ask("GET", &format!("/v2.0/{path}"), JSON, "");
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// A machine's port.
    pub fn port_with(&self, address: &str, security: bool) -> String {
        let fixed = json!([{"subnet_id": self.subnet, "ip_address": address}]);
        let body = json!({"port": {
            "network_id": self.network, "tenant_id": self.tenant, "fixed_ips": fixed,
            "port_security_enabled": security,
        }});
        let (status, answer) = self
            .server
            .ask("POST", "/v2.0/ports", JSON, &body.to_string());
        assert_eq!(status, 201, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["port"]["id"].as_str().unwrap().to_owned()
    }

    pub fn pairs(&self, port: &str) -> Vec<String> {
        let port = self.get(&format!("ports/{port}"));
        let pairs = port["port"]["allowed_address_pairs"]
            .as_array()
            .unwrap()
            .iter();
        pairs
            .map(|pair| pair["ip_address"].as_str().unwrap().to_owned())
            .collect()
    }
}

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];
