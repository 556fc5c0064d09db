//! The plugins with the real agent, and plugins of others that delegate to ours, on a real kernel.

mod delegates;
mod full_disk;
mod host_ends;
mod life_cycle;
mod serving;
mod uptime;
