//! Discovery: `/api`, `/apis`, the resources of a group and version, all of these in one answer
//! (aggregated discovery), and `/version`.

mod answered;
mod tree;

use std::sync::Arc;

use berth_apimachinery::GIT_VERSION;
use serde_json::{Value, json};

pub use answered::{VIRTUAL, Virtual};

use crate::kinds::Kind;
use tree::{Group, Resource, Version, groups};

/// The media type of aggregated discovery: a client that names it in `Accept` gets all groups in
/// one answer.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/`: the paths that are served.
pub fn paths(kinds: &[Arc<Kind>]) -> Value {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for group in groups(kinds) {
        let base = if group.name.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{}", group.name)
        };
        paths.extend(group.versions.iter().map(|version| format!("{base}/{}", version.name)));
        paths.push(base);
    }
    paths.sort();
    paths.dedup();
    json!({"paths": paths})
}

/// `/api`. `address` is where clients reach the server: `127.0.0.1:7443`.
pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`.
pub fn group_list(kinds: &[Arc<Kind>]) -> Value {
    let named = |group: &Group<'_>| (!group.name.is_empty()).then(|| describe(group));
    let list: Vec<Value> = groups(kinds).iter().filter_map(named).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})
}

/// `/apis/<group>`.
pub fn group(kinds: &[Arc<Kind>], name: &str) -> Option<Value> {
    let groups = groups(kinds);
    let found = groups.iter().find(|group| !name.is_empty() && group.name == name)?;
    let mut value = describe(found);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    Some(value)
}

fn describe(group: &Group<'_>) -> Value {
    let version = |version: &Version<'_>| json!({"groupVersion": format!("{}/{}", group.name, version.name), "version": version.name});
    json!({
        "name": group.name,
        "versions": group.versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": group.versions.first().map(version),
    })
}

/// `/api/v1` and `/apis/<group>/<version>`. `None` if no such version is served.
pub fn resources(kinds: &[Arc<Kind>], group: &str, version: &str) -> Option<Value> {
    let groups = groups(kinds);
    let found = groups.iter().find(|g| g.name == group)?;
    let found = found.versions.iter().find(|v| v.name == version)?;
    let list: Vec<Value> = found.resources.iter().flat_map(Resource::listed).collect();
    let group_version = format!("{group}/{version}");
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version.trim_start_matches('/'),
        "resources": list,
    }))
}

/// `/api` (the core group alone) or `/apis` (all others) as aggregated discovery.
pub fn aggregated(kinds: &[Arc<Kind>], core: bool) -> Value {
    let version = |version: &Version<'_>| {
        json!({
            "version": version.name,
            "resources": version.resources.iter().map(Resource::discovered).collect::<Vec<_>>(),
            "freshness": "Current",
        })
    };
    let item = |group: &Group<'_>| {
        let metadata = if core { json!({}) } else { json!({"name": group.name}) };
        json!({"metadata": metadata, "versions": group.versions.iter().map(version).collect::<Vec<_>>()})
    };
    let groups = groups(kinds);
    let items: Vec<Value> = groups
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(item)
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

/// `/version`.
pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::samples;

    fn names(list: &Value, field: &str) -> Vec<String> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|item| item[field].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn every_group_names_its_versions_the_preferred_one_first() {
        let list = group_list(&samples::kinds());
        let groups = names(&list["groups"], "name");
        assert_eq!(groups.first().map(String::as_str), Some("apps"));
        assert_eq!(groups.last().map(String::as_str), Some("example.berth.dev"));
        assert!(!groups.contains(&String::new()));
        let widgets = group(&samples::kinds(), "example.berth.dev").unwrap();
        assert_eq!(names(&widgets["versions"], "version"), ["v1", "v1alpha1"]);
        assert_eq!(widgets["preferredVersion"]["groupVersion"], "example.berth.dev/v1");
        assert_eq!(widgets["kind"], "APIGroup");
    }

    #[test]
    fn a_version_lists_its_resources_with_their_subresources() {
        let list = resources(&samples::kinds(), "", "v1").unwrap();
        assert_eq!(list["groupVersion"], "v1");
        let pods: Vec<&Value> = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|r| r["name"].as_str().unwrap().starts_with("pods"))
            .collect();
        assert_eq!(
            names(&json!(pods), "name"),
            ["pods", "pods/binding", "pods/eviction", "pods/status"]
        );
        assert_eq!(pods[0]["shortNames"], json!(["po"]));
        assert_eq!(
            pods[2],
            &json!({
                "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1", "kind": "Eviction",
                "verbs": ["create"],
            })
        );
        assert_eq!(pods[3].get("group"), None);
    }

    #[test]
    fn namespaces_cannot_be_deleted_all_at_once() {
        assert!(!samples::kind("namespaces").verbs().contains(&"deletecollection"));
        assert!(samples::kind("pods").verbs().contains(&"deletecollection"));
    }

    #[test]
    fn what_is_not_served_is_not_found() {
        let kinds = samples::kinds();
        assert_eq!(resources(&kinds, "apps", "v2"), None);
        assert_eq!(resources(&kinds, "nope", "v1"), None);
        assert_eq!(group(&kinds, ""), None);
    }

    #[test]
    fn aggregated_discovery_says_the_same_as_the_lists() {
        let kinds = samples::kinds();
        for core in [true, false] {
            for item in aggregated(&kinds, core)["items"].as_array().unwrap() {
                let group = item["metadata"]["name"].as_str().unwrap_or_default();
                assert_eq!(group.is_empty(), core);
                for version in item["versions"].as_array().unwrap() {
                    let mut found = BTreeSet::new();
                    for resource in version["resources"].as_array().unwrap() {
                        let name = resource["resource"].as_str().unwrap();
                        found.insert(name.to_owned());
                        for sub in resource["subresources"].as_array().into_iter().flatten() {
                            found
                                .insert(format!("{name}/{}", sub["subresource"].as_str().unwrap()));
                        }
                    }
                    let list =
                        resources(&kinds, group, version["version"].as_str().unwrap()).unwrap();
                    assert_eq!(found, names(&list["resources"], "name").into_iter().collect());
                }
            }
        }
    }

    #[test]
    fn reviews_can_only_be_created() {
        let list = resources(&samples::kinds(), "authorization.k8s.io", "v1").unwrap();
        assert!(
            list["resources"]
                .as_array()
                .unwrap()
                .iter()
                .all(|review| review["verbs"] == json!(["create"]))
        );
    }

    #[test]
    fn the_root_names_every_version() {
        let paths = paths(&samples::kinds());
        for path in [
            "/api",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/apis/example.berth.dev/v1alpha1",
            "/version",
        ] {
            assert!(paths["paths"].as_array().unwrap().contains(&json!(path)), "{path}");
        }
    }
}
