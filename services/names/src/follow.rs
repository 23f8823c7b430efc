//! Follows the mirror of a cell into the table: everything once, then each entry of the journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Database, Idempotency};
use borough_model::job::{JobRow, JobSpec, JobState};
use borough_model::merged::MergedServiceRow;
use borough_model::node::NodeRow;
use borough_model::{Delta, JournalEntry, Name};
use borough_store::cell::{CellMeta, cell_meta_read};
use borough_store::mirror::{
    MirrorEvent, MirrorHandle, MirrorState, MirrorSubscription, StoredEndpoint, StoredSpec,
};
use borough_store::{Cursor, error_chain};
use futures::FutureExt as _;

use crate::service::NamesShared;
use crate::table::{
    AnswerTimes, CellTable, ListedCell, NamedJobEvent, NamesChanges, NodePlace, ServiceFacts,
};

/// Entries that are applied before readers of the table may go on.
const ENTRIES_AT_ONCE: usize = 64;
/// Pause between two tries to read the settings of a cell.
const SETTINGS_PAUSE: Duration = Duration::from_secs(1);

/// One cell to follow.
#[derive(Clone)]
pub struct FollowedCell {
    pub name: Name,
    pub db: Database,
    pub mirror: MirrorHandle,
}

/// What a listing copies from the mirror under its lock.
struct CellCopy {
    cursor: Cursor,
    jobs: Vec<(Arc<JobRow>, Option<StoredSpec>)>,
    nodes: Vec<Arc<NodeRow>>,
    endpoints: Vec<(StoredEndpoint, i64)>,
    merged: Vec<Arc<MergedServiceRow>>,
}

impl CellCopy {
    fn of(state: &MirrorState) -> Self {
        let has_name = |row: &&Arc<JobRow>| {
            state.job_by_name(&row.user, &row.name).is_some_and(|named| named.id == row.id)
        };
        let jobs = state.jobs().values().filter(has_name);
        let (endpoints, _) = state.endpoints_part(None, None, None, usize::MAX);
        let healthy = |task| state.tasks().get(&task).map_or(0, |row| row.healthy_ms);
        Self {
            cursor: state.cursor(),
            jobs: jobs.map(|row| (Arc::clone(row), state.stored_spec_of(row))).collect(),
            nodes: state.nodes().values().cloned().collect(),
            endpoints: endpoints.into_iter().map(|(task, stored)| (stored, healthy(task))).collect(),
            merged: state.merged_services().values().cloned().collect(),
        }
    }

    fn rows(self, domains: &[String], times: AnswerTimes) -> ListedCell {
        let job = |(row, spec): (Arc<JobRow>, Option<StoredSpec>)| {
            let spec = spec.and_then(|spec| spec.decoded(&row.name));
            ((row.user.clone(), row.name.clone()), facts_of(&row, spec.as_ref()))
        };
        let endpoint =
            |(stored, healthy_ms): (StoredEndpoint, i64)| stored.decoded().map(|row| (row, healthy_ms));
        ListedCell {
            jobs: self.jobs.into_iter().map(job).collect(),
            nodes: self.nodes.iter().map(|row| (row.name.clone(), row.id, place_of(row, domains))).collect(),
            endpoints: self.endpoints.into_iter().filter_map(endpoint).collect(),
            merged: self.merged,
            times,
        }
    }
}

fn facts_of(row: &JobRow, spec: Option<&JobSpec>) -> ServiceFacts {
    ServiceFacts {
        job: row.id,
        spec_version: row.spec_version,
        is_live: !matches!(row.state, JobState::Ended { .. }),
        count: row.count,
        labels: Arc::new(spec.map(|spec| spec.labels.clone()).unwrap_or_default()),
        ports: spec
            .map(|spec| spec.task.ports.iter().map(|port| port.name.clone()).collect())
            .unwrap_or_default(),
    }
}

fn place_of(row: &NodeRow, domains: &[String]) -> NodePlace {
    let mut values = row.domain_values(domains).into_iter();
    NodePlace {
        host: row.host.clone(),
        zone: values.next().unwrap_or_default(),
        sub_zone: values.next().unwrap_or_default(),
        is_draining: row.draining,
    }
}

/// Follows a cell until the process ends.
pub(crate) async fn cell_follow(shared: Arc<NamesShared>, cell: FollowedCell) {
    loop {
        cell.mirror.ready().await;
        let (copy, subscription) = cell.mirror.subscribe_with(CellCopy::of);
        let cursor = copy.cursor;
        // Read after the subscription: a change of the settings since then lists the cell again.
        let settings = settings_read(&cell).await;
        let rows = copy.rows(&settings.failure_domains, times_of(&settings));
        shared.change(&cell.name, |table| table.replace(rows, cursor));
        tracing::info!(cell = %cell.name, "the table of names has the whole cell");
        entries_follow(&shared, &cell, subscription, &settings.failure_domains).await;
    }
}

/// How long answers about the names of a cell may be kept.
fn times_of(settings: &CellMeta) -> AnswerTimes {
    let seconds = |ms: u64| u32::try_from(ms / 1_000).unwrap_or(u32::MAX);
    AnswerTimes {
        ttl_s: seconds(settings.dns_ttl_ms()),
        negative_ttl_s: seconds(settings.dns_negative_ttl_ms()),
    }
}

