//! What a leader knows of the federated jobs: their rows, what was promised to cells, and how each was last divided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use borough_kv::Database;
use borough_model::federation::{
    CellFacts, CellRelease, CellRoom, FederatedJob, FederatedJobRow, FederatedPart, FederatedState,
    FederatedStatus, PartProblem, PartRollout, PartSeen, PromisedPart, ReleaseAction, ReleasePhase,
    ReleaseState, ReleaseWait, SettleOutcome, Split, SplitPolicy, VersionAssignment, cell_facts,
    part_release, parts_lowered, parts_promised, release_step, room_deducted, settle_step, settlement_apply,
    settlement_of, split,
};
use borough_model::{FederatedJobId, Name, Resources};
use borough_store::federated::{FederatedChange, federated_parts_each, federated_statuses_each};
use borough_store::{CellSpace, StoreResult};

use super::call::{PartFound, PartNotice, PartVisited};
use super::cells::MemberCells;
use super::words::{reasons_grouped, wait_words};

/// A report that says the same as before is recorded after so long, so that its age stays true.
const SEEN_AGAIN_MS: i64 = 30_000;
/// Tasks without a cell are divided again after so long.
pub(super) const RETRY: Duration = Duration::from_secs(15);
/// How often at most, until nothing is short.
pub(super) const RETRIES_SOON_MAX: u32 = 10;
/// After so long, if they may only lack what was promised to others: a cell is asked for no more than a job wants.
pub(super) const RETRY_SOON: Duration = Duration::from_secs(2);
/// Steps of a release that are taken together: more than a release has stages.
const RELEASE_STEPS_MAX: usize = 64;

/// One federated job.
#[derive(Clone)]
pub(super) struct LedJob {
    pub(super) row: Arc<FederatedJobRow>,
    pub(super) parts: BTreeMap<Name, FederatedPart>,
    pub(super) status: FederatedStatus,
    /// Cells are being asked for room.
    pub(super) is_asked: bool,
    /// Not before then, by the monotonic clock, is it divided again for tasks without a cell.
    pub(super) retry_at: Duration,
    /// How often it was divided again soon.
    pub(super) retries_soon: u32,
    /// Versions that are assigned to parts, and the newest, with the revision of the row that it is from.
    versions: BTreeMap<u64, Arc<FederatedJob>>,
    newest_of: u64,
}

/// What a cell is asked about its room for a job.
pub(super) struct RoomAsk {
    pub(super) cell: Name,
    pub(super) spec: Arc<FederatedJob>,
    /// Tasks that it has.
    pub(super) has: u32,
    /// How many more could be wanted of it.
    pub(super) most: u32,
}

/// What the federated jobs have of a cell.
#[derive(Default)]
struct CellLoad<'l> {
    /// Amounts of tasks that were promised and are not seen there yet, each with the number of tasks.
    promised: Vec<(&'l Resources, u32)>,
    /// The jobs of one user that have tasks there.
    jobs: BTreeSet<Name>,
}

/// All federated jobs, by id.
#[derive(Default)]
pub(super) struct LedJobs {
    pub(super) jobs: BTreeMap<FederatedJobId, LedJob>,
}

impl LedJobs {
    /// Takes over the rows as they are now. A job that is gone is forgotten.
    pub(super) fn refresh(
        &mut self,
        rows: &BTreeMap<(Name, Name), Arc<FederatedJobRow>>,
        promised: &mut Promised,
    ) {
        let ids: BTreeSet<FederatedJobId> = rows.values().map(|row| row.id).collect();
        self.jobs.retain(|id, _| ids.contains(id));
        for row in rows.values() {
            let job = self.jobs.entry(row.id).or_insert_with(|| LedJob {
                parts: promised.parts.remove(&row.id).unwrap_or_default(),
                status: promised.statuses.remove(&row.id).unwrap_or_default(),
                ..LedJob::of(row)
            });
            job.row_set(row);
        }
    }

    /// The ids of the jobs by user and name.
    pub(super) fn ids(&self) -> BTreeMap<(Name, Name), FederatedJobId> {
        let key = |row: &FederatedJobRow| (row.user().clone(), row.name().clone());
        self.jobs.values().map(|job| (key(&job.row), job.row.id)).collect()
    }

