//! One run of a plugin: from environment and stdin to stdout and exit status.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use berth_api::cni::{Call, CniError, Code, Conf, Document, MAX_CONF_BYTES, Need, Place, Version};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::{ipam, veth};

/// One of the plugins, by the name that its program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// `berth-ipam`: addresses for another plugin's interfaces.
    Ipam,
    /// `berth-cni`: interfaces with addresses.
    Cni,
}

impl Plugin {
    /// The plugin that is called by this path, for a program that answers to several names.
    pub fn named(program: &OsStr) -> Option<Self> {
        match Path::new(program).file_name()?.to_str()? {
            "berth-ipam" => Some(Self::Ipam),
            "berth-cni" => Some(Self::Cni),
            _ => None,
        }
    }

    /// Runs the plugin. Call it first and on the only thread: it takes the time of the call, and a
    /// network namespace belongs to a thread.
    pub fn main(self) -> ExitCode {
        let started = boot_time();
        if self == Self::Cni
            && let Some(code) = veth::removal_for_another_process()
        {
            return code;
        }
        let (document, code) = match self.answer(started) {
            Ok(None) => return ExitCode::SUCCESS,
            Ok(Some(document)) => (document, ExitCode::SUCCESS),
            Err((version, failure)) => (failure.document(version), ExitCode::FAILURE),
        };
        // If the answer can't be written, only the exit status can say so.
        let mut stdout = std::io::stdout().lock();
        match stdout
            .write_all(document.to_string().as_bytes())
            .and_then(|()| stdout.flush())
        {
            Ok(()) => code,
            Err(_) => ExitCode::FAILURE,
        }
    }

    fn answer(self, started: u64) -> Result<Option<Value>, (Version, CniError)> {
        // The environment comes before stdin, so that a person who starts the plugin by hand sees
        // what is missing.
        let call = Call::read(|name| std::env::var_os(name))
            .map_err(|failure| (Version::LATEST, failure))?;
        let stdin = read_stdin().map_err(|failure| (Version::LATEST, failure))?;
        let document = Document::read(&stdin);
        if call == Call::Version {
            return Ok(Some(versions(document.ok().as_ref())));
        }
        let document = document.map_err(|failure| (Version::LATEST, failure))?;
        let version = document.version().map_err(|failure| (Version::LATEST, failure))?;
        let answered = allowed(&call, version).and_then(|()| self.run(&call, &document, started));
        answered.map_err(|failure| (version, failure))
    }

    fn run(
        self,
        call: &Call,
        document: &Document,
        started: u64,
    ) -> Result<Option<Value>, CniError> {
        let need = Need::of(call);
        match self {
            Self::Ipam => ipam::run(call, &Conf::read(document, Place::Ipam, need)?, started),
            Self::Cni => veth::run(call, &Conf::read(document, Place::Top, need)?, started),
        }
    }
}

/// Refuses a command that the conf's version does not have.
fn allowed(call: &Call, version: Version) -> Result<(), CniError> {
    let (command, since) = match call {
        Call::Check { .. } => ("CHECK", Version::V0_4_0),
        Call::Gc => ("GC", Version::V1_1_0),
        Call::Status => ("STATUS", Version::V1_1_0),
        Call::Add { .. } | Call::Del { .. } | Call::Version => return Ok(()),
    };
    if version < since {
        let msg = format!("cniVersion {version} has no {command}: it came with {since}");
        return Err(CniError::new(Code::IncompatibleVersion, msg));
    }
    Ok(())
}

/// Answers VERSION even for a bad conf: a runtime asks which versions it may write into a conf.
fn versions(document: Option<&Document>) -> Value {
    let asked = document.and_then(|document| document.version().ok());
    let supported = Version::ALL.map(Version::as_str);
    json!({"cniVersion": asked.unwrap_or(Version::LATEST).as_str(), "supportedVersions": supported})
}

fn read_stdin() -> Result<Vec<u8>, CniError> {
    let mut stdin = Vec::with_capacity(4096);
    let most = u64::try_from(MAX_CONF_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    // One byte more than is allowed shows that the conf is too long.
    let read = std::io::stdin().lock().take(most).read_to_end(&mut stdin);
    let failed = |error| {
        CniError::new(Code::InputOutput, format!("the conf can't be read from stdin: {error}"))
    };
    read.map(|_| stdin).map_err(failed)
}

/// Nanoseconds since the machine was booted: one clock for all its processes, which can't be set.
fn boot_time() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_known_by_the_last_part_of_its_path() {
        let named = |path: &str| Plugin::named(OsStr::new(path));
        assert_eq!(named("/opt/cni/bin/berth-ipam"), Some(Plugin::Ipam));
        assert_eq!(named("berth-cni"), Some(Plugin::Cni));
        for other in ["berth", "/usr/bin/berth", "/berth-cni/x", "berth-cni-old", ""] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
