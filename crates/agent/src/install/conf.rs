//! The conf by which a runtime calls `berth-cni`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::cni::Version;
use berth_api::names::{DEFAULT_QUEUE_DIR, DEFAULT_SOCKET};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::place::Place;
use super::portmap::Portmap;
use super::{InstallError, PLUGINS, shown};

/// Runtimes use the conf whose name sorts first.
pub const CONF_NAME: &str = "10-berth.conflist";

/// The extensions by which a runtime knows a conf.
const EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];

/// Only its owner reads it, like the other configuration files of a node.
const MODE: u32 = 0o600;

/// The plugin's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conf {
    pub socket: PathBuf,
    pub queue_dir: PathBuf,
    pub mtu: Option<u32>,
    /// How long an ADD looks for an agent that is away; in whole seconds.
    pub reconnect: Duration,
    /// The plugin behind ours in the chain, for pods with a hostPort.
    pub portmap: Option<Portmap>,
}

impl Conf {
    /// `cniVersion` is the version that today's runtimes know, or an older one if `portmap` needs
    /// it. Runtimes that know `cniVersions` use the highest common version.
    pub fn document(&self) -> Value {
        let mut plugin = json!({"type": "berth-cni"});
        let given = [
            ("socket", &self.socket, DEFAULT_SOCKET),
            ("queueDir", &self.queue_dir, DEFAULT_QUEUE_DIR),
        ];
        for (field, path, default) in given {
            if path.as_os_str() != default {
                plugin[field] = shown(path).into();
            }
        }
        if !self.reconnect.is_zero() {
            plugin["reconnect"] = format!("{}s", self.reconnect.as_secs()).into();
        }
        if let Some(mtu) = self.mtu {
            plugin["mtu"] = mtu.into();
        }
        let mut plugins = vec![plugin];
        let mut versions = Version::ALL.to_vec();
        if let Some(portmap) = &self.portmap {
            plugins.push(portmap.entry());
            versions.retain(|version| portmap.versions().contains(version));
        }
        let today = versions.iter().rev().find(|version| **version <= Version::V1_0_0);
        json!({
            "cniVersion": today.or(versions.first()).map(|version| version.as_str()),
            "cniVersions": versions.iter().map(|version| version.as_str()).collect::<Vec<_>>(),
            "name": "berth",
            "plugins": plugins,
        })
    }
}

pub fn place(conf: &Conf, place: &Place<'_>) -> Result<bool, InstallError> {
    let mut text = format!("{:#}", conf.document());
    text.push('\n');
    match read_existing(place)? {
        Existing::Nothing | Existing::NotJson => {}
        Existing::Ours(old) if old == text => return Ok(false),
        Existing::Ours(_) => {}
        Existing::Foreign => return Err(foreign(place)),
    }
    let staged = place.stage(CONF_NAME, MODE, |file| file.write_all(text.as_bytes()))?;
    staged.put()?;
    info!(directory = %place.directory.display(), "CNI conf written; the node can take pods");
    if let Some(other) = first_conf(place).filter(|first| first != CONF_NAME) {
        warn!(directory = %place.directory.display(), other, "another CNI conf sorts before \
                                                              {CONF_NAME}; the runtime uses that \
                                                              one");
    }
    Ok(true)
}

pub fn remove(place: &Place<'_>) -> Result<(), InstallError> {
    match read_existing(place)? {
        Existing::Foreign => Err(foreign(place)),
        Existing::Nothing | Existing::NotJson | Existing::Ours(_) => place.remove(CONF_NAME),
    }
}

/// The file that has the conf's name.
enum Existing {
    Nothing,
    /// A damaged file of ours: no other program writes a file of this name.
    NotJson,
    Ours(String),
    Foreign,
}

fn read_existing(place: &Place<'_>) -> Result<Existing, InstallError> {
    let bytes = match fs::read(place.path(CONF_NAME)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Existing::Nothing),
        bytes => bytes.map_err(|error| place.write_error(CONF_NAME, error))?,
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match serde_json::from_str(&text) {
        Err(_) => Existing::NotJson,
        Ok(document) if is_ours(&document) => Existing::Ours(text),
        Ok(_) => Existing::Foreign,
    })
}

/// True also for a conf that a person has changed: with more plugins in its chain, or with another
/// plugin that asks `berth-ipam` for addresses.
fn is_ours(document: &Value) -> bool {
    let plugins = document["plugins"].as_array().into_iter().flatten();
    let is_plugin = |kind: &Value| kind.as_str().is_some_and(|kind| PLUGINS.contains(&kind));
    plugins
        .into_iter()
        .any(|plugin| is_plugin(&plugin["type"]) || is_plugin(&plugin["ipam"]["type"]))
}

fn foreign(place: &Place<'_>) -> InstallError {
    let directory = shown(place.directory);
    InstallError::Foreign { directory }
}

fn first_conf(place: &Place<'_>) -> Option<String> {
    let names = fs::read_dir(place.directory)
        .ok()?
        .flatten()
        .map(|found| found.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let is_conf =
        |name: &String| name.rsplit_once('.').is_some_and(|(_, end)| EXTENSIONS.contains(&end));
    names.filter(is_conf).min()
}
