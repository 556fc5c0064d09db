//! What an agent says of itself, asked as a person would.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result};
use berth_api::agent::{ADDRESSES, AddressLine, STATUS, Status};
use serde::de::DeserializeOwned;

pub fn status(folder: &Path) -> Result<Status> {
    get(folder, STATUS)
}

pub fn addresses(folder: &Path) -> Result<Vec<AddressLine>> {
    get(folder, ADDRESSES)
}

/// The folder may be deeper than a socket's path can be long: it is gone through by its handle.
fn get<T: DeserializeOwned>(folder: &Path, path: &str) -> Result<T> {
    let folder = File::open(folder).context("opening the socket's folder")?;
    let mut stream =
        UnixStream::connect(format!("/proc/self/fd/{}/agent.sock", folder.as_raw_fd()))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    Ok(serde_json::from_str(body)?)
}
