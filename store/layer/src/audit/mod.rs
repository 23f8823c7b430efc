//! The audit: calls leave the journal for a chain of chunks, which is kept for longer.
//!
//! The holder of the controller's lease seals: one writer per cell, so the chain needs no lock, and no admission writes
//! more than its entry of the journal. The journal is not trimmed beyond what is sealed.

use borough_kv::Transaction;
use borough_model::audit::{AuditHash, AuditRecord, AuditSeal, audit_chunks};

use crate::error::StoreResult;
use crate::gate::cell_gate_read;
use crate::journal::{Cursor, journal_floor, journal_tail};
use crate::keys::{self, AuditChunkKey, AuditHeadKey, CellSpace, Prefix, RangeOptions};
pub use crate::row::{AuditChunk, AuditHead};

/// Most bytes of the kept chunks of a cell, however young they are.
pub const AUDIT_BYTES_MAX: u64 = 4 << 30;

/// Entries that one step reads.
const STEP_ENTRIES: usize = 2_000;
/// After so many entries without a call the position moves, so that nobody reads them again.
const MOVE_ENTRIES: usize = 500;
/// Chunks that one step removes.
const TRIM_CHUNKS: usize = 100;

/// Where a process that seals is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealPosition {
    /// The last entry that it has looked at.
    pub at: Cursor,
    /// Entries without a call since the stored position.
    pub passed: usize,
}

/// What a step has sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditSealed {
    /// Calls that are sealed now.
    pub calls: usize,
    /// Where the next step begins.
    pub next: SealPosition,
    /// Whether more entries follow.
    pub more: bool,
}

/// Seals the calls of the next entries of the journal. `seen` is where an earlier step of this process has ended, so
/// that it reads nothing twice.
pub async fn audit_seal(
    tx: &Transaction,
    space: &CellSpace,
    seen: Option<SealPosition>,
) -> StoreResult<AuditSealed> {
    let store_epoch = cell_gate_read(tx, space).await?.store_epoch;
    let stored = keys::read(tx, space, &AuditHeadKey {}).await?;
    let mut head = stored.clone().unwrap_or_else(|| AuditHead {
        position: Cursor::start(store_epoch),
        number: 0,
        hash: [0; 32],
        oldest: 1,
        bytes: 0,
    });
    // Another epoch has another journal. What is before the floor was trimmed before anybody sealed here.
    let floor = journal_floor(tx, space).await?.map(|floor| floor.trimmed_to);
    let known = [Some(head.position), seen.map(|seen| seen.at), floor].into_iter().flatten();
    let from = known.filter(|at| at.store_epoch == store_epoch).max();
    let from = from.unwrap_or_else(|| Cursor::start(store_epoch));
    let page = journal_tail(tx, space, from, STEP_ENTRIES).await?;
    let passed = seen.map_or(0, |seen| seen.passed).saturating_add(page.entries.len());
    let records: Vec<AuditRecord> = page
        .entries
        .into_iter()
        .flat_map(|(_, entry)| {
            let of_entry = entry.at_ms;
            let calls = entry.calls.unwrap_or_default().into_iter();
            calls.map(move |call| AuditRecord { at_ms: call.at_ms.unwrap_or(of_entry), call })
        })
        .collect();
    let moves = !records.is_empty() || passed >= MOVE_ENTRIES || stored.is_none();
    let next = SealPosition { at: page.next, passed: if moves { 0 } else { passed } };
    let sealed = AuditSealed { calls: records.len(), next, more: page.more };
    if !moves {
        return Ok(sealed);
    }
    // Chunks of one step are of one moment, for their retention.
    let last_ms = records.iter().map(|record| record.at_ms).max().unwrap_or_default();
    for chunk in audit_chunks(&records, head.number, AuditHash(head.hash)) {
        (head.number, head.hash) = (chunk.number, chunk.hash.0);
        head.bytes = head.bytes.saturating_add(bytes_of(&chunk.body));
        let row = AuditChunk { previous: chunk.previous.0, hash: chunk.hash.0, last_ms, body: chunk.body };
        keys::write(tx, space, &AuditChunkKey { number: chunk.number }, &row)?;
    }
    head.position = page.next;
    keys::write(tx, space, &AuditHeadKey {}, &head)?;
    Ok(sealed)
}

fn bytes_of(body: &str) -> u64 {
    u64::try_from(body.len()).unwrap_or(u64::MAX)
}

/// How far the audit is sealed; `None`: nothing was sealed yet.
pub async fn audit_head(tx: &Transaction, space: &CellSpace) -> StoreResult<Option<AuditHead>> {
    keys::read_snapshot(tx, space, &AuditHeadKey {}).await
}

/// Returns true if the journal has a call that is not sealed yet.
pub async fn audit_is_behind(tx: &Transaction, space: &CellSpace) -> StoreResult<bool> {
    let store_epoch = cell_gate_read(tx, space).await?.store_epoch;
    let Some(head) = audit_head(tx, space).await? else { return Ok(true) };
    if head.position.store_epoch != store_epoch {
        return Ok(true);
    }
    let page = journal_tail(tx, space, head.position, STEP_ENTRIES).await?;
    Ok(page.more || page.entries.iter().any(|(_, entry)| entry.calls.is_some()))
}

/// Up to `limit` chunks after the chunk `after`, in their order. Those that were removed are left out.
pub async fn audit_chunks_after(
    tx: &Transaction,
    space: &CellSpace,
    after: u64,
    limit: usize,
) -> StoreResult<Vec<AuditSeal>> {
    let options =
        RangeOptions { after: Some(AuditChunkKey { number: after }), limit, ..RangeOptions::snapshot() };
    let rows = keys::range(tx, space, &Prefix::all(), options).await?;
    let seal = |(key, row): (AuditChunkKey, AuditChunk)| AuditSeal {
        number: key.number,
        previous: AuditHash(row.previous),
        hash: AuditHash(row.hash),
        body: row.body,
    };
    Ok(rows.into_iter().map(seal).collect())
}

/// Removes the oldest chunks whose last call was before `before_ms`, and those beyond `bytes_max`, as many as one step
/// takes. The last chunk stays. Returns how many are gone.
pub async fn audit_trim(
    tx: &Transaction,
    space: &CellSpace,
    before_ms: i64,
    bytes_max: u64,
) -> StoreResult<usize> {
    let Some(mut head) = keys::read(tx, space, &AuditHeadKey {}).await? else { return Ok(0) };
    let mut gone = 0;
    // One by one: mostly none is over, and each is large.
    while gone < TRIM_CHUNKS && head.oldest < head.number {
        let key = AuditChunkKey { number: head.oldest };
        let row = keys::read_snapshot(tx, space, &key).await?;
        if let Some(row) = row {
            if row.last_ms >= before_ms && head.bytes <= bytes_max {
                break;
            }
            keys::clear(tx, space, &key)?;
            head.bytes = head.bytes.saturating_sub(bytes_of(&row.body));
        }
        head.oldest = head.oldest.saturating_add(1);
        gone += 1;
    }
    if gone > 0 {
        keys::write(tx, space, &AuditHeadKey {}, &head)?;
    }
    Ok(gone)
}

#[cfg(test)]
mod tests;
