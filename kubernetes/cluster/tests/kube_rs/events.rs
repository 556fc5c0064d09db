//! kube's event `Recorder`, and events as both of their groups show them.

use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::runtime::events::{self, EventType, Recorder, Reporter};
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::space::{Space, in_space};

async fn record(recorder: &Recorder, about: &ConfigMap, reason: &str) {
    let event = events::Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some("10.64.0.0/24 has no address left".to_owned()),
        action: "Allocate".to_owned(),
        secondary: None,
    };
    recorder.publish(&event, &about.object_ref(&())).await.unwrap();
}

fn recorder(space: &Space) -> Recorder {
    let reporter = Reporter {
        controller: "berth.dev/test".to_owned(),
        instance: Some("one".to_owned()),
    };
    Recorder::new(space.client.clone(), reporter)
}

#[test]
fn a_recorded_event_is_one_object_in_both_groups() {
    in_space(async |space| {
        let about: ConfigMap = space.have(json!({"metadata": {"name": "subject"}})).await;
        record(&recorder(&space), &about, "SubnetFull").await;

        let everything = ListParams::default();
        let [new] =
            <[Event; 1]>::try_from(space.api().list(&everything).await.unwrap().items).unwrap();
        let [old] =
            <[CoreEvent; 1]>::try_from(space.api().list(&everything).await.unwrap().items).unwrap();
        assert_eq!((new.uid(), new.resource_version()), (old.uid(), old.resource_version()));
        assert_eq!(new.regarding.unwrap(), old.involved_object);
        assert_eq!(old.involved_object.uid, about.uid());
        assert_eq!((new.note, new.reason, new.type_), (old.message, old.reason, old.type_));
        assert_eq!((&new.action, &new.event_time), (&old.action, &old.event_time));
        assert_eq!(new.action.as_deref(), Some("Allocate"));
        assert_eq!(new.reporting_controller.as_deref(), Some("berth.dev/test"));
        assert_eq!(old.reporting_component.as_deref(), Some("berth.dev/test"));
        assert_eq!(
            (new.reporting_instance.as_deref(), old.reporting_instance.as_deref()),
            (Some("one"), Some("one"))
        );
    });
}

#[test]
fn a_repeated_event_becomes_a_series_in_both_groups() {
    in_space(async |space| {
        let about: ConfigMap = space.have(json!({"metadata": {"name": "subject"}})).await;
        let recorder = recorder(&space);
        for _ in 0..3 {
            record(&recorder, &about, "SubnetFull").await;
        }
        let new = space.api::<Event>().list(&ListParams::default()).await.unwrap();
        let counts: Vec<_> = new
            .iter()
            .map(|event| event.series.as_ref().map(|series| series.count))
            .collect();
        assert_eq!(counts, [Some(3)]);
        let old = space.api::<CoreEvent>().list(&ListParams::default()).await.unwrap();
        let counts: Vec<_> = old
            .iter()
            .map(|event| event.series.as_ref().and_then(|series| series.count))
            .collect();
        assert_eq!(counts, [Some(3)]);
    });
}

#[test]
fn events_are_found_by_what_they_are_about() {
    in_space(async |space| {
        let recorder = recorder(&space);
        let a: ConfigMap = space.have(json!({"metadata": {"name": "a"}})).await;
        let b: ConfigMap = space.have(json!({"metadata": {"name": "b"}})).await;
        for (about, reason) in [(&a, "SubnetFull"), (&b, "SubnetFull"), (&b, "Leased")] {
            record(&recorder, about, reason).await;
        }
        let uid = a.uid().unwrap();
        for (selector, found) in [
            (format!("about.uid={uid}"), 1),
            ("about.name=b".to_owned(), 2),
            ("about.name=b,reason=Leased".to_owned(), 1),
            ("about.kind=ConfigMap,type=Warning".to_owned(), 3),
            ("about.kind=Pod".to_owned(), 0),
        ] {
            let old = ListParams::default().fields(&selector.replace("about", "involvedObject"));
            let new = ListParams::default().fields(&selector.replace("about", "regarding"));
            let old = space.api::<CoreEvent>().list(&old).await.unwrap();
            let new = space.api::<Event>().list(&new).await.unwrap();
            assert_eq!((old.items.len(), new.items.len()), (found, found), "{selector}");
        }
        let old = ListParams::default().fields("reportingComponent=berth.dev/test");
        let new = ListParams::default().fields("reportingController=berth.dev/test");
        assert_eq!(space.api::<CoreEvent>().list(&old).await.unwrap().items.len(), 3);
        assert_eq!(space.api::<Event>().list(&new).await.unwrap().items.len(), 3);
    });
}
