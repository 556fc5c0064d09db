//! The metrics of a process: one registry that every part registers into, encoded as OpenMetrics text.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::info::Info,
    registry::Registry,
};

/// What a scraper must be told that the text is.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The label of things that a process has several of: its queues, its elections. The code gives the names, so they are few.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Name {
    name: String,
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned() }
    }
}

/// The registry, shared: parts that start late can still register, and a scrape sees all of them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<RwLock<Registry>>,
}

impl Metrics {
    /// Every process says which version it is, as `berth_build_info{version="…"}`.
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::default();
        registry.register(
            "berth_build",
            "The version of this process",
            Info::new([("version", version)]),
        );
        Self {
            registry: Arc::new(RwLock::new(registry)),
        }
    }

    /// Gives the registry to `register`, which returns its handles to the metrics it made.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry.read().unwrap_or_else(PoisonError::into_inner))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn what_is_registered_late_is_scraped_too() {
        let metrics = Metrics::new("1.2.3");
        assert!(
            metrics
                .encode()
                .unwrap()
                .contains(r#"berth_build_info{version="1.2.3"} 1"#)
        );

        let leases = metrics.register(|registry| {
            let leases = Counter::<u64>::default();
            registry.register("berth_leases", "Leases given", leases.clone());
            leases
        });
        leases.inc();
        let text = metrics.encode().unwrap();
        assert!(text.contains("berth_leases_total 1\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
