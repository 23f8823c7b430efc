//! Maps each kind to its place in the rows. Kinds that may be large are here, read in chunks; the others are read at
//! the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use borough_model::TaskId;

use super::{CellRows, RowSource};
use crate::error::StoreResult;
use crate::keys::{
    EndpointKey, FederatedJobKey, FederatedPartKey, FederatedStatusKey, FederatedVersionKey, GangKey,
    JobNameKey, JobPastKey, JobRowKey, JobSpecKey, Key, MemberKey, MemberSeenKey, MergedServiceKey,
    NameRevisionKey, NodeAllocKey, NodeKey, NodeLiveAtKey, NodeLiveChangeKey, NodeLiveKey, NodeLoadKey,
    NodeNameKey, NodeSessionKey, NodeTaskKey, RequestExpiryKey, RequestKey, TaskKey,
};

/// A kind whose rows are read in chunks.
pub(super) trait ChunkedKind: Key {
    /// Removes the rows between two keys, the first exclusive, the last inclusive.
    fn cut(rows: &mut CellRows, after: Option<&Self>, upto: Option<&Self>);
    fn put(rows: &mut CellRows, key: Self, value: Self::Value);
}

/// A map or set in the order of keys.
trait Ordered {
    type At: Ord + Clone;
    fn cut(&mut self, after: Option<Self::At>, upto: Option<Self::At>);
}

fn bounds<A>(after: Option<A>, upto: Option<A>) -> (Bound<A>, Bound<A>) {
    (after.map_or(Bound::Unbounded, Bound::Excluded), upto.map_or(Bound::Unbounded, Bound::Included))
}

impl<A: Ord + Clone, V> Ordered for BTreeMap<A, V> {
    type At = A;

    fn cut(&mut self, after: Option<A>, upto: Option<A>) {
        let gone: Vec<A> = self.range(bounds(after, upto)).map(|(at, _)| at.clone()).collect();
        for at in gone {
            self.remove(&at);
        }
    }
}

impl<A: Ord + Clone> Ordered for BTreeSet<A> {
    type At = A;

    fn cut(&mut self, after: Option<A>, upto: Option<A>) {
        let gone: Vec<A> = self.range(bounds(after, upto)).cloned().collect();
        for at in gone {
            self.remove(&at);
        }
    }
}

macro_rules! tables {
    ($($key:ty: $field:ident at |$at_of:ident| $at:expr, put |$rows:ident, $at_name:ident, $value:ident| $put:expr;)*) => {
        $(impl ChunkedKind for $key {
            fn cut(rows: &mut CellRows, after: Option<&Self>, upto: Option<&Self>) {
                let at = |$at_of: &Self| $at;
                rows.$field.cut(after.map(at), upto.map(at));
            }

            fn put($rows: &mut CellRows, key: Self, $value: Self::Value) {
                let $at_of = &key;
                let $at_name = $at;
                $put;
            }
        })*
    };
}

