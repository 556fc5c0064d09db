//! Groups, their versions, their resources: the source of all forms of discovery.

use std::sync::Arc;

use berth_apimachinery::version_order;
use serde_json::{Value, json};

use super::answered::{VIRTUAL, Virtual};
use crate::kinds::{Gvk, Kind, Subresource};

pub struct Group<'a> {
    pub name: &'a str,
    /// The preferred one first.
    pub versions: Vec<Version<'a>>,
}

pub struct Version<'a> {
    pub name: &'a str,
    pub resources: Vec<Resource<'a>>,
}

/// Groups in the order of `kinds`, the answered ones between built-in and custom ones.
pub fn groups(kinds: &[Arc<Kind>]) -> Vec<Group<'_>> {
    let (custom, built_in): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| kind.is_custom());
    let resources = built_in
        .into_iter()
        .map(|kind| Resource::stored(kind))
        .chain(VIRTUAL.iter().map(Resource::answered))
        .chain(custom.into_iter().map(|kind| Resource::stored(kind)));
    let mut groups: Vec<Group<'_>> = Vec::new();
    for resource in resources {
        let (group, version, _) = resource.own;
        let new_group = || Group {
            name: group,
            versions: Vec::new(),
        };
        let new_version = || Version {
            name: version,
            resources: Vec::new(),
        };
        let group = find_or_add(&mut groups, |found| found.name == group, new_group);
        let version = find_or_add(&mut group.versions, |found| found.name == version, new_version);
        version.resources.push(resource);
    }
    for group in &mut groups {
        group.versions.sort_by(|a, b| version_order::compare(a.name, b.name));
        for version in &mut group.versions {
            version.resources.sort_by_key(|resource| resource.plural);
        }
    }
    groups
}

fn find_or_add<T>(list: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let index = list.iter().position(is).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    });
    &mut list[index]
}

pub struct Resource<'a> {
    own: Gvk<'a>,
    plural: &'a str,
    singular: &'a str,
    namespaced: bool,
    verbs: &'static [&'static str],
    short_names: &'a [String],
    categories: &'a [String],
    subresources: Vec<Subresource<'a>>,
}

impl<'a> Resource<'a> {
    fn stored(kind: &'a Kind) -> Self {
        Self {
            own: kind.gvk(),
            plural: &kind.plural,
            singular: &kind.singular,
            namespaced: kind.namespaced,
            verbs: kind.verbs(),
            short_names: &kind.short_names,
            categories: &kind.categories,
            subresources: kind.subresources(),
        }
    }

    fn answered(kind: &'static Virtual) -> Self {
        Self {
            own: (kind.group, kind.version, kind.kind),
            plural: kind.plural,
            singular: kind.singular,
            namespaced: false,
            verbs: &["create"],
            short_names: &[],
            categories: &[],
            subresources: Vec::new(),
        }
    }

    /// This resource and its subresources as an APIResourceList has them.
    pub fn listed(&self) -> Vec<Value> {
        let mut main = json!({
            "name": self.plural,
            "singularName": self.singular,
            "namespaced": self.namespaced,
            "kind": self.own.2,
            "verbs": self.verbs,
        });
        self.put_names(&mut main);
        let sub = |sub: &Subresource<'_>| {
            let mut item = json!({
                "name": format!("{}/{}", self.plural, sub.name),
                "singularName": "",
                "namespaced": self.namespaced,
                "kind": sub.response.2,
                "verbs": sub.verbs,
            });
            if (sub.response.0, sub.response.1) != (self.own.0, self.own.1) {
                item["group"] = sub.response.0.into();
                item["version"] = sub.response.1.into();
            }
            item
        };
        std::iter::once(main).chain(self.subresources.iter().map(sub)).collect()
    }

    /// The same as aggregated discovery has it.
    pub fn discovered(&self) -> Value {
        let gvk = |(group, version, kind): Gvk<'_>| json!({"group": group, "version": version, "kind": kind});
        let mut item = json!({
            "resource": self.plural,
            "responseKind": gvk(self.own),
            "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": self.singular,
            "verbs": self.verbs,
        });
        self.put_names(&mut item);
        if !self.subresources.is_empty() {
            let sub = |sub: &Subresource<'_>| json!({"subresource": sub.name, "responseKind": gvk(sub.response), "verbs": sub.verbs});
            item["subresources"] = self.subresources.iter().map(sub).collect();
        }
        item
    }

    fn put_names(&self, item: &mut Value) {
        for (field, names) in [("shortNames", self.short_names), ("categories", self.categories)] {
            if !names.is_empty() {
                item[field] = json!(names);
            }
        }
    }
}
