//! How many addresses a node's pool should hold: `B × ceil(mf + U/B)`, capped. `B` is the batch,
//! `mf` the free fraction to keep, `U` the demand. It depends only on the current demand, so
//! repeating a step changes nothing.
//!
//! The code uses only integers: `mf` is a percentage, and `(mf·B + U) / B` is one division, in
//! hundredths.

use std::num::NonZeroU64;

/// The defaults for a missing scaler.
const USUAL_BATCH: NonZeroU64 = NonZeroU64::MIN.saturating_add(15);
const USUAL_PERCENT: u64 = 50;

/// The part of a network container's scaler that the formula needs. It has no release threshold: a
/// pool grows and shrinks to the same target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaler {
    batch_size: NonZeroU64,
    request_threshold_percent: u64,
    max_ip_count: Option<NonZeroU64>,
}

impl Scaler {
    /// Takes the numbers on the wire, where a missing field reads as 0.
    ///
    /// - A `batchSize` of 0 or less means that the scaler is missing. Then the batch is 16 and the
    ///   threshold 50 %, so that a node that loses its scaler keeps its pool. A negative
    ///   `requestThresholdPercent` counts as 50 too; 0 is valid.
    /// - A `maxIPCount` of 0 or less is not a cap. A cap of 0 would give the whole pool back;
    ///   without a cap, the target still follows the number of pods.
    pub fn from_wire(batch_size: i64, request_threshold_percent: i64, max_ip_count: i64) -> Self {
        let positive = |n: i64| u64::try_from(n).ok().and_then(NonZeroU64::new);
        let batch_size = positive(batch_size);
        let percent = batch_size.and_then(|_| u64::try_from(request_threshold_percent).ok());
        Self {
            batch_size: batch_size.unwrap_or(USUAL_BATCH),
            request_threshold_percent: percent.unwrap_or(USUAL_PERCENT),
            max_ip_count: positive(max_ip_count),
        }
    }

    /// The most addresses that the scaler allows, if it has a limit.
    pub fn max_ip_count(self) -> Option<u64> {
        self.max_ip_count.map(NonZeroU64::get)
    }

    /// The same scaler, limited to `most` addresses. 0 is not a limit.
    #[must_use]
    pub fn at_most(self, most: u64) -> Self {
        let limits = [self.max_ip_count, NonZeroU64::new(most)];
        Self {
            max_ip_count: limits.into_iter().flatten().min(),
            ..self
        }
    }

    fn cap(self, target: u64) -> u64 {
        self.max_ip_count.map_or(target, |max| target.min(max.get()))
    }
}

/// How many addresses the node's subnet can give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supply {
    /// Whole batches.
    #[default]
    Enough,
    /// One at a time, and the node keeps one free.
    Exhausted,
    /// Others wait for addresses: the node keeps none free.
    Awaited,
}

/// How many secondary addresses to ask for. In an exhausted subnet the batch is 1, and the node
/// keeps one address free, or none while others wait.
///
/// ```
/// use berth_addr::scaling::{Scaler, Supply, target};
///
/// let scaler = Scaler::from_wire(16, 50, 250);
/// assert_eq!(target(25, scaler, Supply::Enough), 48);
/// assert_eq!(target(25, scaler, Supply::Exhausted), 26);
/// assert_eq!(target(25, scaler, Supply::Awaited), 25);
/// ```
pub fn target(demand: u64, scaler: Scaler, supply: Supply) -> u64 {
    match supply {
        Supply::Enough => {}
        Supply::Exhausted => return scaler.cap(demand.saturating_add(1)),
        Supply::Awaited => return scaler.cap(demand),
    }
    let batch = u128::from(scaler.batch_size.get());
    // Batch and percentage come from an i64, so this is below 2^126 + 2^71 and does not overflow.
    let hundredths =
        u128::from(scaler.request_threshold_percent) * batch + u128::from(demand) * 100;
    let target = hundredths.div_ceil(batch * 100) * batch;
    scaler.cap(u64::try_from(target).unwrap_or(u64::MAX))
}

/// A node's pool as its agent sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    pub demand: u64,
    /// Addresses delivered and not pending release, assigned or not.
    pub held: u64,
    /// Those of `held` that a pod has.
    pub assigned: u64,
    /// Addresses named in `ipsNotInUse` and not gone yet.
    pub pending_release: u64,
}

/// What the agent's next write says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub requested: u64,
    /// How many of the held ones to mark as pending release now; never an assigned one.
    pub release: u64,
    /// How many names are in `ipsNotInUse`: pending names stay there, even when the pool grows
    /// again.
    pub not_in_use: u64,
}

/// Shrinking starts from the held addresses, not from the requested ones: a full subnet may have
/// delivered fewer.
pub fn reconcile(holding: Holding, scaler: Scaler, supply: Supply) -> Step {
    let requested = target(holding.demand, scaler, supply);
    let unassigned = holding.held.saturating_sub(holding.assigned);
    let release = holding.held.saturating_sub(requested).min(unassigned);
    Step {
        requested,
        release,
        not_in_use: holding.pending_release.saturating_add(release),
    }
}

/// Where a pod is in its life, as in `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Also a phase that is missing or that we do not know: such a pod may need an address.
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub fn from_name(name: &str) -> Self {
        match name {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Pending,
        }
    }

    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The facts that decide whether a pod on the node needs an address of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodOnNode {
    pub phase: Phase,
    pub host_network: bool,
}

/// Pods that are not finished and not on the host's network.
pub fn demand(pods: impl IntoIterator<Item = PodOnNode>) -> u64 {
    pods.into_iter()
        .filter(|pod| !pod.host_network && !pod.phase.is_finished())
        .fold(0, |sum: u64, _| sum.saturating_add(1))
}
