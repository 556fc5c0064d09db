//! Releases addresses, with the agent or without it.

use berth_api::agent::Release;
use berth_api::cni::{Attachment, CniError, Code, Settings};

use crate::agent::{Agent, AgentError};
use crate::queue;

/// Sends the release to the agent. If it does not answer, the release is left in the queue, and
/// that is success: a pod's deletion does not wait for an agent, which may itself wait for the pod
/// to make room. A refusal is a failure.
pub fn release(settings: &Settings, attachment: &Attachment, started: u64) -> Result<(), CniError> {
    let release = Release {
        attachment: attachment.clone(),
        started,
    };
    let trouble = match Agent::new(settings).release(&release) {
        Ok(_) => return Ok(()),
        Err(trouble) => trouble,
    };
    if !matches!(trouble, AgentError::NoAnswer { .. }) {
        return Err(trouble.failure());
    }
    queue::enqueue(&settings.queue_dir, &release).map_err(|error| {
        let msg = format!(
            "{trouble}; and the release can't be left in {}: {error}",
            settings.queue_dir
        );
        CniError::new(Code::TryAgainLater, msg)
    })
}
