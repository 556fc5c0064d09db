//! From decisions to durable blocks.

use std::sync::Arc;

use tracing::warn;

use super::writing::Writing;
use super::{Committer, RETRY_INTERVAL};
use crate::error::LedgerError;
use crate::record::BlockKey;
use crate::store::{StoreError, Write, Written};

/// The result of a write. The book is the same as the store.
pub(super) enum Outcome {
    Durable,
    /// Another writer was first.
    Conflict,
    /// The store did not say. The blocks have been read again since.
    Unsure,
    Refused(String),
}

/// How often in a row another writer may be first before the requests fail.
const ATTEMPTS: u32 = 64;

/// How often in a row the store may not say whether it wrote: each attempt may take the store's
/// full timeout.
const UNSURE_ATTEMPTS: u32 = 4;

impl Committer {
    /// Decides, writes, and decides again if the store did not take a write.
    pub(super) async fn commit(&mut self, mut writing: Vec<Writing>) {
        if writing.is_empty() {
            return;
        }
        let (mut conflicts, mut unsure) = (0, 0);
        let error = loop {
            self.refuse_unclaimed(&mut writing);
            let now = self.clock.now();
            for request in &mut writing {
                request.decide(&mut self.book, now);
            }
            let writes = self.book.changed(now, self.reuse_delay);
            let written = self.write(writes).await;
            self.note_losses(&writing);
            match written {
                Ok(Outcome::Durable) => {
                    writing.into_iter().for_each(Writing::answer);
                    return;
                }
                Ok(Outcome::Conflict) if conflicts < ATTEMPTS => {
                    conflicts += 1;
                    self.metrics.conflict(&self.subnet);
                }
                Ok(Outcome::Unsure) if unsure < UNSURE_ATTEMPTS => {
                    unsure += 1;
                    self.wait_for(tokio::time::sleep(RETRY_INTERVAL)).await;
                }
                ended => break self.fail(ended),
            }
        };
        writing.into_iter().for_each(|request| request.fail(&error));
    }

    /// Runs before every attempt: the last one may have found that leases were lost from the store.
    fn refuse_unclaimed(&mut self, writing: &mut Vec<Writing>) {
        let is_refused = |request: &mut Writing| {
            request.leases_for().is_some_and(|cluster| !self.gate.is_open(&cluster))
        };
        let refused: Vec<Writing> = writing.extract_if(.., is_refused).collect();
        for request in refused {
            let subnet = self.subnet.clone();
            request.fail(&LedgerError::Unclaimed { subnet });
        }
    }

    /// The error of a write that is not tried again.
    pub(super) fn fail(&mut self, ended: Result<Outcome, StoreError>) -> LedgerError {
        let subnet = self.subnet.clone();
        match ended {
            Ok(Outcome::Durable | Outcome::Conflict) => LedgerError::Contended { subnet },
            Ok(Outcome::Unsure) => LedgerError::Unsure { subnet },
            Ok(Outcome::Refused(why)) => LedgerError::Refused { subnet, why },
            Err(error) => {
                self.stale = true;
                warn!(subnet, %error, "cannot confirm a write to the store; reloading the subnet's \
                                       blocks");
                error.into()
            }
        }
    }

    /// Writes blocks, and reads those again that were not swapped, so that the book equals the
    /// store. After an error it may not.
    pub(super) async fn write(&mut self, writes: Vec<Write>) -> Result<Outcome, StoreError> {
        if writes.is_empty() {
            return Ok(Outcome::Durable);
        }
        self.sweep_later();
        let keys: Vec<BlockKey> = writes.iter().map(|write| write.key.clone()).collect();
        let store = Arc::clone(&self.store);
        let mut written = self.wait_for(store.write(writes)).await;
        written.resize(keys.len(), Written::Unknown);
        let mut outcome = Outcome::Durable;
        let mut differ = Vec::new();
        for (key, written) in keys.into_iter().zip(written) {
            if !self.book.settle(&key, &written) {
                differ.push(key);
            }
            // The worst result counts.
            outcome = match (outcome, written) {
                (_, Written::Refused(why)) => Outcome::Refused(why),
                (refused @ Outcome::Refused(_), _) => refused,
                (_, Written::Unknown) | (Outcome::Unsure, _) => Outcome::Unsure,
                (_, Written::Conflict) => Outcome::Conflict,
                (other, Written::Done(_)) => other,
            };
        }
        for key in differ {
            match self.wait_for(store.read(&key)).await? {
                Some(stored) => {
                    if self.book.load(&stored, self.clock.now()).is_err() {
                        self.stale = true;
                        return Err(StoreError::new(
                            "ledger",
                            format!("{}: it does not fit the plan", key.first),
                        ));
                    }
                }
                None => self.book.forget(&key),
            }
        }
        Ok(outcome)
    }
}
