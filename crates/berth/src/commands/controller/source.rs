//! The source of the controllers' addresses: their own ledger over a store, or the allocator
//! service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use berth_ledger::store::Store;
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::allocator::{Allocator, Registry};
use berth_nodenet::client::RemoteAllocator;
use kube::Client;

use crate::commands::store::{EtcdArgs, StoreChoice};

#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// Where the ledger is kept: kubernetes, redb=PATH or etcd=URL[,URL] [default: kubernetes]
    #[arg(long, env = "BERTH_STORE")]
    store: Option<StoreChoice>,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// The allocator service to use instead of a store: https://HOST:PORT or
    /// https://HOST:PORT/networks/NETWORK
    #[arg(long, env = "BERTH_ALLOCATOR", value_name = "URL")]
    allocator: Option<String>,
    /// CA that signed the service's certificate, PEM
    #[arg(long, env = "BERTH_ALLOCATOR_CA", value_name = "FILE")]
    allocator_ca: Option<PathBuf>,
    /// Certificate to show to the service, PEM; its Common Name is this cluster's name
    #[arg(long, env = "BERTH_ALLOCATOR_CERT", value_name = "FILE")]
    allocator_cert: Option<PathBuf>,
    /// Key of --allocator-cert, PEM
    #[arg(long, env = "BERTH_ALLOCATOR_KEY", value_name = "FILE")]
    allocator_key: Option<PathBuf>,
}

/// The choice that the flags make. Nothing has been called or opened yet.
#[derive(Debug)]
pub enum SourceChoice {
    Store(StoreChoice, EtcdArgs),
    Service(Arc<RemoteAllocator>, String),
}

impl SourceArgs {
    pub fn choose(self) -> Result<SourceChoice> {
        let files = [
            ("--allocator-ca", &self.allocator_ca),
            ("--allocator-cert", &self.allocator_cert),
            ("--allocator-key", &self.allocator_key),
        ];
        let Some(url) = self.allocator else {
            if let Some((flag, _)) = files.into_iter().find(|(_, file)| file.is_some()) {
                bail!(
                    "{flag}: it is for the service of --allocator: give --allocator \
                     URL, or leave {flag} out"
                );
            }
            let store = self.store.unwrap_or(StoreChoice::Kubernetes);
            return Ok(SourceChoice::Store(store, self.etcd));
        };
        if let Some(store) = self.store {
            bail!(
                "--allocator {url} and --store {store}: the service keeps the ledger: \
                 leave out one of the two"
            );
        }
        let [ca, certificate, key] = files.map(|(flag, file)| readable(flag, file.as_deref()));
        let remote = RemoteAllocator::connect(&url, ca?, certificate?, key?);
        let remote =
            remote.context("--allocator, --allocator-ca, --allocator-cert and --allocator-key")?;
        Ok(SourceChoice::Service(Arc::new(remote), url))
    }
}

/// Only checks that it can be read: its users check the content.
fn readable<'a>(flag: &str, file: Option<&'a Path>) -> Result<&'a Path> {
    let file = file.with_context(|| {
        format!("{flag} is not given, and --allocator needs it: give {flag} FILE")
    })?;
    match std::fs::File::open(file) {
        Ok(_) => Ok(file),
        Err(error) => bail!("{flag} {}: {error}; give a PEM file that can be read", file.display()),
    }
}

impl SourceChoice {
    /// The cluster's name in the source, if the source knows it; another name is then refused.
    pub fn cluster(&self, asked: Option<&str>) -> Result<Option<String>> {
        let Self::Service(remote, _) = self else {
            return Ok(asked.map(str::to_owned));
        };
        let cluster = remote.cluster();
        if let Some(asked) = asked {
            ensure!(
                asked == cluster,
                "--cluster-name {asked}: the certificate of --allocator-cert is for \
                 cluster {cluster}: leave --cluster-name out, or give a certificate \
                 whose Common Name is {asked}"
            );
        }
        Ok(Some(cluster.to_owned()))
    }

    /// Calls a service once, to see now whether both certificates are accepted.
    pub async fn open(self, client: &Client) -> Result<Source> {
        Ok(match self {
            Self::Store(store, etcd) => {
                let shown = format!("store {store}");
                Source::Store(store.open(&etcd, Some(client)).await?, shown)
            }
            Self::Service(remote, url) => {
                remote.subnets().await.context("--allocator")?;
                Source::Service(remote, format!("allocator {url}"))
            }
        })
    }

    pub fn is_service(&self) -> bool {
        matches!(self, Self::Service(..))
    }
}

/// An open source, and its name in logs.
#[derive(Clone, Debug)]
pub enum Source {
    Store(Arc<dyn Store>, String),
    Service(Arc<RemoteAllocator>, String),
}

impl Source {
    pub fn shown(&self) -> &str {
        match self {
            Self::Store(_, shown) | Self::Service(_, shown) => shown,
        }
    }

    /// Each term gets a new ledger: the state of an earlier term may be old. Controllers that a
    /// service does not serve use the ledger.
    pub fn allocator(
        self,
        clock: Clock,
        metrics: LedgerMetrics,
    ) -> (Arc<dyn Allocator>, Option<Ledger>) {
        match self {
            Self::Store(store, _) => {
                let ledger = Ledger::new(store, clock, metrics);
                (Arc::new(LocalAllocator::new(ledger.clone())), Some(ledger))
            }
            Self::Service(remote, _) => (remote, None),
        }
    }
}
