//! The TLS settings for `https` endpoints: texts, or files that are read again when they change.

use std::io;
use std::path::PathBuf;

/// All in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdTls {
    /// The CA that must have signed etcd's certificate.
    pub(super) ca: String,
    /// Our client certificate and its key.
    pub(super) identity: Option<(String, String)>,
    /// The files that they come from; `None` if they were given as texts.
    files: Option<EtcdFiles>,
}

/// Where CA, and certificate and key, are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdFiles {
    pub ca: PathBuf,
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl std::fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the key.
        f.debug_struct("EtcdTls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl EtcdTls {
    pub fn from_pem(ca: String, identity: Option<(String, String)>) -> Self {
        Self {
            ca,
            identity,
            files: None,
        }
    }

    /// Users of it read the files again, because certificates are renewed from outside.
    pub fn from_files(files: EtcdFiles) -> io::Result<Self> {
        let read = |path: &PathBuf| {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            std::fs::read_to_string(path).map_err(named)
        };
        let identity = match &files.identity {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        Ok(Self {
            ca: read(&files.ca)?,
            identity,
            files: Some(files),
        })
    }

    /// The current content of the files; `None` if there are no files.
    pub(super) fn read_again(&self) -> Option<io::Result<Self>> {
        self.files.clone().map(Self::from_files)
    }
}
