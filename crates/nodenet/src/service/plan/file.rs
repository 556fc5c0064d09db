//! The address plan in a file, beside a store that one process has for itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use berth_kit::private_file;
use futures::future::{BoxFuture, FutureExt};

use super::{Kept, PlanStore, PlanStoreError};

/// Only the process that has the store open writes the file.
#[derive(Clone, Debug)]
pub struct PlanFile {
    path: PathBuf,
}

/// The version of every file that exists.
const FILE_VERSION: u64 = 1;

impl PlanFile {
    /// `ledger.redb.subnets.json` beside `ledger.redb`.
    pub fn beside(store: &Path) -> Self {
        let mut name = store.as_os_str().to_owned();
        name.push(".subnets.json");
        let path = PathBuf::from(name);
        // The directory is synced, too, so it has to have a name.
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path }
    }

    fn failed(&self, error: impl std::fmt::Display) -> PlanStoreError {
        PlanStoreError {
            place: self.place(),
            why: error.to_string(),
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, PlanStoreError> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || work(&path)).await;
        done.map_err(|error| self.failed(error))?
            .map_err(|error| self.failed(error))
    }
}

impl PlanStore for PlanFile {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn read(&self) -> BoxFuture<'_, Result<Kept, PlanStoreError>> {
        let read = |path: &Path| match std::fs::read_to_string(path) {
            Ok(text) => Ok(Kept {
                text,
                version: FILE_VERSION,
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Kept {
                text: String::new(),
                version: 0,
            }),
            Err(error) => Err(error),
        };
        self.blocking(read).boxed()
    }

    fn write<'a>(
        &'a self,
        text: &'a str,
        _over: u64,
    ) -> BoxFuture<'a, Result<bool, PlanStoreError>> {
        let text = text.to_owned();
        // The file is renamed and synced: it exists as a whole or not at all, and durably once this
        // returns.
        self.blocking(move |path| private_file::write(path, &text).map(|()| true))
            .boxed()
    }

    fn changed(&self, _seen: u64) -> BoxFuture<'_, ()> {
        futures::future::pending().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_stores_name_in_the_stores_directory() {
        let file = PlanFile::beside(Path::new("/var/lib/berth/ledger.redb"));
        assert_eq!(file.place(), "/var/lib/berth/ledger.redb.subnets.json");
        let directory = std::env::current_dir().unwrap();
        assert_eq!(
            PlanFile::beside(Path::new("a.redb")).path,
            directory.join("a.redb.subnets.json")
        );
    }

    #[tokio::test]
    async fn what_was_written_is_read_and_what_was_not_is_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = PlanFile::beside(&directory.path().join("ledger.redb"));
        assert_eq!(file.read().await.unwrap().version, 0);
        assert!(file.write("{}", 0).await.unwrap());
        let kept = file.read().await.unwrap();
        assert_eq!((kept.text.as_str(), kept.version), ("{}", FILE_VERSION));
    }
}
