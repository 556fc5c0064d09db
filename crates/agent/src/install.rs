//! Installs the plugins and their conf where the container runtime looks for them, and removes
//! them.
//!
//! The plugins come first, and the conf only when the agent can serve: a kubelet takes its node for
//! ready once there is a conf. Each file is written whole beside its place and renamed, so that a
//! runtime that reads meanwhile sees the old one or the new one, and a failure leaves the old one
//! where it is.

mod conf;
mod place;
mod plugins;
mod portmap;

use std::io;
use std::path::{Path, PathBuf};

pub use conf::{CONF_NAME, Conf};
pub use plugins::Source;
pub use portmap::Portmap;

use place::Place;

/// The directories, unless the flags name others.
pub const DEFAULT_BIN_DIR: &str = "/opt/cni/bin";
pub const DEFAULT_CONF_DIR: &str = "/etc/cni/net.d";

/// The names by which a runtime calls the plugins.
pub const PLUGINS: [&str; 2] = ["berth-ipam", "berth-cni"];

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("{flag} {directory}: {name} can't be installed: {error}; the file before it was kept")]
    Write {
        flag: &'static str,
        directory: String,
        name: String,
        error: io::Error,
    },
    #[error("{flag} {directory}: {name} can't be removed: {error}")]
    Remove {
        flag: &'static str,
        directory: String,
        name: String,
        error: io::Error,
    },
    #[error(
        "{path}: the plugin can't be read: {error}; build it, or name the directory that has it"
    )]
    Source { path: String, error: io::Error },
    #[error(
        "--cni-conf-dir {directory}: {CONF_NAME} exists, without a plugin of Berth in it; \
         remove or rename it"
    )]
    Foreign { directory: String },
}

/// The two directories of a node.
#[derive(Clone, Debug)]
pub struct Directories {
    bin: PathBuf,
    conf: PathBuf,
}

impl Directories {
    pub fn new(bin: impl Into<PathBuf>, conf: impl Into<PathBuf>) -> Self {
        Self {
            bin: bin.into(),
            conf: conf.into(),
        }
    }

    /// Installs all plugins, or none. It leaves those alone that are the same already.
    pub fn install_plugins(&self, source: &Source) -> Result<(), InstallError> {
        plugins::install(source, &self.bins())
    }

    /// The plugin that opens the pods' hostPorts, if this node has it.
    pub fn portmap(&self) -> Option<Portmap> {
        Portmap::find(&self.bin)
    }

    /// Writes the conf; call it only once the agent can serve. Returns whether the file has
    /// changed.
    pub fn place_conf(&self, conf: &Conf) -> Result<bool, InstallError> {
        conf::place(conf, &self.confs())
    }

    /// Removes the conf first: from then on nothing calls the plugins. It removes only our files,
    /// and missing files are not errors.
    pub fn uninstall(&self) -> Result<(), InstallError> {
        conf::remove(&self.confs())?;
        plugins::remove(&self.bins())
    }

    fn bins(&self) -> Place<'_> {
        Place {
            flag: "--cni-bin-dir",
            directory: &self.bin,
        }
    }

    fn confs(&self) -> Place<'_> {
        Place {
            flag: "--cni-conf-dir",
            directory: &self.conf,
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
