//! Decides from nodes and routes: which routes are wanted, which are ours, and what to change.
//! Pure: no clock, no client, no backend.

mod change;
mod compare;
mod condition;
mod decide;
mod index;
mod node;
mod route;
mod scope;
mod standing;
mod table;

pub use change::{Change, Creation};
pub use compare::{Comparison, compare};
pub use condition::Condition;
pub use decide::{Decision, View, decide};
pub use index::{CidrProblem, Claimed, Index, NodeChange};
pub use node::{Address, Cidr, Node, parse_cidr};
pub use route::{Hop, HopError, Mark, Route};
pub use scope::Scope;
pub use standing::{Standing, standing};
pub use table::Table;
