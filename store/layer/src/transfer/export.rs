//! Exports a cell's rows.

use std::io::{self, Write};

use borough_kv::Database;

use super::file::{ExportEnd, ExportHeader, ExportWriter};
use crate::check::{CellRows, LoadProgress, cell_rows_load};
use crate::error::{StoreError, StoreResult};
use crate::key_kind::KeyKind;
use crate::keys::{
    AccessGrantKey, CellMetaKey, CellSpace, Counter, EndpointKey, FederatedJobKey, FederatedPartKey,
    FederatedVersionKey, GangKey, JobNameKey, JobPastKey, JobRowKey, JobSpecKey, Key, MemberKey,
    MergedServiceKey, NameRevisionKey, NodeAllocKey, NodeJoinKey, NodeKey, NodeNameKey, NodeTaskKey,
    QuotaBelowKey, QuotaKey, QuotaReleasedKey, QuotaUsedKey, RequestExpiryKey, RequestKey, StampValue,
    TaskKey, WorkloadKeyKey, value_encode,
};
use crate::row::Cursor;

/// The result of reading a cell for its export.
#[derive(Clone, Debug)]
pub struct ExportSummary {
    /// The cell's rows at [`ExportSummary::at`]. None of them is damaged.
    /// [`cell_violations`](crate::check::cell_violations) tells whether they contradict each other.
    pub rows: CellRows,
    /// The position of the rows.
    pub at: Cursor,
}

/// Reads a cell for its export, in chunks of `chunk_rows`, while others change it. Fails for a cell with rows that
/// cannot be read (the copy would lack them), and for one that is being imported itself.
pub async fn cell_export(
    db: &Database,
    space: &CellSpace,
    chunk_rows: usize,
    progress: impl FnMut(LoadProgress),
) -> StoreResult<ExportSummary> {
    let (rows, at) = cell_rows_load(db, space, chunk_rows, progress).await?;
    if let Some(first) = rows.damage.first() {
        let reason = format!(
            "cell {space} has {} rows that cannot be read and would be lost, the first at {}; `store check` shows them",
            rows.damage.len(),
            first.key
        );
        return Err(StoreError::refused(reason));
    }
    match &rows.gate {
        Some(gate) if gate.state == crate::cell::CellState::Importing => {
            Err(StoreError::CellClosed { cell: space.to_string(), state: gate.state.as_str() })
        }
        _ => Ok(ExportSummary { rows, at }),
    }
}

/// Writes rows as a file. Returns the writer.
pub fn rows_export<W: Write>(rows: &CellRows, header: &ExportHeader, out: W) -> io::Result<(W, ExportEnd)> {
    rows_write(rows, &header.cell, ExportWriter::begin(out, header)?)
}

pub(super) fn rows_write<W: Write>(
    rows: &CellRows,
    cell: &borough_model::Name,
    writer: ExportWriter<W>,
) -> io::Result<(W, ExportEnd)> {
    let mut file = ExportRows { writer, space: CellSpace::new(cell.clone()), last: Vec::new() };
    file.cell_and_nodes(rows)?;
    file.jobs(rows)?;
    file.tasks(rows)?;
    file.rest(rows)?;
    file.writer.end()
}

/// Returns true if rows of a kind are part of an export. Other rows are made again in the new store, or belong to the
/// old one: see [`crate::transfer`].
pub(super) fn is_carried(kind: KeyKind) -> bool {
    match kind {
        KeyKind::CellMeta
        | KeyKind::Node
        | KeyKind::NodeAlloc
        | KeyKind::NodeTask
        | KeyKind::NodeName
        | KeyKind::JobName
        | KeyKind::JobSpec
        | KeyKind::JobGate
        | KeyKind::JobRow
        | KeyKind::JobPast
        | KeyKind::Task
        | KeyKind::Gang
        | KeyKind::Quota
        | KeyKind::QuotaUsed
        | KeyKind::QuotaReleased
        | KeyKind::QuotaBelow
        | KeyKind::Name
        | KeyKind::NameRevision
        | KeyKind::MergedService
        | KeyKind::Member
        | KeyKind::FederatedJob
        | KeyKind::FederatedVersion
        | KeyKind::FederatedPart
        | KeyKind::Request
        | KeyKind::RequestExpiry
        | KeyKind::AccessGrant
        | KeyKind::WorkloadKey
        | KeyKind::NodeJoin => true,
        KeyKind::CellGate
        | KeyKind::Import
        | KeyKind::GatewayLive
        | KeyKind::NodeLive
        | KeyKind::NodeLiveAt
        | KeyKind::NodeLiveChange
        | KeyKind::NodeReserved
        | KeyKind::NodeLoad
        | KeyKind::NodeSession
        | KeyKind::MemberSeen
        | KeyKind::FederatedStatus
        | KeyKind::Constraint
        | KeyKind::Journal
        | KeyKind::JournalHead
        | KeyKind::JournalFloor
        | KeyKind::Lease
        | KeyKind::LeaseBeat
        | KeyKind::LeaseStatus
        | KeyKind::LeaseHead
        | KeyKind::SchedulerPool
        | KeyKind::FederationCell
        | KeyKind::StoreGeneration
        | KeyKind::AccessHead
        | KeyKind::NodeJoinHead
        | KeyKind::AuditHead
        | KeyKind::AuditChunk
        | KeyKind::FederatedQuestion
        | KeyKind::FederatedQuestionHead
        | KeyKind::WorkloadSigner => false,
    }
}

