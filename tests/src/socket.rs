//! Calls to an agent's socket, as a person would make them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result};
use berth_api::agent::{ADDRESSES, AddressLine, Done, RELEASE, Release, STATUS, Status};
use serde::de::DeserializeOwned;

pub fn status(directory: &Path) -> Result<Status> {
    get(directory, STATUS)
}

pub fn addresses(directory: &Path) -> Result<Vec<AddressLine>> {
    get(directory, ADDRESSES)
}

/// Releases an address, as a plugin's DEL or a person does.
pub fn release(directory: &Path, release: &Release) -> Result<Done> {
    call(directory, "POST", RELEASE, &serde_json::to_string(release)?)
}

fn get<T: DeserializeOwned>(directory: &Path, path: &str) -> Result<T> {
    call(directory, "GET", path, "")
}

/// The directory's path may be longer than the path of a socket can be, so the call goes through a
/// handle of the directory.
fn call<T: DeserializeOwned>(directory: &Path, method: &str, path: &str, body: &str) -> Result<T> {
    let directory = File::open(directory).context("opening the socket's directory")?;
    let mut stream =
        UnixStream::connect(format!("/proc/self/fd/{}/agent.sock", directory.as_raw_fd()))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    Ok(serde_json::from_str(body)?)
}
