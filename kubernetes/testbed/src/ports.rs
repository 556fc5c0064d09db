//! Ports for programs that cannot choose one themselves.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// Below the ports that the kernel assigns: another connection, or a listener on port 0, cannot
/// take a port that is about to be used.
const FIRST: u16 = 12_000;
const LAST: u16 = 32_000;
const MAX_ATTEMPTS: usize = 1_000;

/// A port that nothing listens on.
pub fn free_port() -> Result<u16> {
    let [port] = free_ports()?;
    Ok(port)
}

/// All ports are held at the same time and then released, so that no two are the same.
pub fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT]> {
    let mut held = Vec::with_capacity(COUNT);
    let mut ports = [0; COUNT];
    for port in &mut ports {
        let listener = (0..MAX_ATTEMPTS).find_map(|_| {
            let port = rand::random_range(FIRST..=LAST);
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
        });
        let listener = listener.context("looking for a free port")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_differ_and_the_kernel_gives_none_of_them() {
        let ports: [u16; 50] = free_ports().unwrap();
        let mut sorted = ports.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 50);
        assert!(ports.iter().all(|port| (FIRST..=LAST).contains(port)));
    }
}
