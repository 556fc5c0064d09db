//! How many pods each node still has an IP address for, and what a scheduler is told about it: as
//! an extender of kube-scheduler, as an extended resource of Nodes, and inside `berth up`.
//!
//! [`Accounting`] decides, purely, over what watches and bindings have told it. The rest is a
//! shell: HTTP, watches, one annotation, two statuses. No address is given out here: agents do
//! that.

mod accounting;
mod books;
mod capacity;
mod extender;
mod facts;
mod fit;
mod metrics;
pub mod pod_ips;
mod run;
mod touch;

pub use accounting::{Accounting, NoCidr, Publication, Refusal, Reserved, Settings, Supply};
pub use books::Books;
pub use capacity::CidrCapacity;
pub use facts::{Leases, NncFacts, NodeFacts, PodFacts, SubnetFacts};
pub use fit::publish_fit;
pub use metrics::SchedulerMetrics;
pub use run::{LEASE, Options, Scheduler};
