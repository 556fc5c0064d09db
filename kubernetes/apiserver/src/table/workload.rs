//! What the rows of those kinds say that make pods from a template.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cell::{AGE, Column, NAME, labels, list, number, or, text};
use berth_apimachinery::selectors::Labels;

const CONTAINERS: Column = Column::made("Containers", |object, _| of_containers(object, "/name")).wide();
const IMAGES: Column = Column::made("Images", |object, _| of_containers(object, "/image")).wide();
const SELECTOR: Column = Column::made("Selector", selector).wide();

pub const DEPLOYMENT: &[Column] = &[
    NAME,
    Column::made("Ready", ready),
    Column::count("Up-to-date", "/status/updatedReplicas").called("string"),
    Column::count("Available", "/status/availableReplicas").called("string"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub const REPLICA_SET: &[Column] = &[
    NAME,
    Column::count("Desired", "/spec/replicas"),
    Column::count("Current", "/status/replicas"),
    Column::count("Ready", "/status/readyReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub const DAEMON_SET: &[Column] = &[
    NAME,
    Column::count("Desired", "/status/desiredNumberScheduled"),
    Column::count("Current", "/status/currentNumberScheduled"),
    Column::count("Ready", "/status/numberReady"),
    Column::count("Up-to-date", "/status/updatedNumberScheduled"),
    Column::count("Available", "/status/numberAvailable"),
    Column::made("Node Selector", |object, _| {
        labels(object, "/spec/template/spec/nodeSelector")
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn ready(deployment: &Value, _: Timestamp) -> Value {
    let (ready, wanted) = (
        number(deployment, "/status/readyReplicas"),
        number(deployment, "/spec/replicas"),
    );
    json!(format!("{ready}/{wanted}"))
}

fn of_containers(object: &Value, field: &str) -> Value {
    let containers = list(object, "/spec/template/spec/containers").iter();
    json!(
        containers
            .map(|container| text(container, field))
            .collect::<Vec<_>>()
            .join(",")
    )
}

fn selector(object: &Value, _: Timestamp) -> Value {
    let given = object
        .pointer("/spec/selector")
        .and_then(|given| LabelSelector::deserialize(given).ok());
    let labels = given.and_then(|given| Labels::of(&given).ok()).unwrap_or_default();
    json!(or(&labels.to_string(), "<none>"))
}

#[cfg(test)]
mod tests {
    use super::super::cell::cells;
    use super::*;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn spec() -> Value {
        json!({
            "replicas": 3,
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}],
            },
            "template": {"spec": {
                "nodeSelector": {"os": "linux"},
                "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}],
            }},
        })
    }

    #[test]
    fn a_deployment_shows_how_many_are_ready_of_how_many() {
        let status = json!({"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1});
        let object = json!({"metadata": {"name": "d"}, "spec": spec(), "status": status});
        assert_eq!(
            json!(cells(DEPLOYMENT, &object, NOW.parse().unwrap())),
            json!(["d", "1/3", 2, 1, "<unknown>", "a,b", "x,y", "app=web,tier in (a,b)"])
        );
    }

    #[test]
    fn a_replica_set_and_a_daemon_set_show_their_counts() {
        let object = json!({"metadata": {"name": "r"}, "spec": spec(), "status": {"replicas": 2, "readyReplicas": 1}});
        assert_eq!(
            json!(cells(REPLICA_SET, &object, NOW.parse().unwrap())[..4]),
            json!(["r", 3, 2, 1])
        );
        let status = json!({
            "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1,
        });
        let object = json!({"metadata": {"name": "d"}, "spec": spec(), "status": status});
        assert_eq!(
            json!(cells(DAEMON_SET, &object, NOW.parse().unwrap())[..7]),
            json!(["d", 5, 4, 3, 2, 1, "os=linux"])
        );
    }
}
