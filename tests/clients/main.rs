//! Clients that know nothing of Berth, on a real cluster with `berth controller`: kubectl, and
//! Azure CNS as it is.

#![cfg(test)]

mod cns;
mod host;
mod kubectl;
mod stage;
