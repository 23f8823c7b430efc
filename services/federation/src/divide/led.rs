//! What a leader knows of the federated jobs: their rows, what was promised to cells, and how each was last divided.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use borough_kv::Database;
use borough_model::federation::{
    CellFacts, CellsReason, FederatedJob, FederatedJobRow, FederatedPart, FederatedState, FederatedStatus,
    PartProblem, PartSeen, Split, SplitMode, cell_facts, parts_promised, room_deducted, split,
};
use borough_model::member::{MemberRow, MemberSeen};
use borough_model::{FederatedJobId, Name};
use borough_store::federated::{FederatedChange, federated_parts_each, federated_statuses_each};
use borough_store::{CellSpace, StoreResult};
use xxhash_rust::xxh3::Xxh3;

use super::call::{PartFound, PartNotice, PartVisited};

/// A report that says the same as before is recorded after so long, so that its age stays true.
const SEEN_AGAIN_MS: i64 = 30_000;
/// Tasks without a cell are divided again after so long.
pub(super) const RETRY: Duration = Duration::from_secs(15);

/// The members as the division knows them.
#[derive(Clone, Default)]
pub(super) struct MemberCells {
    pub(super) rows: BTreeMap<Name, Arc<MemberRow>>,
    pub(super) seen: Arc<BTreeMap<Name, MemberSeen>>,
}

impl MemberCells {
    /// Whether the last look at a cell brought a report.
    pub(super) fn is_heard(&self, cell: &Name) -> bool {
        self.rows.contains_key(cell) && self.seen.get(cell).is_some_and(|seen| seen.problem.is_none())
    }

