//! The two shapes of Machine, and where each has the fields that we read and write.

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// The shape of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// `machine.k8s.io/v1alpha1`, with its network in `spec.providerConfig`.
    ProviderConfig,
    /// `cluster.k8s.io/v1alpha1`, with its network in `spec.providerSpec.value`.
    ProviderSpec,
}

/// The document is of another kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "apiVersion, kind: {api_version} {kind} is not a Machine: use machine.k8s.io/v1alpha1 \
     or cluster.k8s.io/v1alpha1, kind Machine"
)]
pub struct NotAMachine {
    api_version: String,
    kind: String,
}

static NOTHING: Value = Value::Null;

impl Shape {
    pub const ALL: [Self; 2] = [Self::ProviderConfig, Self::ProviderSpec];

    pub fn group(self) -> &'static str {
        match self {
            Self::ProviderConfig => "machine.k8s.io",
            Self::ProviderSpec => "cluster.k8s.io",
        }
    }

    pub fn resource(self) -> ApiResource {
        ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(self.group(), "v1alpha1", "Machine"),
            "machines",
        )
    }

    pub fn of(value: &Value) -> Result<Self, NotAMachine> {
        let text =
            |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let found = Self::ALL
            .into_iter()
            .find(|shape| shape.resource().api_version == api_version && kind == "Machine");
        found.ok_or(NotAMachine { api_version, kind })
    }

    /// The part of a Machine that its provider reads.
    pub fn provider(self, machine: &Value) -> &Value {
        let pointer = match self {
            Self::ProviderConfig => "/spec/providerConfig",
            Self::ProviderSpec => "/spec/providerSpec/value",
        };
        machine.pointer(pointer).unwrap_or(&NOTHING)
    }

    pub fn network(self, machine: &Value) -> &Value {
        self.provider(machine).get("network").unwrap_or(&NOTHING)
    }

    pub fn network_field(self) -> &'static str {
        match self {
            Self::ProviderConfig => "spec.providerConfig.network",
            Self::ProviderSpec => "spec.providerSpec.value.network",
        }
    }

    /// A merge patch of the spec that sets the network.
    pub fn spec_with(self, network: &Value) -> Value {
        self.spec_of(&json!({"network": network}))
    }

    /// A spec with only the part that the provider reads.
    pub fn spec_of(self, provider: &Value) -> Value {
        match self {
            Self::ProviderConfig => json!({"providerConfig": provider}),
            Self::ProviderSpec => json!({"providerSpec": {"value": provider}}),
        }
    }
}
