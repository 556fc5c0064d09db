//! Selectors and namespaces: what a list or a watch shows of all that is there.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::space::{Space, in_space, names, object, version};
use crate::wait::next;
use crate::watch::watch;

#[test]
fn a_watch_reports_deleted_when_labels_no_longer_match() {
    in_space(async |space| {
        let start = space.lease("a").await;
        let leases = space.api::<Lease>();
        let params = WatchParams::default().labels("color in (red, green)");
        let mut stream = watch(&leases, &params, &start.resource_version().unwrap()).await;

        let red = space.label("a", "color", Some("red")).await;
        let green = space.label("a", "color", Some("green")).await;
        let blue = space.label("a", "color", Some("blue")).await;
        space.label("a", "size", Some("unseen")).await;
        let back = space.label("a", "color", Some("red")).await;

        let event = next("it comes into sight", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Added(lease) if lease == red));
        let event = next("it changes in sight", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Modified(lease) if lease == green));
        let WatchEvent::Deleted(left) = next("it leaves", &mut stream).await.unwrap() else {
            panic!("leaving is DELETED");
        };
        assert_eq!(left.labels()["color"], "green", "as it last was in sight");
        assert_eq!(version(&left), version(&blue), "under the version at which it left");
        let event = next("it comes back", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Added(lease) if lease == back));
    });
}

#[test]
fn a_watch_reports_deleted_when_fields_no_longer_match() {
    in_space(async |space| {
        let pods = space.api::<Pod>();
        let pod = space.pod("a").await;
        let params = WatchParams::default().fields("status.phase=Pending,metadata.name=a");
        let mut stream = watch(&pods, &params, &pod.resource_version().unwrap()).await;
        space.pod("b").await;
        let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
        let running = pods.patch_status("a", &PatchParams::default(), &patch).await.unwrap();
        let WatchEvent::Deleted(left) = next("it leaves", &mut stream).await.unwrap() else {
            panic!("leaving is DELETED");
        };
        assert_eq!(left.name_any(), "a");
        assert_eq!(version(&left), version(&running));
    });
}

#[test]
fn a_watch_by_node_name_reports_only_pods_bound_to_that_node() {
    in_space(async |space| {
        let pods = space.api::<Pod>();
        let first = space.pod("there").await;
        let params = WatchParams::default().fields("spec.nodeName=berth-test-here");
        let mut stream = watch(&pods, &params, &first.resource_version().unwrap()).await;
        space.pod("here").await;
        for name in ["there", "here"] {
            let target = json!({"kind": "Node", "name": format!("berth-test-{name}")});
            let binding: Binding = object(json!({"metadata": {"name": name}, "target": target}));
            let params = PostParams::default();
            pods.create_subresource::<_, Status>("binding", name, &params, &binding)
                .await
                .unwrap();
        }
        let event = next("it is bound", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Added(pod) if pod.name_any() == "here"));
        for name in ["there", "here"] {
            let force = DeleteParams::default().grace_period(0);
            pods.delete(name, &force).await.unwrap();
        }
        loop {
            match next("it goes", &mut stream).await.unwrap() {
                WatchEvent::Modified(pod) => assert_eq!(pod.name_any(), "here"),
                WatchEvent::Deleted(pod) => break assert_eq!(pod.name_any(), "here"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn a_list_shows_what_its_selectors_say() {
    in_space(async |space| {
        for (name, color) in [("a", "red"), ("b", "green"), ("c", "blue")] {
            space.lease(name).await;
            space.label(name, "color", Some(color)).await;
        }
        space.lease("d").await;
        let leases = space.api::<Lease>();
        for (selector, expected) in [
            ("color=red", vec!["a"]),
            ("color!=red", vec!["b", "c", "d"]),
            ("color in (red, blue)", vec!["a", "c"]),
            ("color notin (red, blue)", vec!["b", "d"]),
            ("color", vec!["a", "b", "c"]),
            ("!color", vec!["d"]),
            ("color,color!=red", vec!["b", "c"]),
        ] {
            let found = leases.list(&ListParams::default().labels(selector)).await.unwrap();
            assert_eq!(names(found), expected, "{selector}");
        }
        for (selector, expected) in [
            ("metadata.name=b", vec!["b"]),
            ("metadata.name!=b", vec!["a", "c", "d"]),
        ] {
            let found = leases.list(&ListParams::default().fields(selector)).await.unwrap();
            assert_eq!(names(found), expected, "{selector}");
        }
    });
}

#[test]
fn lists_and_watches_of_a_namespace_show_only_its_objects() {
    in_space(async |here| {
        let there = Space::new().await;
        let mark = here.name.as_str();
        let all: Api<Lease> = Api::all(here.client.clone());
        let labels = format!("mark={mark}");
        let start = all.list(&ListParams::default()).await.unwrap().metadata;
        let start = start.resource_version.unwrap();
        let params = WatchParams::default().labels(&labels);
        let mut of_all = watch(&all, &params, &start).await;
        let mut of_one = watch(&there.api::<Lease>(), &params, &start).await;

        for (space, name) in [(&here, "a"), (&there, "b")] {
            let lease = json!({"metadata": {"name": name, "labels": {"mark": mark}}});
            space.have::<Lease>(lease).await;
        }

        let params = ListParams::default().labels(&labels);
        let one = there.api::<Lease>().list(&params).await.unwrap();
        assert_eq!(names(one), ["b"]);
        let mut every = names(all.list(&params).await.unwrap());
        every.sort();
        assert_eq!(every, ["a", "b"]);
        for name in ["a", "b"] {
            let event = next(name, &mut of_all).await.unwrap();
            assert!(matches!(event, WatchEvent::Added(lease) if lease.name_any() == name));
        }
        let event = next("b", &mut of_one).await.unwrap();
        assert!(matches!(event, WatchEvent::Added(lease) if lease.name_any() == "b"));
        there
            .api::<Lease>()
            .delete("b", &DeleteParams::default())
            .await
            .unwrap();
        there.leave().await;
    });
}
