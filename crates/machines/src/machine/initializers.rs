//! The gate: a list of initializers that must be done before a machine is built.

pub use berth_api::machines::{INITIALIZER, INITIALIZERS};

/// The names in the annotation, in their order. Not text: "a,ipam" without "ipam" is "a", not "a,".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Initializers(Vec<String>);

impl Initializers {
    pub fn parse(text: &str) -> Self {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        Self(names.map(str::to_owned).collect())
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|found| found == name)
    }

    /// No initializer is left: the machine may be built.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|found| *found != name).cloned().collect())
    }

    #[must_use]
    pub fn with(&self, name: &str) -> Self {
        let mut names = self.0.clone();
        if !self.contains(name) {
            names.push(name.to_owned());
        }
        Self(names)
    }

    /// `None` if no initializer is left: then the annotation goes.
    pub fn to_annotation(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_entry_goes_and_nothing_else() {
        let without = |text: &str| Initializers::parse(text).without("ipam").to_annotation();
        assert_eq!(without("a,ipam").as_deref(), Some("a"));
        assert_eq!(without("ipam,a").as_deref(), Some("a"));
        assert_eq!(without("a,ipam,b").as_deref(), Some("a,b"));
        assert_eq!(without("ipam"), None);
        assert_eq!(
            without("ipam-of-others,my-ipam").as_deref(),
            Some("ipam-of-others,my-ipam")
        );
        assert_eq!(without("a, ipam , b").as_deref(), Some("a,b"));
    }

    #[test]
    fn a_list_of_nothing_gates_nothing() {
        for text in ["", " ", ",", " , "] {
            assert!(Initializers::parse(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn an_entry_is_added_once() {
        let added = Initializers::parse("a").with(INITIALIZER).with(INITIALIZER);
        assert_eq!(added.to_annotation().as_deref(), Some("a,ipam.berth.dev"));
    }
}
