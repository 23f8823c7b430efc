//! The expected content of the store: the acknowledged batches in order, and the one without an answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::contract::{KvError, Version};
use crate::embedded::atomic::atomic_apply;
use crate::embedded::memory::Memory;
use crate::embedded::mutation::Mutation;
use crate::embedded::sequencer::{AppendError, Durable, Flush, Load};

pub(super) type ExpectedRows = BTreeMap<Bytes, Bytes>;

/// The result of one transaction, shown by a row that only it has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was acknowledged as durable.
    Committed,
    /// It was acknowledged, and only a power cut may have undone it.
    Unflushed,
    /// It was refused.
    Refused,
    /// Not known yet.
    Open,
}

/// How the run before an opening ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The machine went on: nothing acknowledged is lost.
    Kill,
    PowerCut,
}

/// What an opening has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovered {
    /// Whether the batch without an answer was there, if there was one.
    pub(super) open_kept: Option<bool>,
    /// Whether batches that were not flushed are lost.
    pub(super) undone: bool,
}

#[derive(Debug, Default)]
struct Batches {
    /// The rows of all acknowledged batches.
    rows: ExpectedRows,
    /// The states that a power cut may leave: the one of the last flush, and those between the batches after it, but
    /// for the present one.
    earlier: Vec<ExpectedRows>,
    /// The batch whose append failed: it is there in full or not at all.
    open: Option<Vec<Mutation>>,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    batches: Arc<Mutex<Batches>>,
    fates: BTreeMap<Bytes, Fate>,
    /// Whether clients leave the flush of some batches for later.
    pub(super) flushes_later: bool,
    /// The highest version that any client saw.
    newest: Version,
}

impl Model {
    /// Records what `durable` is given from now on.
    pub(super) fn recorder(&self, durable: Box<dyn Durable>) -> Box<dyn Durable> {
        Box::new(Recorder { inner: durable, batches: Arc::clone(&self.batches) })
    }

    /// The rows that every reader must see now.
    pub(super) fn rows(&self) -> ExpectedRows {
        self.batches.lock().rows.clone()
    }

    /// The states that a power cut may leave besides the present one.
    pub(super) fn earlier(&self) -> Vec<ExpectedRows> {
        self.batches.lock().earlier.clone()
    }

    pub(super) fn fate_set(&mut self, row: Bytes, fate: Fate) {
        self.fates.insert(row, fate);
    }

    pub(super) fn version_seen(&mut self, version: Version) {
        self.newest = self.newest.max(version);
    }

    pub(super) fn version_reopened(&mut self, version: Version) {
        assert!(version > self.newest, "version {version} after {}", self.newest);
        self.newest = version;
    }

    /// Compares the rows found after an opening with those that may be there, after a power cut or without one.
    pub(super) fn recovered(&mut self, found: &ExpectedRows, ending: Ending) -> Recovered {
        let mut batches = self.batches.lock();
        let earlier = std::mem::take(&mut batches.earlier);
        let undone = match ending {
            Ending::PowerCut => batches.rows != *found && earlier.contains(found),
            Ending::Kill => false,
        };
        let with_open = batches.open.take().map(|mutations| {
            let mut rows = batches.rows.clone();
            mutations.iter().for_each(|mutation| apply(&mut rows, mutation));
            rows
        });
        let kept = with_open.map(|rows| &rows == found);
        if kept != Some(true) && !undone {
            differ(&batches.rows, found);
        }
        batches.rows.clone_from(found);
        drop(batches);
        for (row, fate) in &mut self.fates {
            let there = found.contains_key(row);
            match *fate {
                Fate::Committed => assert!(there, "an acknowledged transaction is lost: {row:?}"),
                Fate::Refused => assert!(!there, "a refused transaction is there: {row:?}"),
                Fate::Unflushed => assert!(there || undone, "an acknowledged transaction is lost: {row:?}"),
                Fate::Open if there => *fate = Fate::Committed,
                Fate::Open => *fate = Fate::Refused,
            }
            if *fate == Fate::Unflushed {
                // What an opening has read it makes durable.
                *fate = if there { Fate::Committed } else { Fate::Refused };
            }
        }
        Recovered { open_kept: kept, undone }
    }
}

/// Prints the difference of two states, if they differ.
pub(super) fn differ(expected: &ExpectedRows, found: &ExpectedRows) {
    let missing: Vec<_> = expected.iter().filter(|row| found.get(row.0) != Some(row.1)).take(5).collect();
    let added: Vec<_> = found.iter().filter(|row| expected.get(row.0) != Some(row.1)).take(5).collect();
    assert!(missing.is_empty() && added.is_empty(), "missing {missing:?}, not expected {added:?}");
}

fn apply(rows: &mut ExpectedRows, mutation: &Mutation) {
    match mutation {
        Mutation::ClearRange(begin, end) => rows.retain(|key, _| !(begin <= key && key < end)),
        Mutation::Clear(key) => drop(rows.remove(key)),
        Mutation::Atomic(operation, key, operand) => {
            match atomic_apply(*operation, rows.get(key), operand) {
                Some(value) => rows.insert(key.clone(), value),
                None => rows.remove(key),
            };
        }
        Mutation::Set(key, value) | Mutation::StampedKey(key, value) | Mutation::StampedValue(key, value) => {
            drop(rows.insert(key.clone(), value.clone()))
        }
    }
}

/// Between the sequencer and the log.
struct Recorder {
    inner: Box<dyn Durable>,
    batches: Arc<Mutex<Batches>>,
}

impl Durable for Recorder {
    fn append(
        &mut self,
        version: Version,
        ceiling: Option<Version>,
        mutations: &[Mutation],
        flush: Flush,
    ) -> Result<(), AppendError> {
        let appended = self.inner.append(version, ceiling, mutations, flush);
        let mut batches = self.batches.lock();
        assert!(batches.open.is_none(), "nothing is appended after an append that may have failed");
        match &appended {
            Ok(()) => {
                match flush {
                    Flush::Now => batches.earlier.clear(),
                    Flush::Later => {
                        let before = batches.rows.clone();
                        batches.earlier.push(before);
                    }
                }
                mutations.iter().for_each(|mutation| apply(&mut batches.rows, mutation));
            }
            Err(AppendError::Failed(_)) => batches.open = Some(mutations.to_vec()),
            Err(AppendError::NoSpace(_) | AppendError::Resources(_)) => {}
        }
        appended
    }

    fn maintain(&mut self, version: Version, memory: &Arc<Memory>) -> Result<(), KvError> {
        self.inner.maintain(version, memory)
    }

    fn is_unconfirmed(&self) -> bool {
        self.inner.is_unconfirmed()
    }

    fn confirm(&mut self, load: Load) -> Result<(), KvError> {
        self.inner.confirm(load)
    }
}
