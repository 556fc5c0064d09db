//! What schema and CEL rules refuse, with the field that is to be mended.

use berth_api::{NodeNetworkConfig, Subnet};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{definitions, subnet, subnets};
use crate::space::{Space, in_space, refusal, unique};

/// The fields that the refusal of such a Subnet names, and what it says.
async fn refused(space: &Space, spec: Value) -> Vec<(String, String)> {
    let name = unique("refused");
    let created = subnets(&space.client)
        .create(&PostParams::default(), &subnet(&name, spec))
        .await;
    let status = refusal(created);
    assert_eq!(
        (status.code, status.reason.as_str()),
        (422, "Invalid"),
        "{}",
        status.message
    );
    let details = status.details.unwrap();
    assert_eq!(
        (details.name, details.kind.as_str(), details.group.as_str()),
        (name, "Subnet", "berth.dev")
    );
    details
        .causes
        .into_iter()
        .map(|cause| (cause.field, cause.message))
        .collect()
}

#[test]
fn a_subnet_that_breaks_a_rule_is_refused_by_field() {
    in_space(async |space| {
        definitions(&space.client).await;
        let cidrs = json!(["10.64.0.0/16"]);
        for (spec, field, words) in [
            (json!({"cidrs": ["10.64.0.1/16"]}), "spec.cidrs[0]", "has host bits set"),
            (
                json!({"cidrs": ["10.64.0.0/16", "ten"]}),
                "spec.cidrs[1]",
                "\"ten\" is not a CIDR",
            ),
            (
                json!({"cidrs": ["10.64.0.0/16", "10.64.7.0/24"]}),
                "spec.cidrs",
                "overlaps another",
            ),
            (
                json!({"cidrs": cidrs, "gateways": ["10.65.0.1"]}),
                "spec.gateways",
                "is in none of the cidrs",
            ),
            (
                json!({"cidrs": cidrs, "excludes": ["10.65.0.0/28"]}),
                "spec.excludes",
                "is not inside",
            ),
            (
                json!({"cidrs": cidrs, "reuseDelay": "soon"}),
                "spec.reuseDelay",
                "is not a duration",
            ),
            (
                json!({"cidrs": cidrs, "exhaustion": {"enterPercent": 50, "leavePercent": 60}}),
                "spec.exhaustion.leavePercent",
                "must be lower than enterPercent",
            ),
        ] {
            let causes = refused(&space, spec.clone()).await;
            let [(found, message)] = causes.as_slice() else {
                panic!("{spec}: one mistake is one cause, not {causes:?}");
            };
            assert_eq!(found, field, "{spec}");
            assert!(message.contains(words), "{spec}: {message}");
        }
    });
}

#[test]
fn a_subnet_that_breaks_its_schema_is_refused_by_field() {
    in_space(async |space| {
        definitions(&space.client).await;
        let cidrs = json!(["10.64.0.0/16"]);
        for (spec, field) in [
            (json!({}), "spec.cidrs"),
            (json!({"cidrs": []}), "spec.cidrs"),
            (json!({"cidrs": "10.64.0.0/16"}), "spec.cidrs"),
            (json!({"cidrs": cidrs, "use": "cats"}), "spec.use"),
            (
                json!({"cidrs": cidrs, "scaler": {"batchSize": 0}}),
                "spec.scaler.batchSize",
            ),
            (
                json!({"cidrs": cidrs, "unitLengths": {"ipv4": 33}}),
                "spec.unitLengths.ipv4",
            ),
        ] {
            let causes = refused(&space, spec.clone()).await;
            assert!(causes.iter().any(|(found, _)| found == field), "{spec}: {causes:?}");
        }
    });
}

#[test]
fn what_is_fixed_or_may_only_grow_is_held_to_it() {
    in_space(async |space| {
        definitions(&space.client).await;
        let name = unique("fixed");
        let api: Api<Subnet> = Api::all(space.client.clone());
        let spec = json!({"cidrs": ["10.64.0.0/16"]});
        subnets(&space.client)
            .create(&PostParams::default(), &subnet(&name, spec))
            .await
            .unwrap();
        let patch = async |spec: Value| {
            let patch = Patch::Merge(json!({"spec": spec}));
            api.patch(&name, &PatchParams::default(), &patch).await
        };
        let appended = patch(json!({"cidrs": ["10.64.0.0/16", "10.65.0.0/16"]})).await;
        let shortened = patch(json!({"cidrs": ["10.65.0.0/16"]})).await;
        let repurposed = patch(json!({"use": "machines"})).await;
        let left = api.get(&name).await.unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();

        assert_eq!(appended.unwrap().spec, left.spec);
        for (refused, field) in [(shortened, "spec.cidrs"), (repurposed, "spec.use")] {
            let causes = refusal(refused).details.unwrap().causes;
            let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, [field]);
        }
    });
}

#[test]
fn an_nnc_cannot_request_more_than_its_max_ip_count() {
    in_space(async |space| {
        definitions(&space.client).await;
        let configs = space.api::<NodeNetworkConfig>();
        space
            .have::<NodeNetworkConfig>(
                json!({"metadata": {"name": "node"}, "spec": {"requestedIPCount": 16}}),
            )
            .await;
        let scaler = json!({"batchSize": 16, "requestThresholdPercent": 50, "releaseThresholdPercent": 150, "maxIPCount": 32});
        let params = PatchParams::default();
        let patch = Patch::Merge(json!({"status": {"scaler": scaler}}));
        configs.patch_status("node", &params, &patch).await.unwrap();
        let request = async |count: i64| {
            let patch = Patch::Merge(json!({"spec": {"requestedIPCount": count}}));
            configs.patch("node", &params, &patch).await
        };
        assert_eq!(request(32).await.unwrap().spec.requested_ip_count, 32);
        for count in [48, -1] {
            let status = refusal(request(count).await);
            assert_eq!(status.code, 422);
            assert_eq!(status.details.unwrap().causes[0].field, "spec.requestedIPCount");
        }
        assert_eq!(configs.get("node").await.unwrap().spec.requested_ip_count, 32);
    });
}
