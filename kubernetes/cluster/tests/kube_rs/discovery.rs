//! Discovery, by which clients find kinds that they have no types for.

use berth_api::{AddressBlock, ClusterSubnetState, NodeNetworkConfig, Subnet};
use berth_testkit::until;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::events::v1::Event as NewEvent;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, Discovery, Scope, verbs};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::custom;
use crate::space::in_space;

/// Both forms. A definition that others delete meanwhile may leave one of them short of a group for
/// a moment.
async fn discover(client: &Client) -> [Discovery; 2] {
    custom::definitions(client).await;
    until("both forms show the custom resources", async || {
        let groups = Discovery::new(client.clone()).run().await.ok()?;
        let aggregated = Discovery::new(client.clone()).run_aggregated().await.ok()?;
        let both = [groups, aggregated];
        let there =
            |found: &Discovery| found.has_group("berth.dev") && found.has_group("acn.azure.com");
        both.iter().all(there).then_some(both)
    })
    .await
}

fn resolve<K: Resource<DynamicType = ()>>(discovery: &Discovery) -> (ApiResource, ApiCapabilities) {
    let kind = GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&()));
    discovery
        .resolve_gvk(&kind)
        .unwrap_or_else(|| panic!("{kind:?} is not there"))
}

/// A kind is there under its plural and in its scope, and everything can be done with it.
fn check<K: Resource<DynamicType = ()>>(
    discovery: &Discovery,
    scope: Scope,
    subresources: &[&str],
) {
    let (resource, capabilities) = resolve::<K>(discovery);
    assert_eq!(resource.plural, K::plural(&()));
    assert_eq!(resource.api_version, K::api_version(&()));
    assert_eq!(capabilities.scope, scope, "{}", resource.kind);
    for verb in [
        verbs::GET,
        verbs::LIST,
        verbs::WATCH,
        verbs::CREATE,
        verbs::UPDATE,
        verbs::PATCH,
        verbs::DELETE,
    ] {
        assert!(capabilities.supports_operation(verb), "{verb} {}", resource.kind);
    }
    let found: Vec<_> = capabilities
        .subresources
        .iter()
        .map(|(found, _)| found.plural.as_str())
        .collect();
    for name in subresources {
        assert!(found.contains(name), "{}/{name} is not among {found:?}", resource.kind);
    }
}

#[test]
fn every_kind_is_found_with_scope_verbs_and_subresources() {
    in_space(async |space| {
        for found in &discover(&space.client).await {
            check::<Node>(found, Scope::Cluster, &["status"]);
            check::<Namespace>(found, Scope::Cluster, &["status"]);
            check::<Pod>(found, Scope::Namespaced, &["status", "binding", "eviction"]);
            check::<ConfigMap>(found, Scope::Namespaced, &[]);
            check::<Secret>(found, Scope::Namespaced, &[]);
            check::<Service>(found, Scope::Namespaced, &["status"]);
            check::<ServiceAccount>(found, Scope::Namespaced, &[]);
            check::<Event>(found, Scope::Namespaced, &[]);
            check::<NewEvent>(found, Scope::Namespaced, &[]);
            check::<Lease>(found, Scope::Namespaced, &[]);
            check::<Deployment>(found, Scope::Namespaced, &["status", "scale"]);
            check::<ReplicaSet>(found, Scope::Namespaced, &["status", "scale"]);
            check::<DaemonSet>(found, Scope::Namespaced, &["status"]);
            check::<Role>(found, Scope::Namespaced, &[]);
            check::<RoleBinding>(found, Scope::Namespaced, &[]);
            check::<ClusterRole>(found, Scope::Cluster, &[]);
            check::<ClusterRoleBinding>(found, Scope::Cluster, &[]);
            check::<CustomResourceDefinition>(found, Scope::Cluster, &["status"]);
            check::<Subnet>(found, Scope::Cluster, &["status"]);
            check::<AddressBlock>(found, Scope::Cluster, &[]);
            check::<NodeNetworkConfig>(found, Scope::Namespaced, &["status"]);
            check::<ClusterSubnetState>(found, Scope::Namespaced, &["status"]);
        }
    });
}

#[test]
fn what_discovery_says_is_enough_to_use_a_kind() {
    in_space(async |space| {
        for (number, found) in discover(&space.client).await.iter().enumerate() {
            let name = format!("node-{number}");
            let (resource, _) = resolve::<NodeNetworkConfig>(found);
            let api: Api<DynamicObject> =
                Api::namespaced_with(space.client.clone(), &space.name, &resource);
            let mut object = DynamicObject::new(&name, &resource);
            object.data = json!({"spec": {"requestedIPCount": 16}});
            let created = api.create(&PostParams::default(), &object).await.unwrap();
            assert_eq!(created.data["spec"]["requestedIPCount"], 16);
            let list = api
                .list(&ListParams::default().fields(&format!("metadata.name={name}")))
                .await
                .unwrap();
            assert_eq!(list.items[0].uid(), created.uid());
        }
    });
}
