//! The Node condition `NetworkUnavailable`.

/// Status and reason: what decides whether it has to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
}

impl Condition {
    pub fn routed() -> Self {
        Self::of("False", "RouteCreated")
    }

    pub fn not_routed() -> Self {
        Self::of("True", "NoRouteCreated")
    }

    fn of(status: &str, reason: &str) -> Self {
        Self {
            status: status.to_owned(),
            reason: reason.to_owned(),
        }
    }

    pub fn message(&self) -> &'static str {
        match self.status.as_str() {
            "False" => "RouteController created a route",
            _ => "RouteController failed to create a route",
        }
    }

    /// What has to be written over what is there, or nothing: one of another author with the same
    /// status is taken over.
    pub fn to_write(there: Option<&Self>, routed: bool) -> Option<Self> {
        let next = if routed {
            Self::routed()
        } else {
            Self::not_routed()
        };
        (there != Some(&next)).then_some(next)
    }
}
