//! The metrics of a process: one registry that every part registers into, encoded as OpenMetrics
//! text.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::info::Info,
    registry::Registry,
};

/// The content type that a scraper needs.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The label of things that a process has several of: its queues, its elections. The names are
/// fixed in the code, so they are few.
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
    /// Metrics that several parts of the process share, by type.
    shared: Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>,
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
            shared: Arc::default(),
        }
    }

    /// Gives the registry to `register`, which returns its handles to the metrics it made.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.write())
    }

    /// The same for metrics that several parts of a process use, such as those of its queues: the
    /// first caller registers them, the others get the same handles. A family can be registered
    /// only once.
    pub fn share<T: Clone + Send + 'static>(&self, register: fn(&mut Registry) -> T) -> T {
        let mut shared = self.shared.lock();
        let there = shared.get(&TypeId::of::<T>());
        if let Some(handles) = there.and_then(|handles| handles.downcast_ref::<T>()) {
            return handles.clone();
        }
        let handles = self.register(register);
        shared.insert(TypeId::of::<T>(), Box::new(handles.clone()));
        handles
    }

    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry.read())?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[derive(Clone)]
    struct Shared(Counter<u64>);

    impl Shared {
        fn register(registry: &mut Registry) -> Self {
            let counter = Counter::default();
            registry.register("shared", "Counted by several parts", counter.clone());
            Self(counter)
        }
    }

    #[test]
    fn what_parts_share_is_registered_once() {
        let metrics = Metrics::new("1.2.3");
        for _ in 0..2 {
            metrics.share(Shared::register).0.inc();
        }
        let text = metrics.encode().unwrap();
        assert_eq!(text.matches("# TYPE shared counter").count(), 1, "{text}");
        assert!(text.contains("shared_total 2\n"), "{text}");
    }

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
