//! The thread that alone writes: it takes all that waits, makes one transaction of it, tells,
//! answers.

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

/// Calls that share a transaction. Bounds how long the first of them waits.
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

    /// Until nobody can ask any more.
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
                // Durable by now. Told before it is answered: by then nobody but the caller has the
                // records, and it can change them without a copy.
                changes.into_iter().for_each(|change| self.changes.tell(change));
                written
            }
            Err(error) => {
                error!(%error, "the ledger's file could not be written");
                // Conflicts too: they may have been with writes of this very transaction.
                counts.into_iter().map(|count| vec![Written::Unknown; count]).collect()
            }
        };
        for (answer, written) in answers.into_iter().zip(written) {
            // Who asked may have gone away.
            drop(answer.send(written));
        }
    }

    /// All or, on an error, nothing: a transaction that is dropped has changed nothing.
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
                // Nothing to make durable. Dropped, the transaction is over.
                return Ok(outcome);
            }
            numbers.insert(VERSION, last)?;
        }
        transaction.commit()?;
        Ok(outcome)
    }

    /// Compares against what the file has, together with what this transaction has done to it so
    /// far: of two calls that expect the same version, the second is refused.
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
            // Whoever reads it again is told what is wrong with it.
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
