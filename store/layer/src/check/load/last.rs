//! The last transaction of a load. It reads kinds with few rows, rows whose new value the journal does not record, and
//! keys of no kind.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::{RangeRequest, Transaction, Versionstamp};
use borough_model::RequestId;

use super::super::{CellRows, Violation};
use super::chunk::{RowChunk, chunk_read, damage_of};
use crate::error::{StoreError, StoreResult};
use crate::key_kind::KeyKind;
use crate::keys::{
    self, AccessGrantKey, CellGateKey, CellMetaKey, CellSpace, JournalFloorKey, JournalHeadKey, JournalKey,
    Key, LeaseBeatKey, LeaseKey, NodeJoinKey, Prefix, QuotaBelowKey, QuotaKey, QuotaReleasedKey,
    QuotaUsedKey, RequestExpiryKey, RequestKey, WorkloadKeyKey, WorkloadSignerKey,
};
use crate::row::{CellGate, CellMeta, JournalFloor, RequestExpiry, RequestRow};

/// The most keys of no kind that are reported, per gap between two kinds.
const UNKNOWN_MAX: usize = 20;

/// The rows to read again.
#[derive(Clone, Debug, Default)]
pub(super) struct Again {
    /// Requests that may have been added or have expired.
    pub(super) requests: BTreeSet<RequestId>,
    /// The index entries of those requests, as far as they were read: request, time and entry.
    expiries: BTreeSet<(RequestId, i64, RequestId)>,
}

impl Again {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The same, with the index entries of its requests.
    pub(super) fn with_entries(&self, rows: &CellRows) -> Self {
        let mut again = Self { requests: self.requests.clone(), expiries: BTreeSet::new() };
        for (&(expires_ms, entry), listed) in &rows.request_expiries {
            let listed = listed.requests(entry);
            if listed.iter().any(|id| self.requests.contains(id)) {
                again.expiries.extend(listed.iter().map(|id| (*id, expires_ms, entry)));
                // If the entry has expired, all of them have.
                again.requests.extend(listed);
            }
        }
        again
    }

    /// At most `most` of them.
    pub(super) fn part(&self, most: usize) -> Self {
        let requests: BTreeSet<RequestId> = self.requests.iter().take(most).copied().collect();
        let expiries = self.expiries.iter().filter(|(id, ..)| requests.contains(id)).copied().collect();
        Self { requests, expiries }
    }

    pub(super) fn forget(&mut self, done: &Self) {
        self.requests.retain(|id| !done.requests.contains(id));
    }
}

/// The rows that were read again.
pub(super) struct Reread {
    requests: BTreeMap<RequestId, Option<RequestRow>>,
    expiries: BTreeMap<(i64, RequestId), Option<RequestExpiry>>,
}

/// Reads the rows of `again`.
pub(super) async fn again_read(tx: &Transaction, space: &CellSpace, again: &Again) -> StoreResult<Reread> {
    let (mut requests, mut expiries) = (BTreeMap::new(), BTreeMap::new());
    let mut listed: BTreeSet<(i64, RequestId)> =
        again.expiries.iter().map(|&(_, expires_ms, entry)| (expires_ms, entry)).collect();
    for &id in &again.requests {
        let row = keys::read_snapshot(tx, space, &RequestKey { id }).await?;
        listed.extend(row.as_ref().map(|row| (row.expires_ms, row.entry_of(id))));
        requests.insert(id, row);
    }
    for (expires_ms, id) in listed {
        let entry = keys::read_snapshot(tx, space, &RequestExpiryKey { expires_ms, id }).await?;
        expiries.insert((expires_ms, id), entry);
    }
    Ok(Reread { requests, expiries })
}

impl Reread {
    /// Replaces the rows with those that were read.
    pub(super) fn put(self, rows: &mut CellRows) {
        for (id, row) in self.requests {
            match row {
                Some(row) => rows.requests.insert(id, row),
                None => rows.requests.remove(&id),
            };
        }
        for (at, entry) in self.expiries {
            match entry {
                Some(entry) => rows.request_expiries.insert(at, entry),
                None => rows.request_expiries.remove(&at),
            };
        }
    }
}

/// Kinds with few rows.
pub(super) struct Last {
    meta: Option<CellMeta>,
    gate: Option<CellGate>,
    floor: Option<JournalFloor>,
    head: Option<Versionstamp>,
    limits: RowChunk<QuotaKey>,
    used: RowChunk<QuotaUsedKey>,
    released: RowChunk<QuotaReleasedKey>,
    below: RowChunk<QuotaBelowKey>,
    grants: RowChunk<AccessGrantKey>,
    published: RowChunk<WorkloadKeyKey>,
    signers: RowChunk<WorkloadSignerKey>,
    joins: RowChunk<NodeJoinKey>,
    leases: RowChunk<LeaseKey>,
    beats: RowChunk<LeaseBeatKey>,
    unknown: Vec<Violation>,
}