    /// What the jobs other than `job` have of each cell. What was promised since `asked_ms`, or has not been seen since
    /// it arrived, counts as promised.
    fn loads(&self, job: &LedJob, asked_ms: i64) -> BTreeMap<&Name, CellLoad<'_>> {
        let mut loads: BTreeMap<&Name, CellLoad<'_>> = BTreeMap::new();
        for other in self.jobs.values().filter(|other| other.row.id != job.row.id) {
            let is_of_user = other.row.user() == job.row.user();
            for (cell, part) in &other.parts {
                let load = loads.entry(cell).or_default();
                if is_of_user && part.count > 0 {
                    load.jobs.insert(other.row.name().clone());
                }
                let seen = part.seen.as_ref();
                let is_open = !part.is_arrived()
                    || part.promised_ms >= asked_ms
                    || seen.is_none_or(|seen| seen.at_ms < part.promised_ms);
                if is_open {
                    let there = seen.map_or(0, |seen| seen.running);
                    let open = part.count.saturating_sub(there);
                    load.promised.push((&other.row.spec.job.task.resources, open));
                }
            }
        }
        loads
    }

    /// Whether anything was taken off the room of a job for what was promised to others. Once that has arrived, it
    /// counts no more.
    pub(super) fn is_room_deducted(&self, job: &LedJob, asked_ms: i64) -> bool {
        let loads = self.loads(job, asked_ms);
        loads.values().flat_map(|load| &load.promised).any(|(_, tasks)| *tasks > 0)
    }

    /// What is known of each cell for a job that asked for room. What was promised to others is taken off.
    fn facts(&self, job: &LedJob, cells: &MemberCells, rooms: &Rooms) -> Vec<CellFacts> {
        let amounts = &job.row.spec.job.task.resources;
        let mut loads = self.loads(job, rooms.asked_ms);
        let facts = cells.rows.values().map(|member| {
            let CellLoad { promised, jobs } = loads.remove(&member.cell).unwrap_or_default();
            let room = rooms.by_cell.get(&member.cell).copied().flatten();
            let room = room.map(|room| match room {
                CellRoom::Tasks(tasks) => {
                    CellRoom::Tasks(room_deducted(tasks, amounts, promised.into_iter()))
                }
                CellRoom::NameTaken => CellRoom::NameTaken,
            });
            cell_facts(member, cells.seen.get(&member.cell), job.parts.get(&member.cell), room, jobs)
        });
        facts.collect()
    }

    /// The parts of active jobs whose cells do not answer. A duplicate has no other place.
    pub(super) fn silent_parts(&self, cells: &MemberCells) -> Vec<PromisedPart> {
        let active = self.jobs.values().filter(|job| {
            let is_whole = job.row.spec.federation.split == SplitPolicy::Duplicate;
            job.row.state == FederatedState::Active && !is_whole
        });
        let silent = active.flat_map(|job| {
            let parts = job
                .parts
                .values()
                .filter(|part| part.count > 0 && !part.is_finished() && !cells.is_heard(&part.cell));
            parts.map(|part| PromisedPart {
                user: job.row.user().clone(),
                job: job.row.name().clone(),
                cell: part.cell.clone(),
                count: part.count,
                failover_after: job.row.spec.federation.failover_after,
                failed_over: part.failed_over_ms.is_some(),
            })
        });
        silent.collect()
    }

    /// Divides a job, and returns what that changes.
    pub(super) fn divided(
        &self,
        job: &LedJob,
        cells: &MemberCells,
        rooms: &Rooms,
        now_ms: i64,
    ) -> FederatedChange {
        let facts = self.facts(job, cells, rooms);
        let spec = &job.row.spec;
        let count = if job.row.state == FederatedState::Active { spec.job.count } else { 0 };
        let division = split(&spec.federation, count, &facts, job.row.split_mode(job.status.rebalanced));
        let mut parts = parts_promised(&job.row, &job.parts, &division, job.version_first(), now_ms);
        // A cell that has left the federation is nobody's to tell. Its job goes on there.
        parts.retain(|part| cells.rows.contains_key(&part.cell));
        let gone = job.parts.keys().filter(|cell| !cells.rows.contains_key(*cell)).cloned().collect();
        let status = status_of(job, &division, cells.mark, now_ms);
        FederatedChange { parts, gone, status: Some(status) }
    }
}

/// How many more tasks each cell would place; absent: it could not be asked.
pub(super) type CellRooms = BTreeMap<Name, Option<CellRoom>>;

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

impl Promised {
    /// Reads it, in transactions of a bounded size.
    pub(super) async fn load(db: &Database, space: &CellSpace) -> StoreResult<Self> {
        let mut promised = Self::default();
        federated_parts_each(db, space, |job, part| {
            promised.parts.entry(job).or_default().insert(part.cell.clone(), part);
        })
        .await?;
        federated_statuses_each(db, space, |job, status| drop(promised.statuses.insert(job, status))).await?;
        Ok(promised)
    }
}

fn status_of(job: &LedJob, division: &Split, members_mark: u64, at_ms: i64) -> FederatedStatus {
    let words = division.cells.iter().map(|verdict| (verdict.reason.to_string(), &verdict.cell));
    FederatedStatus {
        divided: job.row.revision,
        members_mark,
        at_ms,
        unplaced: division.unplaced,
        shortfall: division.shortfall.as_ref().map(ToString::to_string),
        reasons: reasons_grouped(words),
        rebalanced: job.row.rebalance.map_or(0, |order| order.number),
        ..job.status.clone()
    }
}