tables! {
    NodeKey: nodes at |key| key.node, put |rows, at, row| rows.nodes.insert(at, row);
    NodeAllocKey: allocs at |key| key.node, put |rows, at, row| rows.allocs.insert(at, row);
    NodeTaskKey: node_tasks at |key| (key.node, key.task()), put |rows, at, _row| rows.node_tasks.insert(at);
    NodeNameKey: node_names at |key| key.name.clone(), put |rows, at, row| rows.node_names.insert(at, row);
    NodeLiveKey: node_leases at |key| key.node, put |rows, at, _row| rows.node_leases.insert(at);
    NodeLiveAtKey: node_live_places at |key| key.node, put |rows, at, _row| rows.node_live_places.insert(at);
    NodeLiveChangeKey: node_live_changes at |key| (key.stamp, key.node),
        put |rows, at, _row| rows.node_live_changes.insert(at);
    NodeSessionKey: node_sessions at |key| key.node, put |rows, at, _row| rows.node_sessions.insert(at);
    NodeLoadKey: loads at |key| key.node, put |rows, at, row| rows.loads.insert(at, row);
    JobRowKey: jobs at |key| key.job, put |rows, at, row| rows.jobs.insert(at, row);
    JobSpecKey: specs at |key| (key.job, key.version), put |rows, at, row| rows.specs.insert(at, row);
    JobNameKey: names at |key| (key.user.clone(), key.name.clone()), put |rows, at, row| rows.names.insert(at, row);
    JobPastKey: past at |key| (key.user.clone(), key.name.clone(), key.submitted_ms, key.job),
        put |rows, at, _row| rows.past.insert(at);
    TaskKey: tasks at |key| TaskId { job: key.job, index: key.index }, put |rows, at, row| rows.tasks.insert(at, row);
    GangKey: gangs at |key| key.gang, put |rows, at, row| rows.gangs.insert(at, row);
    EndpointKey: endpoints at |key| (key.user.clone(), key.job.clone(), key.index),
        put |rows, at, row| rows.endpoints.insert(at, row);
    NameRevisionKey: name_revisions at |key| (key.user.clone(), key.job.clone()),
        put |rows, at, row| rows.name_revisions.insert(at, row.0);
    MergedServiceKey: merged_services at |key| (key.user.clone(), key.name.clone()),
        put |rows, at, row| rows.merged_services.insert(at, row);
    MemberKey: members at |key| key.cell.clone(), put |rows, at, row| rows.members.insert(at, row);
    MemberSeenKey: members_seen at |key| key.cell.clone(), put |rows, at, _row| rows.members_seen.insert(at);
    FederatedJobKey: federated_jobs at |key| (key.user.clone(), key.name.clone()),
        put |rows, at, row| rows.federated_jobs.insert(at, row);
    FederatedVersionKey: federated_versions at |key| (key.job, key.version),
        put |rows, at, row| rows.federated_versions.insert(at, row);
    FederatedPartKey: federated_parts at |key| (key.job, key.cell.clone()),
        put |rows, at, row| rows.federated_parts.insert(at, row);
    FederatedStatusKey: federated_statuses at |key| key.job,
        put |rows, at, _row| rows.federated_statuses.insert(at);
    RequestKey: requests at |key| key.id, put |rows, at, row| rows.requests.insert(at, row);
    RequestExpiryKey: request_expiries at |key| (key.expires_ms, key.id),
        put |rows, at, row| rows.request_expiries.insert(at, row);
}

/// Reads every table. Requests come last, since those that are added meanwhile are read again.
pub(super) async fn tables_read(source: &mut impl RowSource, rows: &mut CellRows) -> StoreResult<()> {
    table_read::<NodeKey>(source, rows).await?;
    table_read::<NodeAllocKey>(source, rows).await?;
    table_read::<NodeNameKey>(source, rows).await?;
    table_read::<NodeLiveKey>(source, rows).await?;
    table_read::<NodeLiveAtKey>(source, rows).await?;
    table_read::<NodeLiveChangeKey>(source, rows).await?;
    table_read::<NodeSessionKey>(source, rows).await?;
    table_read::<NodeLoadKey>(source, rows).await?;
    table_read::<JobRowKey>(source, rows).await?;
    table_read::<JobSpecKey>(source, rows).await?;
    table_read::<JobNameKey>(source, rows).await?;
    table_read::<JobPastKey>(source, rows).await?;
    table_read::<GangKey>(source, rows).await?;
    table_read::<TaskKey>(source, rows).await?;
    table_read::<NodeTaskKey>(source, rows).await?;
    table_read::<EndpointKey>(source, rows).await?;
    table_read::<NameRevisionKey>(source, rows).await?;
    table_read::<MergedServiceKey>(source, rows).await?;
    table_read::<MemberKey>(source, rows).await?;
    table_read::<MemberSeenKey>(source, rows).await?;
    table_read::<FederatedJobKey>(source, rows).await?;
    table_read::<FederatedVersionKey>(source, rows).await?;
    table_read::<FederatedPartKey>(source, rows).await?;
    table_read::<FederatedStatusKey>(source, rows).await?;
    table_read::<RequestKey>(source, rows).await?;
    table_read::<RequestExpiryKey>(source, rows).await
}

async fn table_read<K: ChunkedKind>(source: &mut impl RowSource, rows: &mut CellRows) -> StoreResult<()> {
    let mut after: Option<Vec<u8>> = None;
    let mut last_key: Option<K> = None;
    loop {
        let chunk = source.chunk::<K>(rows, after.take()).await?;
        let last = chunk.rows.last().map(|(key, _)| key.clone());
        let upto = last.as_ref().filter(|_| chunk.next.is_some());
        // The keys of a chunk with damaged keys only do not say where it ends.
        if chunk.next.is_none() || upto.is_some() {
            K::cut(rows, last_key.as_ref(), upto);
        }
        rows.damage.extend(chunk.damage);
        for (key, value) in chunk.rows {
            K::put(rows, key, value);
        }
        last_key = last.or(last_key);
        after = chunk.next;
        if after.is_none() {
            return Ok(());
        }
    }
}
