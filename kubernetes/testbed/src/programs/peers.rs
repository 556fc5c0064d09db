//! Unmodified programs of other projects that ours must work with, or are compared with. They are
//! built from the Go modules in `xtask/peers`, or installed from the requirements there.

use std::path::PathBuf;

use anyhow::Result;

use super::build::{Command, Module};
use super::python::Environment;

/// The agent of Azure's nodes: it reads and writes NodeNetworkConfigs.
const CNS: Module = Module {
    title: "Azure CNS",
    directory: "peers/cns",
    sources: &["go.mod", "go.sum"],
    requirement: "github.com/Azure/azure-container-networking",
    commands: &[Command {
        package: "github.com/Azure/azure-container-networking/cns/service",
        names: &["azure-cns"],
    }],
    tags: "",
    variables: |version| vec![("main.version", version.to_owned())],
    takes: "about 4 minutes on 2 cores",
};

/// The IPAM plugin of most other networks; our benchmarks compare with it.
const HOST_LOCAL: Module = Module {
    title: "host-local",
    directory: "peers/host-local",
    sources: &["go.mod", "go.sum"],
    requirement: "github.com/containernetworking/plugins",
    commands: &[Command {
        package: "github.com/containernetworking/plugins/plugins/ipam/host-local",
        names: &["host-local"],
    }],
    tags: "",
    variables: |version| {
        let variable = "github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion";
        vec![(variable, version.to_owned())]
    },
    takes: "about half a minute on 2 cores",
};

/// A container runtime that asks plugins for their STATUS regularly; Debian's never does.
const CONTAINERD: Module = Module {
    title: "containerd",
    directory: "peers/containerd",
    sources: &["go.mod", "go.sum"],
    requirement: "github.com/containerd/containerd/v2",
    commands: &[
        Command {
            package: "github.com/containerd/containerd/v2/cmd/containerd",
            names: &["containerd"],
        },
        Command {
            package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            names: &["containerd-shim-runc-v2"],
        },
        Command {
            package: "github.com/containerd/containerd/v2/cmd/ctr",
            names: &["ctr"],
        },
    ],
    tags: "no_btrfs,no_zfs,no_devmapper",
    variables: |version| {
        let variable = "github.com/containerd/containerd/v2/version.Version";
        vec![(variable, version.to_owned())]
    },
    takes: "about 3 minutes on 2 cores",
};

/// Upstream's route controller, with a cloud in memory.
const CLOUD_PROVIDER: Module = Module {
    title: "cloud-provider's route controller",
    directory: "peers/cloud-provider",
    sources: &["go.mod", "go.sum", "main.go"],
    requirement: "k8s.io/cloud-provider",
    commands: &[Command {
        package: ".",
        names: &["route-controller"],
    }],
    tags: "",
    variables: |_| Vec::new(),
    takes: "about 3 minutes on 2 cores",
};

/// Cluster API's own provider of addresses.
const IN_CLUSTER: Module = Module {
    title: "the in-cluster IPAM provider",
    directory: "peers/in-cluster",
    sources: &["go.mod", "go.sum"],
    requirement: "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
    commands: &[Command {
        package: "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
        names: &["in-cluster"],
    }],
    tags: "",
    variables: |_| Vec::new(),
    takes: "about 15 minutes on 2 cores",
};

/// Only benchmarks need it.
pub fn build_in_cluster(say: &dyn Fn(&str)) -> Result<()> {
    IN_CLUSTER.build(say)
}

/// The built program, and the directory of its CRDs.
pub fn in_cluster() -> Result<(PathBuf, PathBuf)> {
    let program = IN_CLUSTER.built()?.join("in-cluster");
    Ok((program, IN_CLUSTER.source()?.join("config/crd")))
}

/// EC2's route tables, without a cloud.
const MOTO: Environment = Environment {
    title: "moto",
    directory: "peers/moto",
    takes: "about a minute",
};

/// OpenStack's network service itself.
const NEUTRON: Environment = Environment {
    title: "Neutron",
    directory: "peers/neutron",
    takes: "about two minutes",
};

/// Only benchmarks need it.
pub fn build_cloud_provider(say: &dyn Fn(&str)) -> Result<()> {
    CLOUD_PROVIDER.build(say)
}

/// The path of upstream's route controller, once it is built.
pub fn cloud_provider() -> Result<PathBuf> {
    Ok(CLOUD_PROVIDER.built()?.join("route-controller"))
}

/// Installs the clouds that route tests talk to.
pub fn install_clouds(say: &dyn Fn(&str)) -> Result<()> {
    MOTO.make(say)?;
    NEUTRON.make(say)
}

/// The Python that has moto's server, once it is installed.
pub fn moto() -> Result<PathBuf> {
    MOTO.python()
}

/// The Python that has Neutron, once it is installed.
pub fn neutron() -> Result<PathBuf> {
    NEUTRON.python()
}

/// Ignition's validator. CoreOS and Flatcar machines read an Ignition configuration at their first
/// boot.
const IGNITION: Module = Module {
    title: "ignition-validate",
    directory: "peers/ignition",
    sources: &["go.mod", "go.sum"],
    requirement: "github.com/coreos/ignition/v2",
    commands: &[Command {
        package: "github.com/coreos/ignition/v2/validate",
        names: &["ignition-validate"],
    }],
    tags: "",
    variables: |_| Vec::new(),
    takes: "about half a minute on 2 cores",
};

/// Helm, which installs our chart.
const HELM: Module = Module {
    title: "Helm",
    directory: "peers/helm",
    sources: &["go.mod", "go.sum"],
    requirement: "helm.sh/helm/v4",
    commands: &[Command {
        package: "helm.sh/helm/v4/cmd/helm",
        names: &["helm"],
    }],
    tags: "",
    variables: |version| vec![("helm.sh/helm/v4/internal/version.version", version.to_owned())],
    takes: "about a minute on 2 cores",
};

/// Builds the programs that tests need and that are missing.
pub fn build(say: &dyn Fn(&str)) -> Result<()> {
    CNS.build(say)?;
    IGNITION.build(say)?;
    HELM.build(say)?;
    CONTAINERD.build(say)
}

/// Only some tests need it.
pub fn build_containerd(say: &dyn Fn(&str)) -> Result<()> {
    CONTAINERD.build(say)
}

/// The directory of containerd 2, its shim and ctr, once they are built.
pub fn containerd() -> Result<PathBuf> {
    CONTAINERD.built()
}

/// The path of CNS, once it is built.
pub fn cns() -> Result<PathBuf> {
    Ok(CNS.built()?.join("azure-cns"))
}

/// Builds it if it is missing: that is quick, and a test that is run alone needs it.
pub fn ignition_validate(say: &dyn Fn(&str)) -> Result<PathBuf> {
    IGNITION.build(say)?;
    Ok(IGNITION.built()?.join("ignition-validate"))
}

/// Builds it if it is missing, for a test that is run alone.
pub fn helm() -> Result<PathBuf> {
    HELM.build(&|line| eprintln!("{line}"))?;
    Ok(HELM.built()?.join("helm"))
}

/// Only benchmarks need it.
pub fn build_host_local(say: &dyn Fn(&str)) -> Result<()> {
    HOST_LOCAL.build(say)
}

/// The path of host-local, once it is built.
pub fn host_local() -> Result<PathBuf> {
    Ok(HOST_LOCAL.built()?.join("host-local"))
}
