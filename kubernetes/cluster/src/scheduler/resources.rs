//! The resources that pods request and nodes have.

use std::collections::BTreeMap;

use berth_apimachinery::shape::strict;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by resource name, in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(BTreeMap<String, i128>);

/// The resource of which every pod takes one.
pub const PODS: &str = "pods";

impl Resources {
    /// Invalid quantities count as zero. They don't occur, because the API refuses them.
    pub fn of(quantities: Option<&BTreeMap<String, Quantity>>) -> Self {
        let amounts = quantities.into_iter().flatten();
        Self(
            amounts
                .map(|(name, quantity)| (name.clone(), milli(&quantity.0).unwrap_or(0)))
                .collect(),
        )
    }

    /// The resources that a node must have free for the pod: the sum of its containers, or its
    /// largest init container if that is more. Sidecars are added to both.
    pub fn of_pod(spec: &PodSpec) -> Self {
        let mut sidecars = Self::default();
        let mut starting = Self::default();
        for container in spec.init_containers.iter().flatten() {
            let mut request = Self::of_container(container);
            if container.restart_policy.as_deref() == Some("Always") {
                sidecars.add(&request);
                starting.raise(&sidecars);
            } else {
                request.add(&sidecars);
                starting.raise(&request);
            }
        }
        let mut total = sidecars;
        for container in &spec.containers {
            total.add(&Self::of_container(container));
        }
        total.raise(&starting);
        total.add(&Self::of(spec.overhead.as_ref()));
        total.0.insert(PODS.to_owned(), 1000);
        total
    }

    fn of_container(container: &Container) -> Self {
        let Some(resources) = &container.resources else {
            return Self::default();
        };
        // A limit without a request counts as the request.
        let mut amounts = Self::of(resources.limits.as_ref());
        amounts.0.extend(Self::of(resources.requests.as_ref()).0);
        amounts
    }

    pub fn get(&self, name: &str) -> i128 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_insert(0);
            *sum = sum.saturating_add(*amount);
        }
    }

    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let rest = self.0.entry(name.clone()).or_insert(0);
            *rest = rest.saturating_sub(*amount);
        }
    }

    fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_insert(0);
            *most = (*most).max(*amount);
        }
    }

    /// The resources of which too little is left for `request`, with `used` taken from `self`.
    pub fn short_of<'a>(&self, used: &Self, request: &'a Self) -> Vec<&'a str> {
        let short = |name: &str, amount: i128| {
            amount > 0 && used.get(name).saturating_add(amount) > self.get(name)
        };
        let names = request.0.iter();
        names
            .filter(|(name, amount)| short(name, **amount))
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

/// A quantity in thousandths, rounded away from zero: a request below a thousandth still counts.
fn milli(quantity: &str) -> Option<i128> {
    const NANO_PER_MILLI: i128 = 1_000_000;
    let nano = strict::nano(quantity)?;
    let rest = nano % NANO_PER_MILLI;
    Some(nano / NANO_PER_MILLI + rest.signum())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (quantity, expected) in [
            ("1", 1_000),
            ("1500m", 1_500),
            ("0.5", 500),
            (".5", 500),
            ("2.", 2_000),
            ("1.5Gi", 1_610_612_736_000),
            ("16Gi", 17_179_869_184_000),
            ("128974848", 128_974_848_000),
            ("129e6", 129_000_000_000),
            ("1E3", 1_000_000),
            ("1E", 1_000_000_000_000_000_000_000),
            ("100k", 100_000_000),
            ("1n", 1),
            ("1500u", 2),
            ("-250m", -250),
            ("+1", 1_000),
            ("0", 0),
        ] {
            assert_eq!(milli(quantity), Some(expected), "{quantity}");
        }
        for wrong in ["", "Gi", "1GiB", "1 Gi", "one", "1e", "--1", "1.2.3"] {
            assert_eq!(milli(wrong), None, "{wrong}");
        }
    }

    fn pod(spec: serde_json::Value) -> Resources {
        Resources::of_pod(&serde_json::from_value(spec).unwrap())
    }

    fn asks(cpu: &str) -> serde_json::Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_requests_its_containers_sum_or_largest_init_container() {
        let small =
            json!({"initContainers": [asks("100m")], "containers": [asks("200m"), asks("300m")]});
        assert_eq!(pod(small).get("cpu"), 500);
        let hungry = json!({"initContainers": [asks("900m")], "containers": [asks("200m")]});
        assert_eq!(pod(hungry).get("cpu"), 900);
        assert_eq!(pod(json!({"containers": []})).get(PODS), 1_000);
    }

    #[test]
    fn a_sidecar_counts_while_the_pod_starts_and_while_it_runs() {
        let mut sidecar = asks("100m");
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({"initContainers": [sidecar, asks("250m")], "containers": [asks("200m")]});
        assert_eq!(pod(spec).get("cpu"), 350);
    }

    #[test]
    fn a_limit_without_a_request_is_a_request() {
        let spec = json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Ki"}, "requests": {"cpu": "1"}}}]});
        assert_eq!(pod(spec.clone()).get("cpu"), 1_000);
        assert_eq!(pod(spec).get("memory"), 1_024_000);
    }
}
