//! Looking at things: forms of output, selection, order.

use serde_json::Value;

use super::{Kubectl, each, row};
use crate::namespace::Namespace;

fn three_maps(kubectl: &Kubectl) {
    for (name, tier, rank) in [("a", "front", "3"), ("b", "back", "1"), ("c", "front", "2")] {
        kubectl.ok(["create", "configmap", name, &format!("--from-literal=rank={rank}")]);
        kubectl.ok(["label", "configmap", name, &format!("tier={tier}")]);
    }
}

/// Without the one that controllers put into every namespace.
fn names(listed: &str) -> Vec<&str> {
    let lines = listed
        .lines()
        .map(|line| line.split_whitespace().next().unwrap_or_default());
    lines.filter(|name| !name.contains("kube-root-ca.crt")).collect()
}

#[test]
fn get_prints_every_form() {
    each(|kubectl| {
        three_maps(kubectl);
        let table = kubectl.ok("get configmap a");
        assert!(table.starts_with("NAME   DATA   AGE\n"), "{table}");
        assert_eq!(row(&table, "a")[1], "1");
        assert_eq!(kubectl.json("get configmap a")["kind"], "ConfigMap");
        assert_eq!(kubectl.json("get configmap a b")["items"].as_array().unwrap().len(), 2);
        let yaml = kubectl.ok("get configmap a -o yaml");
        assert!(
            yaml.starts_with("apiVersion: v1\ndata:\n  rank: \"3\"\nkind: ConfigMap\n"),
            "{yaml}"
        );
        assert!(!yaml.contains("managedFields"), "{yaml}");
        assert!(
            kubectl
                .ok("get configmap a -o yaml --show-managed-fields")
                .contains("fieldsV1")
        );
        assert_eq!(kubectl.ok("get configmap a -o jsonpath={.data.rank}"), "3");
        assert_eq!(kubectl.ok("get configmap a -o name"), "configmap/a\n");
        let columns = kubectl.ok("get configmap a -o custom-columns=N:.metadata.name,R:.data.rank");
        assert_eq!(columns.split_whitespace().collect::<Vec<_>>(), ["N", "R", "a", "3"]);
        assert_eq!(
            kubectl.ok(["get", "configmap", "a", "-o", "go-template={{.data.rank}}"]),
            "3"
        );
        assert!(kubectl.ok("get configmap a --show-labels").contains("tier=front"));
        assert!(
            kubectl
                .ok("get configmap a -L tier")
                .starts_with("NAME   DATA   AGE   TIER\n")
        );
        assert!(kubectl.ok("get configmap a --no-headers").starts_with("a "));
    });
}

#[test]
fn get_selects_by_label_and_field() {
    each(|kubectl| {
        three_maps(kubectl);
        for (selector, wanted) in [
            ("tier=front", &["a", "c"][..]),
            ("tier!=front,tier", &["b"]),
            ("tier in (front,back)", &["a", "b", "c"]),
            ("tier notin (front),tier", &["b"]),
            ("!tier", &[]),
        ] {
            let listed = kubectl.ok(["get", "configmaps", "--no-headers", "-l", selector]);
            assert_eq!(names(&listed), wanted, "{selector}");
        }
        let one = kubectl.ok("get configmaps --no-headers --field-selector metadata.name=b");
        assert_eq!(names(&one), ["b"]);
        let others = kubectl.ok("get configmaps --no-headers --field-selector metadata.name!=b");
        assert_eq!(names(&others), ["a", "c"]);
        let wrong = kubectl.fails("get configmaps --field-selector data.rank=1");
        assert!(wrong.contains("(BadRequest)"), "{wrong}");
    });
}

#[test]
fn get_sorts_and_pages() {
    each(|kubectl| {
        three_maps(kubectl);
        let sorted = kubectl.ok("get configmaps -l tier --no-headers --sort-by={.data.rank}");
        assert_eq!(names(&sorted), ["b", "c", "a"]);
        let paged = kubectl.ok("get configmaps -l tier --no-headers --chunk-size=1");
        assert_eq!(names(&paged), ["a", "b", "c"]);
    });
}

#[test]
fn get_looks_into_all_namespaces() {
    each(|kubectl| {
        let other = Namespace::new();
        kubectl.ok("create configmap a");
        kubectl.ok(["create", "configmap", "a", "-n", &other.name]);
        let listed = kubectl.ok("get configmaps -A --no-headers --field-selector metadata.name=a");
        for name in [&kubectl.name, &other.name] {
            assert!(
                listed
                    .lines()
                    .any(|line| line.split_whitespace().take(2).eq([name.as_str(), "a"])),
                "{listed}"
            );
        }
        let narrowed = format!(
            "get configmaps -A -o name --field-selector metadata.name=a,metadata.namespace={}",
            other.name
        );
        assert_eq!(kubectl.ok(&narrowed), "configmap/a\n");
    });
}

#[test]
fn get_says_what_is_not_there() {
    each(|kubectl| {
        let missing = kubectl.fails("get configmap none");
        assert_eq!(missing, "Error from server (NotFound): configmaps \"none\" not found\n");
        let none = kubectl.run("get pods", "", &[]);
        assert_eq!((none.code, none.out.as_str()), (0, ""));
        assert_eq!(none.err, format!("No resources found in {} namespace.\n", kubectl.name));
        let unknown = kubectl.fails("get nonsense");
        assert!(
            unknown.contains("the server doesn't have a resource type \"nonsense\""),
            "{unknown}"
        );
    });
}

#[test]
fn get_all_shows_what_is_in_the_category() {
    each(|kubectl| {
        kubectl.ok("create deployment web --image=x --replicas=0");
        kubectl.ok("run p --image=x");
        kubectl.ok("expose pod p --port=80 --cluster-ip=None");
        kubectl.ok("create configmap a");
        let all = kubectl.ok("get all -o name");
        for name in ["pod/p", "service/p", "deployment.apps/web"] {
            assert!(all.lines().any(|line| line == name), "{all}");
        }
        assert!(!all.contains("configmap"), "{all}");
    });
}

#[test]
fn a_pod_is_shown_with_its_columns_and_described() {
    each(|kubectl| {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"note": "hello"}}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "10m"}}}]}}"#;
        kubectl.fed(pod, "create -f -");
        let table = kubectl.ok("get pods");
        assert!(
            table.starts_with("NAME   READY   STATUS    RESTARTS   AGE\n"),
            "{table}"
        );
        assert_eq!(row(&table, "p")[1..4], ["0/1", "Pending", "0"]);
        let wide = kubectl.ok("get pods -o wide");
        assert!(wide.contains("NOMINATED NODE   READINESS GATES"), "{wide}");
        let described = kubectl.ok("describe pod p");
        let described = described.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "Name: p ",
            "note: hello",
            "QoS Class: Burstable",
            "Status: Pending",
            "Image: x",
            "cpu: 10m",
            "Events: <none>",
        ] {
            assert!(described.contains(part), "{part:?} is not in\n{described}");
        }
    });
}

#[test]
fn get_raw_gives_the_bytes_of_the_api() {
    each(|kubectl| {
        kubectl.ok("create configmap a --from-literal=x=1");
        let raw = kubectl.ok(["get", "--raw", &kubectl.core("configmaps/a")]);
        let object: Value = serde_json::from_str(&raw).unwrap();
        assert_eq!(object["data"]["x"], "1");
    });
}
