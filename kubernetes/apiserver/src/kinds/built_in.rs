//! The built-in kinds, as a table.

use std::sync::Arc;

use super::{Conversion, Kind, NameRule, ScalePaths};
use berth_apimachinery::shape::{self, Shape};

struct Row {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    all: bool,
    namespaced: bool,
    status: bool,
    scale: bool,
    generation: bool,
    names: NameRule,
}

const ROW: Row = Row {
    group: "",
    kind: "",
    plural: "",
    short: &[],
    all: false,
    namespaced: true,
    status: false,
    scale: false,
    generation: false,
    names: NameRule::Subdomain,
};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { kind: "ConfigMap", plural: "configmaps", short: &["cm"], ..ROW },
    Row { kind: "Event", plural: "events", short: &["ev"], ..ROW },
    Row { kind: "Namespace", plural: "namespaces", short: &["ns"], namespaced: false, status: true, names: NameRule::Label, ..ROW },
    Row { kind: "Node", plural: "nodes", short: &["no"], namespaced: false, status: true, ..ROW },
    Row { kind: "Pod", plural: "pods", short: &["po"], all: true, status: true, generation: true, ..ROW },
    Row { kind: "Secret", plural: "secrets", ..ROW },
    Row { kind: "Service", plural: "services", short: &["svc"], all: true, status: true, names: NameRule::Label1035, ..ROW },
    Row { kind: "ServiceAccount", plural: "serviceaccounts", short: &["sa"], ..ROW },
    Row { group: "apps", kind: "DaemonSet", plural: "daemonsets", short: &["ds"], all: true, status: true, generation: true, ..ROW },
    Row { group: "apps", kind: "Deployment", plural: "deployments", short: &["deploy"], all: true, status: true, scale: true, generation: true, ..ROW },
    Row { group: "apps", kind: "ReplicaSet", plural: "replicasets", short: &["rs"], all: true, status: true, scale: true, generation: true, ..ROW },
    Row { group: "events.k8s.io", kind: "Event", plural: "events", short: &["ev"], ..ROW },
    Row { group: "networking.k8s.io", kind: "ServiceCIDR", plural: "servicecidrs", namespaced: false, status: true, ..ROW },
    Row { group: RBAC, kind: "ClusterRoleBinding", plural: "clusterrolebindings", namespaced: false, names: NameRule::Segment, ..ROW },
    Row { group: RBAC, kind: "ClusterRole", plural: "clusterroles", namespaced: false, names: NameRule::Segment, ..ROW },
    Row { group: RBAC, kind: "RoleBinding", plural: "rolebindings", names: NameRule::Segment, ..ROW },
    Row { group: RBAC, kind: "Role", plural: "roles", names: NameRule::Segment, ..ROW },
    Row { group: ADMISSION, kind: "ValidatingAdmissionPolicy", plural: "validatingadmissionpolicies", namespaced: false, status: true, generation: true, ..ROW },
    Row { group: ADMISSION, kind: "ValidatingAdmissionPolicyBinding", plural: "validatingadmissionpolicybindings", namespaced: false, generation: true, ..ROW },
    Row { group: "apiextensions.k8s.io", kind: "CustomResourceDefinition", plural: "customresourcedefinitions", short: &["crd", "crds"], namespaced: false, status: true, generation: true, ..ROW },
    Row { group: "coordination.k8s.io", kind: "Lease", plural: "leases", ..ROW },
];

pub fn kinds() -> Vec<Arc<Kind>> {
    ROWS.iter().map(|row| Arc::new(row.kind())).collect()
}

impl Row {
    fn kind(&self) -> Kind {
        let scale = ScalePaths {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: Some(".spec.selector".to_owned()),
        };
        let categories: &[&str] = match (self.all, self.group) {
            (true, _) => &["all"],
            (false, "apiextensions.k8s.io" | ADMISSION) => &["api-extensions"],
            _ => &[],
        };
        Kind {
            group: self.group.to_owned(),
            version: "v1".to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: self.short.iter().map(|&name| name.to_owned()).collect(),
            categories: categories.iter().map(|&name| name.to_owned()).collect(),
            namespaced: self.namespaced,
            status: self.status,
            scale: self.scale.then_some(scale),
            generation: self.generation,
            names: self.names,
            shape: shape::builtin(self.group, "v1", self.kind).unwrap_or_else(|| Arc::new(Shape::Any)),
            conversion: if self.group == "events.k8s.io" {
                Conversion::Events
            } else {
                Conversion::None
            },
            custom: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_kind_has_a_shape() {
        for kind in kinds() {
            assert!(matches!(*kind.shape, Shape::Object(_)), "{}", kind.kind);
        }
    }
}
