//! Failovers: promises the tasks of cells that were silent for too long to others, and records what keeps the rest.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use borough_model::federation::{
    FailoverHold, FailoverOutcome, FailoverVerdict, FederatedPart, FederatedStatus, failover_decide,
    part_failed_over,
};
use borough_model::{FederatedJobId, Name};
use borough_store::StoreResult;
use borough_store::federated::FederatedChange;

use super::words::reasons_grouped;
use super::{Division, millis};

/// What keeps a failover is recorded again after so long, so that the times in its words stay true.
const HOLDS_AGAIN: Duration = Duration::from_secs(60);

/// What keeps the failovers of one job, as it was last recorded.
pub(super) struct RecordedHolds {
    kinds: BTreeMap<Name, Discriminant<FailoverHold>>,
    /// By the monotonic clock.
    at: Duration,
}

impl Division<'_> {
    /// Promises the tasks of cells that were silent for too long to others.
    pub(super) async fn failovers_begin(&mut self) -> StoreResult<()> {
        let parts = self.led.silent_parts(&self.cells);
        // So it is on almost every wake.
        if parts.is_empty() && self.led.jobs.values().all(|job| job.status.holds.is_empty()) {
            return Ok(());
        }
        let (now, now_ms) = (millis(self.now()), self.now_ms());
        let ids: BTreeMap<(Name, Name), FederatedJobId> = self.led.ids();
        // A job may lose several cells at once.
        let mut after: BTreeMap<FederatedJobId, BTreeMap<Name, FederatedPart>> = BTreeMap::new();
        let mut held: BTreeMap<FederatedJobId, BTreeMap<Name, FailoverHold>> = BTreeMap::new();
        for FailoverVerdict { user, job, cell, outcome } in failover_decide(&self.watch, &parts, now) {
            let id = ids.get(&(user, job));
            let Some(job) = id.and_then(|id| self.led.jobs.get(id)) else { continue };
            if let FailoverOutcome::Holds(hold) = outcome {
                held.entry(job.row.id).or_default().insert(cell, hold);
                continue;
            }
            tracing::warn!(job = %job.row.id, %cell, "the tasks of a silent cell go to others");
            let parts = after.entry(job.row.id).or_insert_with(|| job.parts.clone());
            for part in part_failed_over(parts, &cell, now_ms) {
                parts.insert(part.cell.clone(), part);
            }
            self.watch.failover_begins(cell, now);
        }
        let changes = after.into_iter().filter_map(|(id, parts)| {
            let job = self.led.jobs.get(&id)?;
            let parts = parts.into_values().filter(|part| job.parts.get(&part.cell) != Some(part)).collect();
            // It is divided again.
            let status = Some(FederatedStatus { divided: 0, ..job.status.clone() });
            Some((id, FederatedChange { parts, status, ..FederatedChange::default() }))
        });
        self.record(changes.collect()).await?;
        self.holds_record(&held).await
    }

    /// Records what keeps the tasks of silent cells where they are, for their owners to read.
    async fn holds_record(
        &mut self,
        held: &BTreeMap<FederatedJobId, BTreeMap<Name, FailoverHold>>,
    ) -> StoreResult<()> {
        let now = self.now();
        let none = BTreeMap::new();
        let mut changes = Vec::new();
        for (id, job) in &self.led.jobs {
            let holds = held.get(id).unwrap_or(&none);
            if holds.is_empty() && job.status.holds.is_empty() {
                continue;
            }
            let kinds: BTreeMap<Name, Discriminant<FailoverHold>> =
                holds.iter().map(|(cell, hold)| (cell.clone(), discriminant(hold))).collect();
            let is_recorded = self.holds.get(id).is_some_and(|recorded| {
                recorded.kinds == kinds && now.saturating_sub(recorded.at) < HOLDS_AGAIN
            });
            if !is_recorded {
                self.holds.insert(*id, RecordedHolds { kinds, at: now });
                let words = holds.iter().map(|(cell, hold)| (hold.to_string(), cell));
                let status = FederatedStatus { holds: reasons_grouped(words), ..job.status.clone() };
                changes.push((*id, FederatedChange { status: Some(status), ..FederatedChange::default() }));
            }
        }
        self.holds.retain(|id, _| held.contains_key(id));
        self.record(changes).await
    }
}
