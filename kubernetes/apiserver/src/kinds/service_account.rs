//! ServiceAccounts. Each namespace has one named `default`: see `housekeeping`.

use berth_apimachinery::columns::{AGE, NAME};
use k8s_openapi::api::core::v1::ServiceAccount;

use super::built_in::{Answer, BuiltIn, Deletion, schema_of};

pub static KIND: BuiltIn = BuiltIn {
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    short_names: &["sa"],
    schema: schema_of::<ServiceAccount>,
    columns: &[NAME, AGE],
    deletion: Deletion {
        answer: Answer::Object,
        ..Deletion::PLAIN
    },
    ..BuiltIn::PLAIN
};
