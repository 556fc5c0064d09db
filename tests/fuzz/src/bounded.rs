//! The bodies on inputs that are nearly right: random bytes hardly ever get past the first check.

mod addresses;
mod agent;
mod conf;
