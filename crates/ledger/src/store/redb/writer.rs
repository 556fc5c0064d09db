//! The only thread that writes blocks. It puts all waiting calls into one transaction, sends the
//! changes and answers.

use std::sync::{Arc, mpsc};

use redb::{Database, ReadableTable, Table};
use tokio::sync::oneshot;
use tracing::error;

use super::file::{self, BLOCKS, NUMBERS, OpenError, Place, VERSION};
use super::slot::Slot;
use crate::store::changes::Changes;
use crate::store::{Change, Stored, Version, Write, Written, codec};

/// One call of `write`.
#[derive(Debug)]
pub struct Job {
    pub writes: Vec<Write>,
    pub answer: oneshot::Sender<Vec<Written>>,
}

/// The most calls that share a transaction. It bounds how long the first of them waits.
const MAX_JOBS: usize = 1024;

pub struct Writer {
    slot: Arc<Slot>,
    changes: Changes,
    /// Kept for its capacity.
    value: Vec<u8>,
}

/// What a transaction did.
#[derive(Default)]
struct Outcome {
    written: Vec<Vec<Written>>,
    changes: Vec<Change>,
}

impl Writer {
    pub fn new(slot: Arc<Slot>, changes: Changes) -> Self {
        Self {
            slot,
            changes,
            value: Vec::new(),
        }
    }

    /// Runs until every sender of jobs is gone.
    pub fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let waiting = std::iter::once(first).chain(jobs.try_iter()).take(MAX_JOBS);
            let (calls, answers): (Vec<_>, Vec<_>) =
                waiting.map(|job| (job.writes, job.answer)).unzip();
            self.serve(calls, answers);
        }
    }

    fn serve(&mut self, calls: Vec<Vec<Write>>, answers: Vec<oneshot::Sender<Vec<Written>>>) {
        let counts: Vec<usize> = calls.iter().map(Vec::len).collect();
        let written = match self.transact(calls) {
            Ok(Outcome { written, changes }) => {
                // The writes are durable. The changes are sent before the answers, so that only the
                // caller still has the records and can change them without a copy.
                changes.into_iter().for_each(|change| self.changes.tell(change));
                written
            }
            Err(error) => {
                error!(%error, "cannot write the ledger's file");
                // Conflicts are unknown too: they may have been with writes of this same
                // transaction.
                counts.into_iter().map(|count| vec![Written::Unknown; count]).collect()
            }
        };
        for (answer, written) in answers.into_iter().zip(written) {
            // The caller may be gone.
            drop(answer.send(written));
        }
    }

    /// Writes all, or on an error nothing: a dropped transaction changes nothing.
    fn transact(&mut self, calls: Vec<Vec<Write>>) -> Result<Outcome, OpenError> {
        let database = self.slot.database()?;
        let done = self.transact_in(&database, calls);
        if done.is_err() {
            self.slot.discard(&database);
        }
        done.map_err(OpenError::Damaged)
    }

    fn transact_in(
        &mut self,
        database: &Database,
        calls: Vec<Vec<Write>>,
    ) -> Result<Outcome, redb::Error> {
        let transaction = database.begin_write()?;
        let mut outcome = Outcome::default();
        {
            let mut blocks = transaction.open_table(BLOCKS)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            let before = numbers.get(VERSION)?.map_or(0, |version| version.value());
            let mut last = before;
            for writes in calls {
                let mut written = Vec::with_capacity(writes.len());
                for write in writes {
                    let (one, change) = self.swap(&mut blocks, &mut last, write)?;
                    written.push(one);
                    outcome.changes.extend(change);
                }
                outcome.written.push(written);
            }
            if last == before {
                // There is nothing to make durable, so the transaction is dropped.
                return Ok(outcome);
            }
            numbers.insert(VERSION, last)?;
        }
        transaction.commit()?;
        Ok(outcome)
    }

    /// Compares with the file as this transaction has changed it so far: of two calls that expect
    /// the same version, the second is refused.
    fn swap(
        &mut self,
        blocks: &mut Table<'_, (&'static str, &'static Place), &'static [u8]>,
        last: &mut u64,
        write: Write,
    ) -> Result<(Written, Option<Change>), redb::Error> {
        let place = file::place(write.key.first);
        let key = (write.key.subnet.as_str(), &place);
        let current = blocks.get(key)?.map(|value| file::version(value.value())).transpose();
        match current {
            Ok(current) if current == write.expected => {}
            Ok(_) => return Ok((Written::Conflict, None)),
            // The next read of the block reports what is wrong with it.
            Err(_) => return Ok((Written::Unknown, None)),
        }
        *last += 1;
        let Some(record) = write.record.filter(|record| !record.is_empty()) else {
            blocks.remove(key)?;
            return Ok((Written::Done(None), Some(Change::Removed(write.key, Version(*last)))));
        };
        let version = Version(*last);
        self.value.clear();
        self.value.extend_from_slice(&version.0.to_be_bytes());
        codec::encode(write.key.first, &record, &mut self.value);
        blocks.insert(key, self.value.as_slice())?;
        let change = Change::Written(Stored {
            key: write.key,
            version,
            record,
        });
        Ok((Written::Done(Some(version)), Some(change)))
    }
}