    /// Another one is a reason to divide again.
    fn mark(&self) -> u64 {
        let mut hasher = Xxh3::new();
        for row in self.rows.values() {
            (row.id.0, row.cell.as_str(), row.cordoned, row.draining).hash(&mut hasher);
            row.labels.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// One federated job.
pub(super) struct LedJob {
    pub(super) row: Arc<FederatedJobRow>,
    pub(super) parts: BTreeMap<Name, FederatedPart>,
    pub(super) status: FederatedStatus,
    /// MemberCells are being asked for room.
    pub(super) is_asked: bool,
    /// Not before then, by the monotonic clock, is it divided again for tasks without a cell.
    pub(super) retry_at: Duration,
    /// Versions that parts are told, besides the newest.
    pub(super) versions: BTreeMap<u64, Arc<FederatedJob>>,
}

/// All federated jobs, by id.
#[derive(Default)]
pub(super) struct LedJobs {
    pub(super) jobs: BTreeMap<FederatedJobId, LedJob>,
}

impl LedJobs {
    /// Reads what was promised, in transactions of a bounded size.
    pub(super) async fn load(db: &Database, space: &CellSpace) -> StoreResult<Promised> {
        let mut promised = Promised::default();
        federated_parts_each(db, space, |job, part| {
            promised.parts.entry(job).or_default().insert(part.cell.clone(), part);
        })
        .await?;
        federated_statuses_each(db, space, |job, status| drop(promised.statuses.insert(job, status))).await?;
        Ok(promised)
    }

    /// Takes over the rows as they are now. A job that is gone is forgotten.
    pub(super) fn refresh(
        &mut self,
        rows: &BTreeMap<(Name, Name), Arc<FederatedJobRow>>,
        promised: &mut Promised,
    ) {
        let ids: BTreeSet<FederatedJobId> = rows.values().map(|row| row.id).collect();
        self.jobs.retain(|id, _| ids.contains(id));
        for row in rows.values() {
            match self.jobs.get_mut(&row.id) {
                Some(job) => job.row = Arc::clone(row),
                None => {
                    let job = LedJob {
                        row: Arc::clone(row),
                        parts: promised.parts.remove(&row.id).unwrap_or_default(),
                        status: promised.statuses.remove(&row.id).unwrap_or_default(),
                        is_asked: false,
                        retry_at: Duration::ZERO,
                        versions: BTreeMap::new(),
                    };
                    self.jobs.insert(row.id, job);
                }
            }
        }
    }

    /// The federated jobs of a user that have tasks in a cell, by name.
    fn jobs_in(&self, user: &Name, cell: &Name) -> BTreeSet<Name> {
        let of_user = self.jobs.values().filter(|job| job.row.user() == user);
        let there = of_user.filter(|job| job.parts.get(cell).is_some_and(|part| part.count > 0));
        there.map(|job| job.row.name().clone()).collect()
    }

    /// What is known of each cell for a job that asked for room at `asked_ms`. What was promised to others since, or
    /// has not been seen since it arrived, is taken off.
    pub(super) fn facts(
        &self,
        job: &LedJob,
        cells: &MemberCells,
        rooms: &CellRooms,
        asked_ms: i64,
    ) -> Vec<CellFacts> {
        let amounts = &job.row.spec.job.task.resources;
        let facts = cells.rows.values().map(|member| {
            let cell = &member.cell;
            let others = self.jobs.values().filter(|other| other.row.id != job.row.id);
            let promised = others.filter_map(|other| {
                let part = other.parts.get(cell)?;
                let seen = part.seen.as_ref();
                let is_open = !part.is_arrived()
                    || part.promised_ms >= asked_ms
                    || seen.is_none_or(|seen| seen.at_ms < part.promised_ms);
                let there = seen.map_or(0, |seen| seen.running);
                is_open.then(|| (&other.row.spec.job.task.resources, part.count.saturating_sub(there)))
            });
            let room = rooms.get(cell).copied().flatten();
            let room = room.map(|room| room_deducted(room, amounts, promised));
            let (seen, part) = (cells.seen.get(cell), job.parts.get(cell));
            let mut facts = cell_facts(member, seen, part, room, self.jobs_in(job.row.user(), cell));
            facts.jobs.remove(job.row.name());
            facts
        });
        facts.collect()
    }

    /// Divides a job, and returns what that changes.
    pub(super) fn divided(
        &self,
        job: &LedJob,
        cells: &MemberCells,
        rooms: &Rooms,
        now_ms: i64,
    ) -> FederatedChange {
        let facts = self.facts(job, cells, &rooms.by_cell, rooms.asked_ms);
        let spec = &job.row.spec;
        let count = if job.row.state == FederatedState::Active { spec.job.count } else { 0 };
        let division = split(&spec.federation, count, &facts, SplitMode::Again);
        let mut parts = parts_promised(&job.row, &job.parts, &division, now_ms);
        // A cell that has left the federation is nobody's to tell. Its job goes on there.
        parts.retain(|part| cells.rows.contains_key(&part.cell));
        let gone = job.parts.keys().filter(|cell| !cells.rows.contains_key(*cell)).cloned().collect();
        let status = status_of(&job.row, &division, cells.mark(), now_ms);
        FederatedChange { parts, gone, status: Some(status) }
    }
}

/// How many more tasks each cell would place; absent: it could not be asked.
pub(super) type CellRooms = BTreeMap<Name, Option<u32>>;

/// What cells have said of their room for a job.
pub(super) struct Rooms {
    pub(super) by_cell: CellRooms,
    /// Time of the home, milliseconds since 1970.
    pub(super) asked_ms: i64,
}

/// What was promised, as the store has it at the begin of a term.
#[derive(Default)]
pub(super) struct Promised {
    parts: BTreeMap<FederatedJobId, BTreeMap<Name, FederatedPart>>,
    statuses: BTreeMap<FederatedJobId, FederatedStatus>,
}

fn status_of(row: &FederatedJobRow, division: &Split, members_mark: u64, at_ms: i64) -> FederatedStatus {
    let mut by_words: BTreeMap<String, Vec<Name>> = BTreeMap::new();
    for verdict in &division.cells {
        by_words.entry(verdict.reason.to_string()).or_default().push(verdict.cell.clone());
    }
    FederatedStatus {
        divided: row.revision,
        members_mark,
        at_ms,
        unplaced: division.unplaced,
        shortfall: division.shortfall.as_ref().map(ToString::to_string),
        reasons: by_words.into_iter().map(|(words, cells)| CellsReason { words, cells }).collect(),
    }
}

impl LedJob {
    /// Whether its tasks have to be divided now.
    pub(super) fn is_due(&self, cells: &MemberCells, now: Duration) -> bool {
        if self.is_asked || self.row.state == FederatedState::Stopped {
            return false;
        }
        let is_other = self.status.divided != self.row.revision || self.status.members_mark != cells.mark();
        let has_problem = self.parts.values().any(|part| part.problem.is_some() && !part.is_arrived());
        is_other || ((self.status.unplaced > 0 || has_problem) && now >= self.retry_at)
    }

    /// The cells to ask, each with what it has and how many more could be wanted of it.
    pub(super) fn asked(&self, cells: &MemberCells) -> Vec<(Name, u32, u32, u64)> {
        if self.row.state != FederatedState::Active {
            return Vec::new();
        }
        let (spec, count) = (&self.row.spec.federation, self.row.spec.job.count);
        let open =
            cells.rows.values().filter(|row| !row.cordoned && !row.draining && cells.is_heard(&row.cell));
        let ask = open.map(|row| {
            let part = self.parts.get(&row.cell).filter(|part| part.count > 0);
            let has = part.map_or(0, |part| part.count);
            let most = spec.max_of(&row.cell).unwrap_or(u32::MAX).min(count).saturating_sub(has);
            (row.cell.clone(), has, most, part.map_or(self.row.version, |part| part.version))
        });
        ask.collect()
    }

    /// What a visit tells the cell of it. `None`: it is no cell of the job.
    pub(super) fn told(&self, cell: &Name) -> Option<PartNotice> {
        let part = self.parts.get(cell)?.clone();
        let spec = self.version(part.version)?;
        Some(PartNotice { job: Arc::clone(&self.row), part, spec })
    }

    /// A version, if it is known here.
    pub(super) fn version(&self, version: u64) -> Option<Arc<FederatedJob>> {
        if version == self.row.version || version == 0 {
            return Some(Arc::new(self.row.spec.clone()));
        }
        self.versions.get(&version).cloned()
    }

    /// The versions that are told to a cell and are not known here.
    pub(super) fn versions_missing(&self) -> BTreeSet<u64> {
        let told = self.parts.values().map(|part| part.version);
        told.filter(|version| self.version(*version).is_none()).collect()
    }

    /// The part after a visit. `None`: nothing that is worth a record has changed.
    pub(super) fn visited(
        &mut self,
        cell: &Name,
        visited: PartVisited,
        now_ms: i64,
    ) -> Option<FederatedPart> {
        let part = self.parts.get_mut(cell)?;
        let before = part.clone();
        match visited.told {
            Ok(found) => {
                if part.promise == visited.promise {
                    part.arrived = part.promise;
                    part.problem = None;
                }
                part.admitted = found.as_ref().map(|found| found.admitted.clone());
                part.seen = Some(seen_at(found, now_ms));
            }
            Err(message) => {
                let since_ms = part.problem.as_ref().map_or(now_ms, |problem| problem.since_ms);
                part.problem = Some(PartProblem { since_ms, message });
            }
        }
        let after = part.clone();
        let of = |part: &FederatedPart| FederatedPart {
            seen: part.seen.clone().map(|seen| PartSeen { at_ms: 0, ..seen }),
            ..part.clone()
        };
        let at_ms = |part: &FederatedPart| part.seen.as_ref().map_or(0, |seen| seen.at_ms);
        let is_old = at_ms(&after).saturating_sub(at_ms(&before)) >= SEEN_AGAIN_MS;
        if of(&before) == of(&after) && !is_old {
            // The recorded time stays, so that the next report is compared with it.
            part.seen = before.seen.clone().filter(|seen| seen.at_ms >= before.promised_ms).or(after.seen);
            return None;
        }
        Some(after)
    }
}

fn seen_at(found: Option<PartFound>, at_ms: i64) -> PartSeen {
    PartSeen { at_ms, ..found.map(|found| found.seen).unwrap_or_default() }
}