/// Reads the kinds that are not read in chunks.
pub(super) async fn last_read(tx: &Transaction, space: &CellSpace) -> StoreResult<Last> {
    let mut damage = Vec::new();
    let gate = single_read(tx, space, &CellGateKey {}, &mut damage).await?;
    let mut unknown = unknown_read(tx, space, gate.as_ref()).await?;
    let meta = single_read(tx, space, &CellMetaKey {}, &mut damage).await?;
    let floor = single_read(tx, space, &JournalFloorKey {}, &mut damage).await?;
    let head = single_read(tx, space, &JournalHeadKey {}, &mut damage).await?.map(|head| head.0);
    unknown.append(&mut damage);
    Ok(Last {
        meta,
        gate,
        floor,
        head,
        limits: chunk_read(tx, space, None, 0).await?,
        used: chunk_read(tx, space, None, 0).await?,
        released: chunk_read(tx, space, None, 0).await?,
        below: chunk_read(tx, space, None, 0).await?,
        grants: chunk_read(tx, space, None, 0).await?,
        published: chunk_read(tx, space, None, 0).await?,
        signers: chunk_read(tx, space, None, 0).await?,
        joins: chunk_read(tx, space, None, 0).await?,
        leases: chunk_read(tx, space, None, 0).await?,
        beats: chunk_read(tx, space, None, 0).await?,
        unknown,
    })
}

/// The one row of a kind. A damaged one is reported and counts as missing.
async fn single_read<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
    key: &K,
    damage: &mut Vec<Violation>,
) -> StoreResult<Option<K::Value>> {
    match keys::read_snapshot(tx, space, key).await {
        Err(error @ StoreError::DamagedValue { .. }) => {
            let bytes = key.encode(space);
            let value = tx.get_snapshot(&bytes).await?.unwrap_or_default();
            damage.push(damage_of(&error, &bytes, &value));
            Ok(None)
        }
        read => read,
    }
}

impl Last {
    /// Adds what was read to the rows.
    pub(super) fn put(self, rows: &mut CellRows) {
        (rows.meta, rows.gate) = (self.meta, self.gate);
        (rows.journal_floor, rows.journal_head) = (self.floor, self.head);
        let damages = [self.limits.damage, self.used.damage, self.released.damage, self.leases.damage];
        let others = self.beats.damage.into_iter().chain(self.grants.damage).chain(self.published.damage);
        let others = others.chain(self.signers.damage).chain(self.joins.damage).chain(self.below.damage);
        let others = others.chain(self.unknown);
        rows.damage.extend(damages.into_iter().flatten().chain(others));
        rows.grants = self.grants.rows.into_iter().map(|(key, row)| (key.subject, row)).collect();
        let published = self.published.rows.into_iter();
        rows.workload.published = published.map(|(key, row)| (key.number, row)).collect();
        rows.workload.signers = self.signers.rows.into_iter().map(|(key, row)| (key.number, row)).collect();
        rows.joins = self.joins.rows.into_iter().map(|(key, row)| (key.name, row)).collect();
        let limits = self.limits.rows.into_iter();
        rows.quota_limits = limits.map(|(key, row)| ((key.holder, key.band), row)).collect();
        let used = self.used.rows.into_iter();
        rows.quota_used = used.map(|(key, row)| ((key.holder, key.band), row)).collect();
        let released = self.released.rows.into_iter();
        rows.quota_released =
            released.map(|(key, counter)| ((key.holder, key.band, key.dimension), counter.0)).collect();
        let below = self.below.rows.into_iter();
        rows.quota_below = below.map(|(key, grant)| ((key.band, key.parent, key.holder), grant)).collect();
        rows.leases = self.leases.rows.into_iter().map(|(key, row)| ((key.role, key.shard), row)).collect();
        let beats = self.beats.rows.into_iter();
        rows.lease_beats = beats.map(|(key, row)| ((key.role, key.shard), row)).collect();
    }
}

/// Keys between those of known kinds, and journal entries of another epoch of the store.
async fn unknown_read(
    tx: &Transaction,
    space: &CellSpace,
    gate: Option<&CellGate>,
) -> StoreResult<Vec<Violation>> {
    let whole = space.range();
    let mut found = Vec::new();
    let mut begin = whole.start;
    for &kind in KeyKind::ALL {
        let range = keys::kind_range(space, kind);
        gap_read(tx, begin..range.start, &mut found).await?;
        begin = range.end;
    }
    gap_read(tx, begin..whole.end, &mut found).await?;
    let Some(gate) = gate else { return Ok(found) };
    let (all, own) =
        (keys::kind_range(space, KeyKind::Journal), Prefix::<JournalKey>::of(&gate.store_epoch).range(space));
    let before = found.len();
    gap_read(tx, all.start..own.start, &mut found).await?;
    gap_read(tx, own.end..all.end, &mut found).await?;
    for foreign in found.iter_mut().skip(before) {
        foreign.rule = "journal_epoch";
        foreign.expected = format!("nothing: the journal is of epoch {}", gate.store_epoch);
    }
    Ok(found)
}

async fn gap_read(
    tx: &Transaction,
    range: std::ops::Range<Vec<u8>>,
    found: &mut Vec<Violation>,
) -> StoreResult<()> {
    let request = RangeRequest::between(range.start, range.end).limit(UNKNOWN_MAX).snapshot();
    for (key, value) in tx.range_all(request).await? {
        found.push(damage_of(&StoreError::UnknownKey { key: key.to_vec() }, &key, &value));
    }
    Ok(())
}