/// The settings of a cell. The mirror has just read the store, so that a failure is short.
async fn settings_read(cell: &FollowedCell) -> CellMeta {
    let space = cell.mirror.space();
    loop {
        let meta = cell.db.run("cell_meta_read", Idempotency::ReadOnly, |tx, _| async move {
            cell_meta_read(&tx, space).await
        });
        match meta.await {
            Ok(settings) => return settings,
            Err(error) => {
                tracing::warn!(cell = %cell.name, error = %error_chain(&error), "cannot read the settings of the cell");
                tokio::time::sleep(SETTINGS_PAUSE).await;
            }
        }
    }
}

/// Applies entries until the table must be listed again.
async fn entries_follow(
    shared: &NamesShared,
    cell: &FollowedCell,
    mut subscription: MirrorSubscription,
    domains: &[String],
) {
    loop {
        let mut next = subscription.next().await;
        let mut entries = Vec::new();
        let mut is_over = false;
        loop {
            match next {
                Some(MirrorEvent::Entry { cursor, entry }) => entries.push((cursor, entry)),
                Some(MirrorEvent::Resync) | None => is_over = true,
            }
            if is_over || entries.len() >= ENTRIES_AT_ONCE {
                break;
            }
            match subscription.next().now_or_never() {
                Some(event) => next = event,
                None => break,
            }
        }
        // Other failure domains concern each node, and other times of DNS each answer.
        let has_settings = |delta: &Delta| matches!(delta, Delta::CellSettings { .. });
        is_over |= entries.iter().any(|(_, entry)| entry.deltas.iter().any(has_settings));
        let looks: Vec<_> = entries.iter().map(|(_, entry)| EntryLook::of(&cell.mirror, entry)).collect();
        shared.change(&cell.name, |table| {
            let mut changes = NamesChanges::default();
            for ((cursor, entry), look) in entries.iter().zip(&looks) {
                let of_entry = entry_apply(table, *cursor, entry, look, domains);
                changes.extend(of_entry);
            }
            changes
        });
        if is_over {
            return;
        }
    }
}

/// What an entry needs of the mirror. Read before the table is locked, so that no lock is taken under another.
#[derive(Default)]
struct EntryLook {
    /// The specs of jobs whose rows came without one.
    specs: BTreeMap<borough_model::JobId, JobSpec>,
    /// Since when tasks are healthy.
    healthy_ms: BTreeMap<borough_model::TaskId, i64>,
}

impl EntryLook {
    fn of(mirror: &MirrorHandle, entry: &JournalEntry) -> Self {
        let mut look = Self::default();
        let mut stored = Vec::new();
        let concerns =
            |delta: &Delta| matches!(delta, Delta::Job { spec: None, .. } | Delta::Endpoint { .. });
        if !entry.deltas.iter().any(concerns) {
            return look;
        }
        mirror.read(|state| {
            for delta in &entry.deltas {
                match delta {
                    Delta::Job { row, spec: None } => {
                        stored.extend(state.stored_spec(row.id, row.spec_version).map(|spec| (row, spec)));
                    }
                    Delta::Endpoint { endpoint, .. } => {
                        let healthy_ms = state.tasks().get(&endpoint.task).map(|row| row.healthy_ms);
                        look.healthy_ms.extend(healthy_ms.map(|at| (endpoint.task, at)));
                    }
                    _ => {}
                }
            }
        });
        look.specs =
            stored.into_iter().filter_map(|(row, spec)| Some((row.id, spec.decoded(&row.name)?))).collect();
        for delta in &entry.deltas {
            if let Delta::Task { row } = delta {
                look.healthy_ms.insert(row.id, row.healthy_ms);
            }
        }
        look
    }
}

fn entry_apply(
    table: &mut CellTable,
    cursor: Cursor,
    entry: &JournalEntry,
    look: &EntryLook,
    domains: &[String],
) -> NamesChanges {
    let mut changes = NamesChanges::default();
    for delta in &entry.deltas {
        let of_delta = match delta {
            Delta::Endpoint { endpoint, revision } => {
                let healthy_ms = look.healthy_ms.get(&endpoint.task).copied().unwrap_or_default();
                table.endpoint_put(endpoint, *revision, healthy_ms, cursor)
            }
            Delta::EndpointWithdrawn { user, job, task, revision } => {
                table.endpoint_remove(user, job, *task, *revision, cursor)
            }
            Delta::Job { row, spec } => {
                let spec = spec.as_deref().or_else(|| look.specs.get(&row.id));
                let mut facts = facts_of(row, spec);
                if spec.is_none()
                    && let Some(known) = table.facts_of(&row.user, &row.name, row.id)
                {
                    facts = ServiceFacts {
                        labels: Arc::clone(&known.labels),
                        ports: known.ports.clone(),
                        ..facts
                    };
                }
                let event = if row.revision <= 1 { NamedJobEvent::Created } else { NamedJobEvent::Changed };
                table.job_put(&row.user, &row.name, facts, event, cursor)
            }
            Delta::JobRemoved { job, .. } => table.job_remove(*job, cursor),
            Delta::Node { row } => table.node_put(&row.name, row.id, place_of(row, domains), cursor),
            Delta::NodeRemoved { node, .. } => {
                table.node_remove(*node);
                continue;
            }
            Delta::MergedService { row } => table.merged_put(Arc::new((**row).clone()), cursor),
            Delta::MergedServiceRemoved { id, user, name } => table.merged_remove(user, name, *id, cursor),
            _ => continue,
        };
        changes.extend(of_delta);
    }
    table.advance(cursor);
    changes
}
