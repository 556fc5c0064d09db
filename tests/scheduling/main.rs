//! IP-aware scheduling by a real kube-scheduler: with `berth scheduler` as its extender, and by the
//! extended resource. What is configured is what `deploy/` has, and it runs under the roles there.

mod dynamic;
mod pod_cidr;
mod race;
mod relay;
mod resource;
mod site;
