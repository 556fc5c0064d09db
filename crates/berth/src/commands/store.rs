//! The store of the ledger: `--store`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use berth_ledger::check_format;
use berth_ledger::store::{EtcdFiles, EtcdStore, EtcdTls, KubernetesStore, RedbStore, Store};
use kube::Client;

/// The prefix of all keys of a ledger.
pub const ETCD_PREFIX: &str = "/berth/ledger";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// AddressBlock objects of the cluster itself.
    Kubernetes,
    Redb(PathBuf),
    Etcd(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a store: use kubernetes, redb=PATH or etcd=URL[,URL]")]
pub struct NoStore(String);

impl FromStr for StoreChoice {
    type Err = NoStore;

    fn from_str(text: &str) -> Result<Self, NoStore> {
        match text.split_once('=') {
            None if text == "kubernetes" => Ok(Self::Kubernetes),
            Some(("redb", path)) if !path.is_empty() => Ok(Self::Redb(PathBuf::from(path))),
            Some(("etcd", urls)) if urls.split(',').all(is_url) => {
                Ok(Self::Etcd(urls.split(',').map(str::to_owned).collect()))
            }
            _ => Err(NoStore(text.to_owned())),
        }
    }
}

fn is_url(text: &str) -> bool {
    let address = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    address.is_some_and(|address| !address.is_empty())
}

impl fmt::Display for StoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubernetes => f.write_str("kubernetes"),
            Self::Redb(path) => write!(f, "redb={}", path.display()),
            Self::Etcd(urls) => write!(f, "etcd={}", urls.join(",")),
        }
    }
}

/// For an etcd that is reached over TLS.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EtcdArgs {
    /// CA that signed etcd's certificate, PEM
    #[arg(long, env = "BERTH_ETCD_CA", value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// Certificate to show to etcd, PEM
    #[arg(long, env = "BERTH_ETCD_CERT", value_name = "FILE", requires_all = ["etcd_key", "etcd_ca"])]
    etcd_cert: Option<PathBuf>,
    /// Key of --etcd-cert, PEM
    #[arg(long, env = "BERTH_ETCD_KEY", value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
}

impl EtcdArgs {
    pub fn tls(&self) -> Result<Option<EtcdTls>> {
        let Some(ca) = &self.etcd_ca else {
            return Ok(None);
        };
        let files = EtcdFiles {
            ca: ca.clone(),
            identity: self.etcd_cert.clone().zip(self.etcd_key.clone()),
        };
        let tls = EtcdTls::from_files(files);
        Ok(Some(tls.context("--etcd-ca, --etcd-cert and --etcd-key")?))
    }
}

impl StoreChoice {
    /// `client` is for the cluster whose objects the kubernetes store writes.
    pub async fn open(&self, etcd: &EtcdArgs, client: Option<&Client>) -> Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Kubernetes => match client {
                Some(client) => Arc::new(KubernetesStore::new(client.clone())),
                None => bail!(
                    "--store kubernetes: there is no cluster here: use redb=PATH or etcd=URL[,URL]"
                ),
            },
            Self::Redb(path) => known(Arc::new(RedbStore::open(path).context("--store")?)).await?,
            Self::Etcd(urls) => {
                let tls = etcd.tls()?;
                ensure!(
                    tls.is_some() || urls.iter().all(|url| url.starts_with("http://")),
                    "--store {self}: an https URL needs --etcd-ca"
                );
                let store = EtcdStore::connect(urls, ETCD_PREFIX, tls.as_ref()).await;
                known(Arc::new(store.context("--store")?)).await?
            }
        })
    }
}

/// A store with a newer format is refused before anything is written to it. A cluster's own store
/// is not checked here, as its API server may be away: its first writer checks it.
async fn known(store: Arc<dyn Store>) -> Result<Arc<dyn Store>> {
    check_format(&*store).await.context("--store")?;
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_written_as_it_is_read() {
        for text in [
            "kubernetes",
            "redb=/var/lib/berth/ledger.redb",
            "etcd=http://a:2379,https://b:2379",
        ] {
            assert_eq!(text.parse::<StoreChoice>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_store_is_told_which_there_are() {
        for text in ["", "redb", "redb=", "etcd=", "etcd=a:2379", "etcd=http://a,", "memory"] {
            let error = text.parse::<StoreChoice>().unwrap_err().to_string();
            assert!(
                error.ends_with("use kubernetes, redb=PATH or etcd=URL[,URL]"),
                "{error}"
            );
        }
    }
}