/// Rows on their way into a file, kind by kind in the order of codes.
struct ExportRows<W> {
    writer: ExportWriter<W>,
    space: CellSpace,
    /// The key of the last row.
    last: Vec<u8>,
}

impl<W: Write> ExportRows<W> {
    fn put<K: Key>(&mut self, key: &K, value: &K::Value) -> io::Result<()> {
        let bytes = key.encode(&self.space);
        let own = bytes.get(self.space.prefix().len()..).unwrap_or_default().to_vec();
        // No import takes such a file, so the export fails while the cell is still there.
        if self.last >= own {
            return Err(io::Error::other(format!(
                "the rows of kind {} are not in the order of keys",
                K::KIND
            )));
        }
        self.last.clone_from(&own);
        let value = value_encode(K::KIND, value).map_err(io::Error::other)?;
        self.writer.row(own, value)
    }

    fn cell_and_nodes(&mut self, rows: &CellRows) -> io::Result<()> {
        if let Some(meta) = &rows.meta {
            self.put(&CellMetaKey {}, meta)?;
        }
        for (&node, row) in &rows.nodes {
            self.put(&NodeKey { node }, row)?;
        }
        for (&node, alloc) in &rows.allocs {
            self.put(&NodeAllocKey { node }, alloc)?;
        }
        for (node, task) in &rows.node_tasks {
            self.put(&NodeTaskKey::of(*node, *task), &())?;
        }
        for (name, node) in &rows.node_names {
            self.put(&NodeNameKey { name: name.clone() }, node)?;
        }
        Ok(())
    }

    fn jobs(&mut self, rows: &CellRows) -> io::Result<()> {
        for ((user, name), job) in &rows.names {
            self.put(&JobNameKey { user: user.clone(), name: name.clone() }, job)?;
        }
        for (&(job, version), spec) in &rows.specs {
            self.put(&JobSpecKey { job, version }, spec)?;
        }
        for (&job, row) in &rows.jobs {
            self.put(&JobRowKey { job }, row)?;
        }
        for (user, name, submitted_ms, job) in &rows.past {
            let (user, name) = (user.clone(), name.clone());
            self.put(&JobPastKey { user, name, submitted_ms: *submitted_ms, job: *job }, &())?;
        }
        Ok(())
    }

    fn tasks(&mut self, rows: &CellRows) -> io::Result<()> {
        for (&task, row) in &rows.tasks {
            self.put(&TaskKey::of(task), row)?;
        }
        for (&gang, row) in &rows.gangs {
            self.put(&GangKey { gang }, row)?;
        }
        Ok(())
    }

    fn rest(&mut self, rows: &CellRows) -> io::Result<()> {
        for ((holder, band), row) in &rows.quota_limits {
            self.put(&QuotaKey { holder: holder.clone(), band: *band }, row)?;
        }
        for ((holder, band), row) in &rows.quota_used {
            self.put(&QuotaUsedKey { holder: holder.clone(), band: *band }, row)?;
        }
        for ((holder, band, dimension), amount) in &rows.quota_released {
            let key = QuotaReleasedKey { holder: holder.clone(), band: *band, dimension: dimension.clone() };
            self.put(&key, &Counter(*amount))?;
        }
        for ((band, parent, holder), grant) in &rows.quota_below {
            let key = QuotaBelowKey { band: *band, parent: parent.clone(), holder: holder.clone() };
            self.put(&key, grant)?;
        }
        for ((user, job, index), row) in &rows.endpoints {
            self.put(&EndpointKey { user: user.clone(), job: job.clone(), index: *index }, row)?;
        }
        for ((user, job), stamp) in &rows.name_revisions {
            self.put(&NameRevisionKey { user: user.clone(), job: job.clone() }, &StampValue(*stamp))?;
        }
        for ((user, name), row) in &rows.merged_services {
            self.put(&MergedServiceKey { user: user.clone(), name: name.clone() }, row)?;
        }
        for (cell, row) in &rows.members {
            self.put(&MemberKey { cell: cell.clone() }, row)?;
        }
        for ((user, name), row) in &rows.federated_jobs {
            self.put(&FederatedJobKey { user: user.clone(), name: name.clone() }, row)?;
        }
        for (&(job, version), row) in &rows.federated_versions {
            self.put(&FederatedVersionKey { job, version }, row)?;
        }
        for ((job, cell), row) in &rows.federated_parts {
            self.put(&FederatedPartKey { job: *job, cell: cell.clone() }, row)?;
        }
        for (&id, row) in &rows.requests {
            self.put(&RequestKey { id }, row)?;
        }
        for (&(expires_ms, id), listed) in &rows.request_expiries {
            self.put(&RequestExpiryKey { expires_ms, id }, listed)?;
        }
        for (subject, row) in &rows.grants {
            self.put(&AccessGrantKey { subject: subject.clone() }, row)?;
        }
        for (&number, row) in &rows.workload.published {
            self.put(&WorkloadKeyKey { number }, row)?;
        }
        for (name, row) in &rows.joins {
            if let Some(row) = row.exported() {
                self.put(&NodeJoinKey { name: name.clone() }, &row)?;
            }
        }
        Ok(())
    }
}
