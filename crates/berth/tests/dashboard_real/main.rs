//! The dashboard in a real Chromium, and on a real kube-apiserver.

#![cfg(test)]

mod attack;
mod cluster;
mod form;
mod page;
mod up;
