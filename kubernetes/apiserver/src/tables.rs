//! Objects as rows of a table, as `kubectl get` prints them. The server makes the columns and
//! cells, and the client only aligns them.

use berth_apimachinery::columns::{self, Column, CustomColumn};
use berth_apimachinery::status::{Result, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::Kind;

/// How much of the object goes with its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// From the query parameter `includeObject`.
    pub fn parse(given: Option<&str>) -> Result<Self> {
        match given.unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \
                 {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }

    fn of(self, object: &Value) -> Option<Value> {
        match self {
            Self::None => None,
            Self::Metadata => Some(json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            })),
            Self::Object => Some(object.clone()),
        }
    }
}

/// The table of one kind. Made once per request, because it parses a custom resource's paths.
#[derive(Debug)]
pub struct Table {
    columns: Value,
    cells: Cells,
}

#[derive(Debug)]
enum Cells {
    Builtin(&'static [Column]),
    Custom(Vec<CustomColumn>),
}

impl Table {
    pub fn new(kind: &Kind) -> Self {
        let Some(custom) = kind.custom() else {
            let columns = kind.columns();
            return Self {
                columns: columns.iter().map(Column::definition).collect(),
                cells: Cells::Builtin(columns),
            };
        };
        let age =
            [json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
        let columns: &[Value] = if custom.columns.is_empty() {
            &age
        } else {
            &custom.columns
        };
        let columns: Vec<CustomColumn> = columns.iter().map(CustomColumn::new).collect();
        let definitions = columns.iter().map(CustomColumn::definition);
        Self {
            columns: std::iter::once(columns::NAME.definition()).chain(definitions).collect(),
            cells: Cells::Custom(columns),
        }
    }

    /// `columnDefinitions`.
    pub fn columns(&self) -> &Value {
        &self.columns
    }

    /// One of `rows`.
    pub fn row(&self, object: &Value, include: Include, now: Timestamp) -> Value {
        let cells: Vec<Value> = match &self.cells {
            Cells::Builtin(columns) => columns::cells(columns, object, now),
            Cells::Custom(columns) => {
                let name = object["metadata"]["name"].clone();
                std::iter::once(name)
                    .chain(columns.iter().map(|column| column.cell(object, now)))
                    .collect()
            }
        };
        // The field is never left out: kubectl reads null as "no object".
        json!({"cells": cells, "object": include.of(object)})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn row(kind: &str, object: &Value) -> Value {
        Table::new(&samples::kind(kind)).row(object, Include::None, NOW.parse().unwrap())["cells"]
            .clone()
    }

    #[test]
    fn a_custom_resource_shows_the_columns_of_its_definition() {
        let table = Table::new(&samples::kind("widgets.example.berth.dev"));
        assert_eq!(
            table.columns()[2],
            json!({"name": "Size", "type": "integer", "format": "", "description": "How large.", "priority": 1})
        );
        let widget = json!({
            "metadata": {"name": "a"},
            "spec": {"color": "red", "size": 3.0, "parts": ["x", "y"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "since": "2026-01-01T23:54:57Z"},
        });
        assert_eq!(
            row("widgets.example.berth.dev", &widget),
            json!(["a", "red", 3, "[\"x\",\"y\"]", "True", "5m3s"])
        );
        let bare = json!({"metadata": {"name": "b"}, "spec": {"color": 1, "size": "large"}});
        assert_eq!(
            row("widgets.example.berth.dev", &bare),
            json!(["b", "1", null, null, null, null])
        );
    }

    #[test]
    fn a_custom_resource_without_columns_shows_its_age() {
        let mut definition = samples::widgets();
        definition["spec"]["versions"][1]["additionalPrinterColumns"] = json!([]);
        let kind = samples::of(&definition).pop().unwrap();
        let object =
            json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        let cells = &Table::new(&kind).row(&object, Include::None, NOW.parse().unwrap())["cells"];
        assert_eq!(cells, &json!(["a", "24h"]));
    }

    #[test]
    fn as_much_of_the_object_goes_with_the_row_as_is_asked_for() {
        let table = Table::new(&samples::kind("configmaps"));
        let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
        let with = |include: &str| {
            table.row(&object, Include::parse(Some(include)).unwrap(), NOW.parse().unwrap())["object"].clone()
        };
        assert_eq!(with("None"), Value::Null);
        assert_eq!(with("Object"), object);
        for include in ["", "Metadata"] {
            assert_eq!(with(include)["kind"], "PartialObjectMetadata");
            assert_eq!(with(include)["metadata"]["name"], "a");
            assert_eq!(with(include).get("data"), None);
        }
        assert_eq!(Include::parse(Some("Half")).unwrap_err().code, 400);
    }

    #[test]
    fn a_kind_with_no_columns_of_its_own_shows_when_it_was_made() {
        let role = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(
            row("roles.rbac.authorization.k8s.io", &role),
            json!(["a", "2026-01-01T00:00:00Z"])
        );
    }

    #[test]
    fn a_binding_shows_its_role_and_its_subjects_by_kind() {
        let binding = json!({
            "metadata": {"name": "a"},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                {"kind": "User", "name": "v"},
            ],
        });
        assert_eq!(
            row("rolebindings.rbac.authorization.k8s.io", &binding),
            json!(["a", "Role/r", "<unknown>", "u, v", "", "n/s"])
        );
    }

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
            row("deployments.apps", &object),
            json!(["d", "1/3", 2, 1, "<unknown>", "a,b", "x,y", "app=web,tier in (a,b)"])
        );
    }

    #[test]
    fn a_replica_set_and_a_daemon_set_show_their_counts() {
        let object = json!({"metadata": {"name": "r"}, "spec": spec(), "status": {"replicas": 2, "readyReplicas": 1}});
        assert_eq!(
            json!(row("replicasets.apps", &object).as_array().unwrap()[..4]),
            json!(["r", 3, 2, 1])
        );
        let status = json!({
            "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1,
        });
        let object = json!({"metadata": {"name": "d"}, "spec": spec(), "status": status});
        assert_eq!(
            json!(row("daemonsets.apps", &object).as_array().unwrap()[..7]),
            json!(["d", 5, 4, 3, 2, 1, "os=linux"])
        );
    }
}