impl LedJob {
    /// A job of which nothing was promised yet.
    pub(super) fn of(row: &Arc<FederatedJobRow>) -> Self {
        Self {
            row: Arc::clone(row),
            parts: BTreeMap::new(),
            status: FederatedStatus::default(),
            is_asked: false,
            retry_at: Duration::ZERO,
            retries_soon: 0,
            versions: [(row.version, Arc::new(row.spec.clone()))].into(),
            newest_of: row.revision,
        }
    }

    pub(super) fn row_set(&mut self, row: &Arc<FederatedJobRow>) {
        self.row = Arc::clone(row);
        if self.newest_of != row.revision {
            (self.newest_of, self.retries_soon) = (row.revision, 0);
            self.versions.insert(row.version, Arc::new(row.spec.clone()));
        }
    }

    /// Whether nothing follows without a report or an order. It is asked of each job again and again.
    fn is_quiet(&self) -> bool {
        let FederatedStatus { release, release_wait, ordered, kept, .. } = &self.status;
        let version = self.row.version;
        let is_proven = release.as_ref().is_some_and(|release| {
            release.phase == ReleasePhase::Done && release.version == version && release_wait.is_none()
        });
        let is_ordered = self.row.order.is_none_or(|order| order.number == *ordered);
        let is_quiet = |part: &FederatedPart| {
            let is_settled = part.failed_over_ms.is_none() && part.own.is_none();
            part.version == version && part.target == part.count && is_settled
        };
        is_proven && is_ordered && kept.is_none() && self.parts.values().all(is_quiet)
    }

    /// Whether its tasks have to be divided now.
    pub(super) fn is_due(&self, cells: &MemberCells, now: Duration) -> bool {
        let is_back = |part: &FederatedPart| part.failed_over_ms.is_some() && cells.is_heard(&part.cell);
        // What is back is settled before.
        let is_settling = self.row.state == FederatedState::Active && self.parts.values().any(is_back);
        if self.is_asked || self.row.state == FederatedState::Stopped || is_settling {
            return false;
        }
        let is_other = self.status.divided != self.row.revision || self.status.members_mark != cells.mark;
        let has_problem = self.parts.values().any(|part| part.problem.is_some() && !part.is_arrived());
        is_other || ((has_problem || self.is_short(cells)) && now >= self.retry_at)
    }

    /// Whether tasks have no cell, or stay in one that is to be empty.
    pub(super) fn is_short(&self, cells: &MemberCells) -> bool {
        let stays = |part: &FederatedPart| {
            let is_draining = cells.rows.get(&part.cell).is_some_and(|row| row.draining);
            is_draining && part.target > 0 && part.failed_over_ms.is_none() && !part.is_finished()
        };
        self.status.unplaced > 0 || self.parts.values().any(stays)
    }

    /// The version that a cell gets with its first tasks.
    fn version_first(&self) -> u64 {
        self.status.release.as_ref().map_or(self.row.version, ReleaseState::proven)
    }

    /// What follows from what is known, without a call.
    pub(super) fn settled(
        &self,
        cells: &MemberCells,
        heard_ms: impl Fn(&Name) -> u64,
        now_ms: i64,
    ) -> FederatedChange {
        if self.is_quiet() {
            return FederatedChange::default();
        }
        let heard = |cell: &Name| cells.is_heard(cell);
        let mut status = self.status.clone();
        let settlement = settlement_of(&self.row, &self.parts, status.kept, heard, heard_ms, now_ms);
        let mut parts = match settlement {
            Some(settlement) => {
                let step = settle_step(&settlement);
                let is_settled = step.outcome == SettleOutcome::Settled;
                status.kept = (!is_settled).then_some(step.kept);
                if is_settled {
                    status.divided = 0;
                }
                settlement_apply(&self.parts, &step, now_ms)
            }
            None => parts_lowered(&self.parts, heard, now_ms),
        };
        if parts.is_empty() {
            parts = self.released(cells, &mut status, now_ms);
        }
        let status = (status != self.status).then_some(status);
        FederatedChange { parts, gone: Vec::new(), status }
    }

