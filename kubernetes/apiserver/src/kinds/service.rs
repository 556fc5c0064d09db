//! Services, as objects: nothing carries their traffic.

use std::collections::BTreeSet;

use berth_apimachinery::columns::{self, AGE, Column, NAME, labels, number, or};
use berth_apimachinery::metadata;
use berth_apimachinery::metadata::NameRule;
use berth_apimachinery::names;
use berth_apimachinery::selectors::SelectableField;
use berth_apimachinery::status::{FieldError, Path};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::built_in::{Answer, BuiltIn, Deletion, schema_of};
use crate::rules::defaults::{each, fill};
use crate::rules::{Errors, list, one_of, text};

pub static KIND: BuiltIn = BuiltIn {
    kind: "Service",
    plural: "services",
    short_names: &["svc"],
    categories: &["all"],
    names: NameRule::Label1035,
    status: true,
    schema: schema_of::<Service>,
    default: |object| default_spec(&mut object["spec"]),
    admit_create: |object| {
        if object["spec"]["type"] != "ExternalName" {
            admit_spec(&mut object["spec"]);
        }
    },
    initial_status: || json!({"loadBalancer": {}}),
    check: |object, change, errors| {
        check_spec(object, errors);
        if let Some(old) = change.old {
            check_change(object, old, errors);
        }
    },
    allow_create_on_update: true,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    deletion: Deletion {
        answer: Answer::Object,
        ..Deletion::PLAIN
    },
    ..BuiltIn::PLAIN
};

const SELECTABLE: &[SelectableField] = &[
    SelectableField::new("spec.clusterIP"),
    SelectableField::new("spec.type"),
];

fn default_spec(spec: &mut Value) {
    fill(spec, &json!({"type": "ClusterIP", "sessionAffinity": "None"}));
    if spec["type"] != "ExternalName" {
        fill(spec, &json!({"internalTrafficPolicy": "Cluster"}));
    }
    each(spec, "ports").for_each(|port| {
        let number = port["port"].clone();
        fill(port, &json!({"protocol": "TCP", "targetPort": number}));
    });
}

/// Nothing here carries a Service's traffic, so a Service gets no address.
fn admit_spec(spec: &mut Value) {
    let address = if spec["clusterIP"].is_string() {
        spec["clusterIP"].clone()
    } else {
        "None".into()
    };
    // Without a selector, the families of the endpoints are unknown.
    let (families, policy) = if spec["selector"].is_null() {
        (json!(["IPv4", "IPv6"]), "RequireDualStack")
    } else {
        (json!(["IPv4"]), "SingleStack")
    };
    for (field, value) in [
        ("clusterIPs", json!([address])),
        ("clusterIP", address),
        ("ipFamilies", families),
        ("ipFamilyPolicy", policy.into()),
    ] {
        if spec[field].is_null() {
            spec[field] = value;
        }
    }
}

fn check_spec(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    let path = Path::new("spec");
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(spec, "type", &kinds, &path, errors);
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &path, errors);
    metadata::check_labels(&spec["selector"], &path.child("selector"), errors);
    let count = spec["ports"].as_array().map_or(0, Vec::len);
    let headless = spec["clusterIP"] == "None";
    if count == 0 && !headless && spec["type"] != "ExternalName" {
        errors.push(FieldError::required(path.child("ports"), ""));
    }
    for (index, port) in list(&spec["ports"]) {
        let path = path.child("ports").index(index);
        let name = text(port, "name");
        if name.is_empty() && count > 1 {
            errors.push(FieldError::required(path.child("name"), ""));
        } else if !name.is_empty()
            && let Some(problem) = names::label(name)
        {
            errors.push(FieldError::invalid(path.child("name"), name.into(), problem));
        }
        for field in ["port", "targetPort"] {
            if port[field]
                .as_i64()
                .is_some_and(|number| !(1..=65_535).contains(&number))
            {
                let detail = "must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(path.child(field), port[field].clone(), detail));
            }
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path, errors);
    }
}

/// The cluster IP can't change once set.
fn check_change(new: &Value, old: &Value, errors: &mut Errors) {
    let address = &old["spec"]["clusterIP"];
    if address.is_string()
        && new["spec"]["clusterIP"] != *address
        && new["spec"]["type"] != "ExternalName"
    {
        let field = Path::new("spec.clusterIPs[0]");
        errors.push(FieldError::invalid(
            field,
            new["spec"]["clusterIPs"].clone(),
            "may not change once set",
        ));
    }
}

const COLUMNS: &[Column] = &[
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
            or(columns::text(port, "/protocol"), "TCP")
        )
    };
    let shown: Vec<String> = columns::list(service, "/spec/ports").iter().map(port).collect();
    json!(or(&shown.join(","), "<none>"))
}

fn external_ip(service: &Value, _: Timestamp) -> Value {
    let kind = columns::text(service, "/spec/type");
    let otherwise = match kind {
        "ExternalName" => return json!(columns::text(service, "/spec/externalName")),
        "LoadBalancer" => "<pending>",
        "ClusterIP" | "NodePort" => "<none>",
        _ => "<unknown>",
    };
    let mut shown: Vec<&str> = Vec::new();
    if kind == "LoadBalancer" {
        let ingress = columns::list(service, "/status/loadBalancer/ingress").iter();
        let addresses: BTreeSet<&str> = ingress
            .map(|at| or(columns::text(at, "/ip"), columns::text(at, "/hostname")))
            .collect();
        shown.extend(addresses);
    }
    shown.extend(
        columns::list(service, "/spec/externalIPs")
            .iter()
            .filter_map(Value::as_str),
    );
    json!(or(&shown.join(","), otherwise))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_apimachinery::columns::cells;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn shown(spec: Value, ingress: Value) -> Value {
        let service = json!({"metadata": {"name": "s"}, "spec": spec, "status": {"loadBalancer": {"ingress": ingress}}});
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
