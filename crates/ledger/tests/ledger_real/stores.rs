//! The promises of the stores that are servers, on a real etcd and a real kube-apiserver; and what
//! happens when the line to one breaks.

#[macro_use]
#[path = "../ledger/stores/promises.rs"]
mod promises;
#[path = "../ledger/stores/records.rs"]
mod records;

mod etcd;
mod kubernetes;
mod line;
