//! The Node condition `NetworkUnavailable`.

/// The status and the reason: a change of either is written.
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

    /// The condition to write, or `None` if it is there already. A condition with the same status
    /// and another reason is overwritten.
    pub fn to_write(there: Option<&Self>, routed: bool) -> Option<Self> {
        let next = if routed {
            Self::routed()
        } else {
            Self::not_routed()
        };
        (there != Some(&next)).then_some(next)
    }
}
