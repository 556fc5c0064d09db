//! What a client asks before it does anything: who are you, what do you serve.

use super::each;

#[test]
fn version_and_cluster_info_name_the_server() {
    each(|kubectl| {
        let version = kubectl.ok("version");
        assert!(version.contains("Server Version: v1."), "{version}");
        let info = kubectl.ok("cluster-info");
        assert!(info.contains("Kubernetes control plane"), "{info}");
        assert_eq!(kubectl.ok("get --raw /healthz"), "ok");
    });
}

#[test]
fn api_resources_and_versions_list_what_is_served() {
    each(|kubectl| {
        let resources = kubectl.ok("api-resources");
        for row in [
            "pods po v1 true Pod",
            "nodes no v1 false Node",
            "namespaces ns v1 false Namespace",
            "events ev v1 true Event",
            "events ev events.k8s.io/v1 true Event",
            "deployments deploy apps/v1 true Deployment",
            "replicasets rs apps/v1 true ReplicaSet",
            "daemonsets ds apps/v1 true DaemonSet",
            "leases coordination.k8s.io/v1 true Lease",
            "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false \
             CustomResourceDefinition",
            "rolebindings rbac.authorization.k8s.io/v1 true RoleBinding",
        ] {
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert!(
                resources.lines().any(|line| words(line) == words(row)),
                "{row} is not in\n{resources}"
            );
        }
        let wide = kubectl.ok("api-resources --api-group=apps --no-headers -o wide");
        assert!(
            wide.contains("create,delete,deletecollection,get,list,patch,update,watch"),
            "{wide}"
        );
        let outside = kubectl.ok("api-resources --namespaced=false -o name");
        assert!(outside.lines().any(|line| line == "nodes"), "{outside}");
        assert!(!outside.lines().any(|line| line == "pods"), "{outside}");
        let versions = kubectl.ok("api-versions");
        for version in [
            "v1",
            "apps/v1",
            "events.k8s.io/v1",
            "coordination.k8s.io/v1",
            "apiextensions.k8s.io/v1",
        ] {
            assert!(
                versions.lines().any(|line| line == version),
                "{version} is not in\n{versions}"
            );
        }
    });
}

#[test]
fn openapi_is_there_for_every_group() {
    each(|kubectl| {
        let index: serde_json::Value =
            serde_json::from_str(&kubectl.ok("get --raw /openapi/v3")).unwrap();
        for path in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"] {
            let url = index["paths"][path]["serverRelativeURL"].as_str().unwrap();
            let document: serde_json::Value =
                serde_json::from_str(&kubectl.ok(["get", "--raw", url])).unwrap();
            assert!(document["components"]["schemas"].is_object(), "{path}");
            assert!(document["paths"].is_object(), "{path}");
        }
    });
}

#[test]
fn explain_tells_fields_and_their_types() {
    each(|kubectl| {
        let containers = kubectl.ok("explain pod.spec.containers");
        assert!(containers.contains("FIELD: containers <[]Container>"), "{containers}");
        for field in [
            "image\t<string>",
            "imagePullPolicy\t<string>",
            "name\t<string> -required-",
            "ports\t<[]ContainerPort>",
        ] {
            assert!(containers.contains(field), "{field:?} is not in\n{containers}");
        }
        let replicas = kubectl.ok("explain deploy.spec.replicas");
        assert!(replicas.contains("FIELD: replicas <integer>"), "{replicas}");
        assert!(replicas.contains("GROUP:      apps"), "{replicas}");
        let all = kubectl.ok("explain node --recursive");
        assert!(all.contains("podCIDRs\t<[]string>"), "{all}");
        let wrong = kubectl.fails("explain pod.spec.nothing");
        assert!(wrong.contains("field \"nothing\" does not exist"), "{wrong}");
    });
}

#[test]
fn auth_says_who_i_am_and_what_i_may() {
    each(|kubectl| {
        assert_eq!(kubectl.ok("auth can-i create pods").trim(), "yes");
        assert_eq!(kubectl.ok("auth can-i delete nodes").trim(), "yes");
        let list = kubectl.ok("auth can-i --list");
        assert!(list.lines().any(|line| line.starts_with("*.*")), "{list}");
        let me = kubectl.ok("auth whoami");
        assert!(me.contains("Username") && me.contains("system:masters"), "{me}");
    });
}
