//! Runs the CRDs' rules on the cases in `tests/rules/`. Each case must get exactly its refusals,
//! with their fields and messages. For Subnets, `Subnet::validate` must say the same.

mod openapi;

use std::collections::BTreeSet;

use berth_api::{Subnet, crds};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
struct Case {
    promise: String,
    before: Option<Value>,
    object: Value,
    #[serde(default)]
    refused: Vec<Refusal>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Refusal {
    field: String,
    message: String,
}

fn cases(yaml: &str) -> Vec<Case> {
    let cases: Vec<Case> = serde_saphyr::from_str(yaml).unwrap();
    assert!(cases.len() > 5);
    cases
}

fn schema(kind: &str) -> Value {
    let crds = crds::all();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

/// Works like the API server: first it sets the defaults, then it checks the schema, and if that
/// allows the object, it checks the rules.
fn refusals(schema: &Value, case: &Case) -> Vec<Refusal> {
    let object = kube_cel::apply_defaults(schema, &case.object);
    let before = case
        .before
        .as_ref()
        .map(|before| kube_cel::apply_defaults(schema, before));
    let by_schema = openapi::violations(schema, &object);
    if !by_schema.is_empty() {
        return by_schema
            .into_iter()
            .map(|(field, message)| Refusal { field, message })
            .collect();
    }
    let by_rules = kube_cel::Validator::new().validate(schema, &object, before.as_ref());
    by_rules
        .err()
        .into_iter()
        .flat_map(kube_cel::ValidationErrors::into_vec)
        .map(|error| Refusal {
            // At the root, the field path begins with the dot of the rule's fieldPath.
            field: error.field_path.trim_start_matches('.').to_owned(),
            message: error.message,
        })
        .collect()
}

fn assert_refused(case: &Case, found: &[Refusal], by: &str) {
    let fields = |refusals: &[Refusal]| {
        refusals
            .iter()
            .map(|refusal| refusal.field.clone())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        fields(found),
        fields(&case.refused),
        "{by}: {}: {found:#?}",
        case.promise
    );
    assert_eq!(found.len(), case.refused.len(), "{by}: {}: {found:#?}", case.promise);
    for want in &case.refused {
        let said = |refusal: &&Refusal| {
            refusal.field == want.field && refusal.message.contains(&want.message)
        };
        assert!(
            found.iter().any(|refusal| said(&refusal)),
            "{by}: {}: no {want:?} in {found:#?}",
            case.promise
        );
    }
}

fn assert_rules(kind: &str, yaml: &str) {
    let schema = schema(kind);
    for case in cases(yaml) {
        assert_refused(&case, &refusals(&schema, &case), "the CRD");
    }
}

#[test]
fn the_subnet_crd_refuses_what_it_should_and_nothing_else() {
    assert_rules("Subnet", include_str!("../rules/subnets.yaml"));
}

#[test]
fn the_nnc_crd_refuses_what_it_should_and_nothing_else() {
    assert_rules("NodeNetworkConfig", include_str!("../rules/nodenetworkconfigs.yaml"));
}

#[test]
fn the_addressblock_crd_refuses_what_it_should_and_nothing_else() {
    assert_rules("AddressBlock", include_str!("../rules/addressblocks.yaml"));
}

#[test]
fn subnet_validate_says_what_the_crd_says() {
    // Only the API server can check a change: `validate` does not know the object before it.
    for case in cases(include_str!("../rules/subnets.yaml"))
        .into_iter()
        .filter(|case| case.before.is_none())
    {
        // A value that the types can't hold is refused while it is read.
        let Ok(subnet) = serde_json::from_value::<Subnet>(case.object.clone()) else {
            assert!(!case.refused.is_empty(), "{}", case.promise);
            continue;
        };
        let found: Vec<Refusal> = subnet
            .validate()
            .err()
            .into_iter()
            .flatten()
            .map(|invalid| Refusal {
                field: invalid.field,
                message: invalid.message,
            })
            .collect();
        assert_refused(&case, &found, "validate");
    }
}
