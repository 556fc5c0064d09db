//! `berth-ipam`: addresses for an interface that another plugin makes.

use berth_api::agent::{Check, Gc, Granted, Request};
use berth_api::cni::{Address, Attachment, Call, CniError, Code, Conf, Outcome, PodRef};
use serde_json::Value;

use crate::agent::Agent;
use crate::release::release;

pub fn run(call: &Call, conf: &Conf, started: u64) -> Result<Option<Value>, CniError> {
    match call {
        Call::Add { attachment, pod, .. } => {
            let granted = request(conf, attachment, pod, started)?;
            let addresses = granted.addresses.iter().map(|granted| Address {
                address: granted.address,
                length: granted.length,
                gateway: granted.gateway,
                interface: None,
            });
            let outcome = Outcome {
                addresses: addresses.collect(),
                routes: conf.routes.clone(),
                ..Outcome::default()
            };
            Ok(Some(outcome.document(conf.version)))
        }
        Call::Check { attachment, .. } => {
            let addresses = previous(conf)?.addresses;
            check(conf, attachment, &addresses).map(|()| None)
        }
        Call::Del { attachment, .. } => release(&conf.settings, attachment, started).map(|()| None),
        Call::Gc => gc(conf, valid(conf)?, started).map(|()| None),
        Call::Status => status(conf).map(|()| None),
        Call::Version => Ok(None),
    }
}

/// Addresses for an attachment: one of each family that the node has.
pub fn request(
    conf: &Conf,
    attachment: &Attachment,
    pod: &PodRef,
    started: u64,
) -> Result<Granted, CniError> {
    let request = Request {
        attachment: attachment.clone(),
        network: conf.name.clone(),
        pod: pod.clone(),
        started,
        desired: conf.desired.clone(),
        wait_ms: u64::try_from(conf.settings.wait.as_millis()).unwrap_or(u64::MAX),
    };
    let granted = Agent::new(&conf.settings)
        .request(&request)
        .map_err(|error| error.failure())?;
    if granted.addresses.is_empty() {
        // The runtime would believe that the container has an address.
        let msg = "the agent granted no address: try again later";
        return Err(CniError::new(Code::TryAgainLater, msg));
    }
    Ok(granted)
}

/// Checks that the agent still keeps these addresses for the attachment.
pub fn check(conf: &Conf, attachment: &Attachment, addresses: &[Address]) -> Result<(), CniError> {
    let check = Check {
        attachment: attachment.clone(),
        addresses: addresses.iter().map(|address| address.address).collect(),
    };
    let checked = Agent::new(&conf.settings).check(&check);
    checked.map(|_| ()).map_err(|error| error.failure())
}

/// Fails while the agent is away, so that the runtime calls again. It is not queued, because the
/// valid attachments will be others by then.
pub fn gc(conf: &Conf, valid: &[Attachment], started: u64) -> Result<(), CniError> {
    let gc = Gc {
        network: conf.name.clone(),
        valid: valid.to_vec(),
        started,
    };
    let collected = Agent::new(&conf.settings).gc(&gc);
    collected.map(|_| ()).map_err(|error| error.failure())
}

/// Fails if an ADD could not be served now, for any reason.
pub fn status(conf: &Conf) -> Result<(), CniError> {
    let why = match Agent::new(&conf.settings).status() {
        Ok(status) if status.ready => return Ok(()),
        Ok(status) if status.message.is_empty() => "the agent can't serve an ADD now".to_owned(),
        Ok(status) => status.message,
        Err(error) => error.to_string(),
    };
    Err(CniError::new(Code::NotAvailable, why))
}

/// The result of the ADD that a CHECK is about.
pub fn previous(conf: &Conf) -> Result<Outcome, CniError> {
    let missing =
        || CniError::new(Code::InvalidConf, "prevResult is missing: a CHECK compares with it");
    conf.previous.as_ref().map(Outcome::read).ok_or_else(missing)
}

/// The attachments that a GC leaves alone.
pub fn valid(conf: &Conf) -> Result<&[Attachment], CniError> {
    // Taken for an empty list, a missing list would detach everything.
    let missing = || {
        CniError::new(
            Code::InvalidConf,
            "cni.dev/valid-attachments is missing: a GC is about the others",
        )
    };
    conf.valid.as_deref().ok_or_else(missing)
}
