//! `berth agent` and our own plugins, and no others, on real nodes with kubelet and containerd.

#![cfg(test)]

mod alerts;
mod check;
mod deletion;
mod full;
mod only;
mod outage;
mod people;
mod pods;
mod rights;
mod stage;
