//! `portmap`, the plugin that opens a pod's `hostPort` on its node: part of the chain where the
//! node has it.

use std::path::Path;
use std::process::{Command, Stdio};

use berth_api::cni::Version;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::warn;

const NAME: &str = "portmap";

/// What a node's `portmap` can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portmap {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Supported {
    supported_versions: Vec<String>,
}

impl Portmap {
    /// Finds the plugin in the runtime's plugin directory. A runtime calls a whole chain in one CNI
    /// version, the highest of the conf that it knows, so this asks the plugin for its versions.
    pub fn find(directory: &Path) -> Option<Self> {
        let path = directory.join(NAME);
        if !path.is_file() {
            return None;
        }
        let versions = ask(&path).unwrap_or_else(|why| {
            // An agent in a container has no C library for one that needs it.
            let highest = Version::V1_0_0;
            warn!(path = %path.display(), why, "cannot ask portmap for its CNI versions; assuming \
                                                up to {highest}");
            let up_to = Version::ALL.into_iter().filter(|version| *version <= highest);
            up_to.collect()
        });
        if versions.is_empty() {
            warn!(path = %path.display(), "portmap knows no CNI version that berth-cni knows; pods \
                get no hostPort");
            return None;
        }
        Some(Self { versions })
    }

    /// Whether the plugin knows all of our versions. With an older one in the chain, a runtime
    /// would call neither STATUS nor GC.
    pub fn knows_all_versions(&self) -> bool {
        self.versions == Version::ALL
    }

    /// The versions that the whole chain knows, in order.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Its entry in the chain. Without `snat` a pod could not reach its own hostPort.
    pub fn entry(&self) -> Value {
        json!({"type": NAME, "capabilities": {"portMappings": true}, "snat": true})
    }
}

fn ask(path: &Path) -> Result<Vec<Version>, String> {
    let mut command = Command::new(path);
    command.env_clear().env("CNI_COMMAND", "VERSION").stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    let supported: Supported =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let knows = |version: &Version| {
        let version = version.as_str();
        supported.supported_versions.iter().any(|known| known == version)
    };
    Ok(Version::ALL.into_iter().filter(knows).collect())
}
