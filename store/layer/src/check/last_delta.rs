//! The journal's last record of each row, as a digest, so that the rows are not held twice.

use crate::row::Cursor;
use std::collections::BTreeMap;

use borough_kv::Versionstamp;
use borough_model::journal::DeltaKey;
use borough_model::{Delta, GangId, JobId, JournalEntry, Name, TaskId};
use minicbor::Encode;
use xxhash_rust::xxh3::xxh3_64;

/// The last record of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastDelta {
    pub(super) revision: u64,
    /// The row's digest; `None` if the row was removed.
    pub(super) digest: Option<u64>,
}

/// What the journal records of a cell's rows, from its oldest kept entry on.
#[derive(Clone, Debug, Default)]
pub struct JournalRecord {
    /// No entry was ever trimmed, so the journal has recorded every row.
    pub(super) complete: bool,
    pub(super) last: BTreeMap<DeltaKey, LastDelta>,
    /// Rows whose revision went back, with both revisions.
    pub(super) back: Vec<(DeltaKey, u64, u64)>,
    /// The stamp of the last change of any endpoint, by user and job.
    pub(super) names: BTreeMap<(Name, Name), Versionstamp>,
    /// The position of the last entry.
    pub(super) end: Option<Cursor>,
    /// The records that differ from their rows; filled in by [`JournalRecord::records_keep`].
    pub(super) records: BTreeMap<DeltaKey, Delta>,
    gang_jobs: BTreeMap<GangId, JobId>,
}

/// A digest of a row's stored encoding.
pub(super) fn row_digest<T: Encode<()>>(row: &T) -> u64 {
    // The row was decoded from this encoding. A row without one equals no other.
    minicbor::to_vec(row).map_or(0, |bytes| xxh3_64(&bytes))
}

fn delta_digest(delta: &Delta) -> Option<u64> {
    match delta {
        Delta::Node { row } => Some(row_digest(row)),
        Delta::NodeAlloc { alloc, .. } => Some(row_digest(alloc)),
        Delta::NodeLoad { load, .. } => Some(row_digest(load)),
        // A job's delta carries its spec only if the spec is new.
        Delta::Job { row, .. } => Some(row_digest(row.as_ref())),
        Delta::Task { row } => Some(row_digest(row)),
        Delta::Gang { row } => Some(row_digest(row)),
        Delta::Endpoint { endpoint, revision } => Some(endpoint_digest(endpoint, *revision)),
        Delta::NodeRemoved { .. }
        | Delta::JobRemoved { .. }
        | Delta::TaskRemoved { .. }
        | Delta::EndpointWithdrawn { .. }
        | Delta::MergedServiceRemoved { .. }
        | Delta::MemberRemoved { .. }
        | Delta::FederatedJobRemoved { .. } => None,
        Delta::MergedService { row } => Some(row_digest(row.as_ref())),
        Delta::Member { row } => Some(row_digest(row.as_ref())),
        Delta::FederatedJob { row } => Some(row_digest(row.as_ref())),
        Delta::CellSettings { revision } => Some(*revision),
    }
}

pub(super) fn endpoint_digest(endpoint: &borough_model::task::Endpoint, revision: u64) -> u64 {
    row_digest(endpoint) ^ revision
}

impl JournalRecord {
    pub(super) fn entry(&mut self, at: Cursor, entry: &JournalEntry) {
        for delta in &entry.deltas {
            self.delta(delta);
            if let Delta::Endpoint { endpoint, .. } = delta {
                self.names.insert((endpoint.user.clone(), endpoint.job.clone()), at.stamp);
            }
        }
        self.end = Some(at);
    }

    fn delta(&mut self, delta: &Delta) {
        let key = delta.key();
        let record = LastDelta { revision: delta.revision(), digest: delta_digest(delta) };
        let before = self.last.insert(key, record);
        if let Some(before) = before.filter(|before| before.revision > record.revision) {
            self.back.push((key, before.revision, record.revision));
        }
        match delta {
            Delta::Gang { row } => {
                self.gang_jobs.insert(row.id, row.job);
            }
            Delta::JobRemoved { job, .. } => self.job_forget(*job),
            Delta::NodeRemoved { node, .. } => {
                self.last.remove(&DeltaKey::NodeAlloc(*node));
                self.last.remove(&DeltaKey::NodeLoad(*node));
            }
            _ => {}
        }
    }

    /// Removes a job with its tasks and gangs.
    fn job_forget(&mut self, job: JobId) {
        let range =
            DeltaKey::Task(TaskId { job, index: 0 })..=DeltaKey::Task(TaskId { job, index: u32::MAX });
        let tasks: Vec<DeltaKey> = self.last.range(range).map(|(key, _)| *key).collect();
        let gangs =
            self.gang_jobs.iter().filter(|(_, of)| **of == job).map(|(gang, _)| DeltaKey::Gang(*gang));
        let gone: Vec<DeltaKey> = tasks.into_iter().chain(gangs).collect();
        for key in gone {
            self.last.remove(&key);
        }
        self.gang_jobs.retain(|_, of| *of != job);
    }

    /// Keeps an entry's deltas about `suspects` for the report. The journal is read a second time for this.
    pub(super) fn records_keep(&mut self, suspects: &[DeltaKey], entry: &JournalEntry) {
        for delta in &entry.deltas {
            if suspects.contains(&delta.key()) {
                self.records.insert(delta.key(), delta.clone());
            }
        }
    }
}
