//! Leases: nodes and leaders show with them that they are alive.

use berth_apimachinery::columns::{AGE, Column, NAME};
use berth_apimachinery::status::{FieldError, Path};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;

use super::built_in::{BuiltIn, Change, schema_of};
use crate::rules::Errors;

pub static KIND: BuiltIn = BuiltIn {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    schema: schema_of::<Lease>,
    check,
    allow_create_on_update: true,
    needs_resource_version: true,
    columns: &[NAME, Column::text("Holder", "/spec/holderIdentity"), AGE],
    ..BuiltIn::PLAIN
};

fn check(object: &Value, _: &Change<'_>, errors: &mut Errors) {
    for (name, least, detail) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        let value = &object["spec"][name];
        if value.as_i64().is_some_and(|given| given < least) {
            let field = Path::new("spec").child(name);
            errors.push(FieldError::invalid(field, value.clone(), detail));
        }
    }
}
