//! Giving addresses back, with the agent or without it.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;

use berth_api::agent::{Release, entry_name};
use berth_api::cni::{Attachment, Code, Failure, Settings};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, openat, renameat, unlinkat};

use crate::agent::{Agent, Trouble};

/// Tells the agent. Where nobody answers, it is left in the release queue, and that is success: a pod's deletion does not wait for an agent,
/// which may itself wait for the pod to make room. An answer that says no is a failure.
pub fn release(settings: &Settings, attachment: &Attachment, started: u64) -> Result<(), Failure> {
    let release = Release {
        attachment: attachment.clone(),
        started,
    };
    let trouble = match Agent::new(settings).release(&release) {
        Ok(_) => return Ok(()),
        Err(trouble) => trouble,
    };
    if !matches!(trouble, Trouble::NoAnswer { .. }) {
        return Err(trouble.failure());
    }
    queue(&settings.queue_dir, &release).map_err(|error| {
        let msg = format!(
            "{trouble}; and the release can't be left in {}: {error}",
            settings.queue_dir
        );
        Failure::new(Code::TryAgainLater, msg)
    })
}

/// There as a whole or not at all, and after a loss of power too once this returns. An older entry of the same attachment gives way.
fn queue(folder: &str, release: &Release) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, folder, directory, Mode::empty())?;
    let name = entry_name(&release.attachment);
    // The agent does not read what begins with a dot.
    let unfinished = format!(".{name}.{:x}.{:x}", std::process::id(), release.started);
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&folder, unfinished.as_str(), new, Mode::RUSR | Mode::WUSR)?);
    let written = serde_json::to_vec(release)
        .map_err(std::io::Error::from)
        .and_then(|content| file.write_all(&content))
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(renameat(&folder, unfinished.as_str(), &folder, name.as_str())?));
    if let Err(error) = written {
        // What is left of it is no entry: it takes a little room, and no harm comes of it.
        let _ = unlinkat(&folder, unfinished.as_str(), AtFlags::empty());
        return Err(error);
    }
    Ok(fsync(&folder)?)
}