    /// Takes the steps of the release that can be taken now.
    fn released(&self, cells: &MemberCells, status: &mut FederatedStatus, now_ms: i64) -> Vec<FederatedPart> {
        let mut release = status.release.clone().unwrap_or_else(|| ReleaseState::first(self.row.version));
        if let Ok(newer) = release.superseded_by(self.row.version) {
            release = newer;
        }
        if let Some(order) = self.row.order.filter(|order| order.number > status.ordered) {
            // The gateway has checked it. What has changed since makes it void.
            if let Err(void) = order.kind.apply(&mut release) {
                tracing::info!(job = %self.row.id, %void, "an order of a release is void by now");
            }
            status.ordered = order.number;
        }
        let mut parts = self.parts.clone();
        let no_labels = BTreeMap::new();
        // Each step but a wait has a next one: a stage that begins, or cells that are assigned a version.
        for _ in 0..RELEASE_STEPS_MAX {
            let facts: Vec<CellRelease> = parts
                .values()
                .map(|part| {
                    let labels = cells.rows.get(&part.cell).map_or(&no_labels, |row| &row.labels);
                    part_release(part, labels, cells.reach(&part.cell, now_ms))
                })
                .collect();
            let step = release_step(&self.row.spec.federation.rollout, &release, &facts, now_ms);
            release = step.state;
            match step.action {
                ReleaseAction::Assign(assigned) => {
                    for VersionAssignment { cell, version } in assigned {
                        if let Some(part) = parts.get_mut(&cell) {
                            part.promise(part.count, part.target, version, now_ms);
                        }
                    }
                }
                ReleaseAction::Wait { reason, .. } => {
                    let is_over = reason == ReleaseWait::Over;
                    status.release_wait = (!is_over).then(|| wait_words(&reason, &self.row));
                    break;
                }
                _ => {}
            }
        }
        status.release = Some(release);
        parts.into_values().filter(|part| self.parts.get(&part.cell) != Some(part)).collect()
    }

    /// The cells to ask for room.
    pub(super) fn asked(&self, cells: &MemberCells) -> Vec<RoomAsk> {
        if self.row.state != FederatedState::Active {
            return Vec::new();
        }
        let (spec, count) = (&self.row.spec.federation, self.row.spec.job.count);
        let open =
            cells.rows.values().filter(|row| !row.cordoned && !row.draining && cells.is_heard(&row.cell));
        let ask = open.filter_map(|row| {
            let part = self.parts.get(&row.cell).filter(|part| part.count > 0);
            let has = part.map_or(0, |part| part.count);
            let most = spec.max_of(&row.cell).unwrap_or(u32::MAX).min(count).saturating_sub(has);
            let spec = self.version(part.map_or(self.row.version, |part| part.version))?;
            Some(RoomAsk { cell: row.cell.clone(), spec, has, most })
        });
        ask.collect()
    }

    /// What a visit tells the cell of it. `None`: it is no cell of the job.
    pub(super) fn told(&self, cell: &Name) -> Option<PartNotice> {
        let part = self.parts.get(cell)?.clone();
        let spec = self.version(part.version)?;
        Some(PartNotice { job: Arc::clone(&self.row), part, spec })
    }

    /// A version, if it is known here. A part that never had tasks has none.
    fn version(&self, version: u64) -> Option<Arc<FederatedJob>> {
        let version = if version == 0 { self.row.version } else { version };
        self.versions.get(&version).cloned()
    }

    /// The versions that are assigned to a cell and are not known here.
    pub(super) fn versions_missing(&self) -> BTreeSet<u64> {
        let assigned = self.parts.values().map(|part| part.version);
        assigned.filter(|version| *version > 0 && !self.versions.contains_key(version)).collect()
    }

    /// Takes over a version. Those that no cell has any more are forgotten.
    pub(super) fn version_put(&mut self, version: u64, spec: FederatedJob) {
        let newest = self.row.version;
        let parts = &self.parts;
        self.versions
            .retain(|known, _| *known == newest || parts.values().any(|part| part.version == *known));
        self.versions.insert(version, Arc::new(spec));
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
                if found.as_ref().is_some_and(|found| found.is_submitted) {
                    part.admitted_version = visited.version;
                }
                part_found(part, found, now_ms);
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

/// Takes over what a visit has found. What the cell admitted stays known. So a version that the cell has taken back
/// since differs from one that it was ordered back to.
fn part_found(part: &mut FederatedPart, found: Option<PartFound>, at_ms: i64) {
    let Some(found) = found else {
        // The cell has forgotten what has ended, and the federation has not.
        if part.is_finished() && part.count > 0 && part.is_arrived() {
            return;
        }
        part.admitted = None;
        part.seen = Some(PartSeen { at_ms, ..PartSeen::default() });
        return;
    };
    let admitted = part.admitted.as_ref();
    let is_taken_back =
        admitted.is_some_and(|admitted| admitted.is_taken_back(&found.admitted, found.reverts));
    let mut seen = PartSeen { at_ms, ..found.seen };
    if is_taken_back && !found.is_submitted {
        seen.rollout = PartRollout::Failed;
    } else {
        part.admitted = Some(found.admitted);
    }
    part.seen = Some(seen);
}
