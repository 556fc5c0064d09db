//! What field selectors can ask of a kind.

use berth_apimachinery::selectors::{Selectable, SelectableField};

use super::Kind;

impl Kind {
    pub fn selectable(&self) -> Selectable {
        let namespaced = self.namespaced;
        if let Some(custom) = &self.custom {
            let fields = custom.selectable.iter().map(|path| SelectableField::of_path(path));
            return Selectable::Listed {
                namespaced,
                fields: fields.collect(),
            };
        }
        match SELECTABLE.iter().find(|(group, kind, _)| self.is(group, kind)) {
            None => Selectable::Metadata,
            Some((_, _, fields)) => Selectable::Listed {
                namespaced,
                fields: fields.to_vec(),
            },
        }
    }
}

use SelectableField as Field;

#[rustfmt::skip]
const SELECTABLE: &[(&str, &str, &[Field])] = &[
    ("", "Pod", &[
        Field::new("spec.nodeName"), Field::stored_at("spec.host", &["spec.nodeName"]), Field::new("spec.restartPolicy"), Field::new("spec.schedulerName"),
        Field::new("spec.serviceAccountName"), Field::flag("spec.hostNetwork"),
        // The last is a list, which has no value: only the empty one matches.
        Field::new("status.phase"), Field::new("status.podIP"), Field::new("status.nominatedNodeName"), Field::new("status.podIPs"),
    ]),
    ("", "Node", &[Field::flag("spec.unschedulable")]),
    ("", "Namespace", &[Field::new("status.phase")]),
    ("", "Secret", &[Field::new("type")]),
    ("", "Service", &[Field::new("spec.clusterIP"), Field::new("spec.type")]),
    ("", "Event", &[
        Field::new("involvedObject.kind"), Field::new("involvedObject.namespace"), Field::new("involvedObject.name"), Field::new("involvedObject.uid"),
        Field::new("involvedObject.apiVersion"), Field::new("involvedObject.resourceVersion"), Field::new("involvedObject.fieldPath"),
        Field::new("reason"), Field::new("reportingComponent"), Field::stored_at("source", &["source.component", "reportingComponent"]), Field::new("type"),
    ]),
    ("events.k8s.io", "Event", &[
        Field::stored_at("regarding.kind", &["involvedObject.kind"]), Field::stored_at("regarding.namespace", &["involvedObject.namespace"]),
        Field::stored_at("regarding.name", &["involvedObject.name"]), Field::stored_at("regarding.uid", &["involvedObject.uid"]),
        Field::stored_at("regarding.apiVersion", &["involvedObject.apiVersion"]), Field::stored_at("regarding.resourceVersion", &["involvedObject.resourceVersion"]),
        Field::stored_at("regarding.fieldPath", &["involvedObject.fieldPath"]), Field::new("reason"),
        Field::stored_at("reportingController", &["reportingComponent"]), Field::new("type"),
    ]),
];
