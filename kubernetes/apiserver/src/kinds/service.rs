//! What a service's row says.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cell::{AGE, Column, NAME, labels, list, number, or, text};

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Type", "/spec/type"),
    Column::text_or("Cluster-IP", "/spec/clusterIP", "<none>"),
    Column::made("External-IP", external_ip),
    Column::made("Port(s)", ports),
    AGE,
    Column::made("Selector", |service, _| labels(service, "/spec/selector")).wide(),
];

fn ports(service: &Value, _: Timestamp) -> Value {
    let port = |port: &Value| {
        let node_port = match number(port, "/nodePort") {
            0 => String::new(),
            open => format!(":{open}"),
        };
        format!(
            "{}{node_port}/{}",
            number(port, "/port"),
            or(text(port, "/protocol"), "TCP")
        )
    };
    let shown: Vec<String> = list(service, "/spec/ports").iter().map(port).collect();
    json!(or(&shown.join(","), "<none>"))
}

fn external_ip(service: &Value, _: Timestamp) -> Value {
    let kind = text(service, "/spec/type");
    let otherwise = match kind {
        "ExternalName" => return json!(text(service, "/spec/externalName")),
        "LoadBalancer" => "<pending>",
        "ClusterIP" | "NodePort" => "<none>",
        _ => "<unknown>",
    };
    let mut shown: Vec<&str> = Vec::new();
    if kind == "LoadBalancer" {
        let ingress = list(service, "/status/loadBalancer/ingress").iter();
        let addresses: BTreeSet<&str> = ingress.map(|at| or(text(at, "/ip"), text(at, "/hostname"))).collect();
        shown.extend(addresses);
    }
    shown.extend(list(service, "/spec/externalIPs").iter().filter_map(Value::as_str));
    json!(or(&shown.join(","), otherwise))
}

#[cfg(test)]
mod tests {
    use super::super::cell::cells;
    use super::*;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn shown(spec: Value, ingress: Value) -> Value {
        let service =
            json!({"metadata": {"name": "s"}, "spec": spec, "status": {"loadBalancer": {"ingress": ingress}}});
        json!(cells(COLUMNS, &service, NOW.parse().unwrap())[1..5])
    }

    #[test]
    fn a_service_shows_where_it_can_be_reached() {
        let ports = json!([{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]);
        assert_eq!(
            shown(
                json!({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": ports, "externalIPs": ["9.9.9.9"]}),
                json!([])
            ),
            json!(["NodePort", "10.0.0.1", "9.9.9.9", "80:30080/TCP,53/UDP"])
        );
        assert_eq!(
            shown(json!({"type": "ExternalName", "externalName": "a.example"}), json!([])),
            json!(["ExternalName", "<none>", "a.example", "<none>"])
        );
        assert_eq!(shown(json!({"type": "LoadBalancer"}), json!([]))[2], "<pending>");
        let ingress = json!([{"hostname": "z.example"}, {"ip": "1.1.1.1"}]);
        assert_eq!(
            shown(json!({"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}), ingress)[2],
            "1.1.1.1,z.example,9.9.9.9"
        );
    }
}
