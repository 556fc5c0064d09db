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

/// What most networks of others get their addresses from, and what ours is measured against.
const HOST_LOCAL: Module = Module {
    title: "host-local",
    folder: "peers/host-local",
    sources: &["go.mod", "go.sum"],
    requirement: "github.com/containernetworking/plugins",
    package: "github.com/containernetworking/plugins/plugins/ipam/host-local",
    names: &["host-local"],
    variables: |version| {
        let variable = "github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion";
        vec![(variable, version.to_owned())]
    },
    takes: "about half a minute on 2 cores",
};

/// Builds those that tests need and that are not there.
pub fn build(say: &dyn Fn(&str)) -> Result<()> {
    CNS.build(say)
}

/// Where CNS is, once it is built.
pub fn cns() -> Result<PathBuf> {
    Ok(CNS.built()?.join("azure-cns"))
}

/// Only benchmarks need it.
pub fn build_host_local(say: &dyn Fn(&str)) -> Result<()> {
    HOST_LOCAL.build(say)
}

/// Where host-local is, once it is built.
pub fn host_local() -> Result<PathBuf> {
    Ok(HOST_LOCAL.built()?.join("host-local"))
}
