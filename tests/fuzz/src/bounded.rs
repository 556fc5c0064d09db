//! Runs the bodies on nearly valid inputs: random bytes hardly ever get past the first check.

mod addresses;
mod agent;
mod conf;
