//! The dashboard's forms under their own roles: their writes use every right that these roles have.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use berth_e2e::{Seen, wait_for};
use berth_machines::machine::Shape;
use kube::Api;
use kube::api::PostParams;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::site::{Site, kill};
use crate::webhook::free_address;

/// Writes the network of a Cluster. Creates and changes a Machine of each kind.
pub async fn forms_write_under_their_own_roles(site: &Site) {
    let rbac = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/rbac");
    for role in ["dashboard.yaml", "dashboard-write.yaml"] {
        site.scene.cluster.apply(&rbac.join(role)).unwrap();
    }
    let cluster = &site.scene.cluster;
    let kubeconfig = cluster.kubeconfig_of_account("kube-system", "berth-dashboard", None);
    let (address, token) = (free_address(), cluster.logs().join("dashboard-token"));
    let listen = format!("--listen={address}");
    let file = format!("--token-file={}", token.display());
    let running = site.start("dashboard", "dashboard", &kubeconfig.unwrap(), &[&listen, &file]);
    wait_for(&site.scene, "the dashboard serves", async || {
        Ok(match TcpStream::connect(address) {
            Ok(_) => Seen::There,
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await
    .unwrap();
    let page = Page {
        address,
        token: std::fs::read_to_string(&token).unwrap().trim().to_owned(),
    };

    create_cluster(site, "form").await;
    let path = "/api/clusters/form";
    let version = page.get(path)["version"].clone();
    let networks = json!([{"cidr": "192.168.77.0/24"}]);
    page.post(path, &json!({"version": version, "networks": networks}));

    for shape in Shape::ALL {
        // Machines of one kind are in namespaces.
        let (namespace, cidr) = match shape {
            Shape::ProviderConfig => ("", "192.168.78.7/24"),
            Shape::ProviderSpec => ("default", "192.168.78.8/24"),
        };
        let group = shape.group();
        let mut form = json!({"group": group, "namespace": namespace, "name": "form"});
        page.post("/api/machines", &form);
        let path = format!("/api/machines/{group}/{namespace}/form").replace("//", "/");
        form["version"] = page.get(&path)["version"].clone();
        form["network"] = json!({"addresses": [{"cidr": cidr}]});
        page.post("/api/machines", &form);
    }
    kill(&running);
    for object in [
        "clusters.kubermatic.k8s.io",
        "machines.machine.k8s.io",
        "machines.cluster.k8s.io",
    ] {
        site.kubectl(&format!("delete {object} form")).unwrap();
    }
}

struct Page {
    address: SocketAddr,
    token: String,
}

impl Page {
    fn get(&self, path: &str) -> Value {
        self.call(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        self.call(&format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Type: \
             application/json\r\nAuthorization: Bearer {}\r\nContent-Length: \
             {}\r\nConnection: close\r\n\r\n{body}",
            self.token,
            body.len()
        ))
    }

    fn call(&self, request: &str) -> Value {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{request}\n{answer}");
        serde_json::from_str(body).unwrap()
    }
}

async fn create_cluster(site: &Site, name: &str) {
    let resource = berth_machines::cluster::resource();
    let clusters = Api::<DynamicObject>::all_with(site.scene.client.clone(), &resource);
    let cluster =
        DynamicObject::new(name, &resource).data(json!({"spec": {"cloud": {"vsphere": {}}}}));
    clusters.create(&PostParams::default(), &cluster).await.unwrap();
}
