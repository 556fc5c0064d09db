//! Programs of others that ours must get along with, unmodified, built from the Go modules in `xtask/peers`.

use std::path::PathBuf;

use anyhow::Result;

use super::build::Module;

/// The agent of Azure's nodes: it reads and writes NodeNetworkConfigs.
const CNS: Module = Module {
    title: "Azure CNS",
    folder: "peers/cns",
    sources: &["go.mod", "go.sum"],
    requirement: "github.com/Azure/azure-container-networking",
    package: "github.com/Azure/azure-container-networking/cns/service",
    names: &["azure-cns"],
    variables: |version| vec![("main.version", version.to_owned())],
    takes: "about 4 minutes on 2 cores",
};

/// Builds those that are not there.
pub fn build(say: &dyn Fn(&str)) -> Result<()> {
    CNS.build(say)
}

/// Where CNS is, once it is built.
pub fn cns() -> Result<PathBuf> {
    Ok(CNS.built()?.join("azure-cns"))
}
