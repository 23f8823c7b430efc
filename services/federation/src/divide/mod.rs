//! Divides the tasks of federated jobs among cells, and tells each cell its part.
//!
//! What a cell is to have is recorded before the cell hears of it. A visit then makes the cell have it. It says the
//! same each time until the cell has taken it, so a crash at any point leaves only a visit to repeat. Each change is
//! made for the job that the visit has seen: one of an earlier leader is refused by the cell, and has no effect.
//!
//! One visit of each cell and one question for room of each job are under way at most. So a slow cell delays only what
//! concerns it.

mod call;
mod cells;
mod failover;
mod led;
mod question;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use borough_model::federation::{FederatedPart, FederatedState, FederationWatch};
use borough_model::member::MemberSeen;
use borough_model::{FederatedJobId, Name};
use borough_store::StoreResult;
use borough_store::federated::{FederatedChange, federated_record, federated_stopped, federated_version};
use borough_store::lease::LeaseWriter;
use futures::StreamExt as _;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use tokio::sync::watch;

use self::call::{CellCaller, Visited};
use self::cells::MemberCells;
use self::failover::RecordedHolds;
use self::led::{CellRooms, LedJob, LedJobs, Promised, RETRIES_SOON_MAX, RETRY, RETRY_SOON, RoomAsk, Rooms};
use self::question::Questions;
use crate::lead::Federation;
use crate::look::MemberGateways;

/// Each cell is visited so often, also when nothing is to be said.
const VISIT_INTERVAL: Duration = Duration::from_secs(5);
/// A cell that did not answer is visited again after so long.
const VISIT_AGAIN: Duration = Duration::from_secs(1);
/// Jobs that one transaction records.
const RECORD_JOBS: usize = 32;

/// What a round of looks has brought, for the division.
#[derive(Clone, Default)]
pub(crate) struct LookedMembers {
    /// When the round began, by the monotonic clock; absent: there was none yet.
    pub(crate) begun: Option<Duration>,
    pub(crate) seen: Arc<BTreeMap<Name, MemberSeen>>,
    pub(crate) gateways: BTreeMap<Name, MemberGateways>,
}

/// What is under way.
enum DivisionFlight {
    Visit(Visited),
    Ask {
        job: FederatedJobId,
        revision: u64,
        rooms: Rooms,
    },
    /// Of a job that its owner has only asked about.
    Question {
        id: FederatedJobId,
        planned: Box<LedJob>,
        rooms: Rooms,
    },
}

/// The division of one term.
struct Division<'f> {
    federation: &'f Federation,
    writer: &'f LeaseWriter,
    looked: LookedMembers,
    cells: MemberCells,
    led: LedJobs,
    promised: Promised,
    /// The looks of this term, for failovers.
    watch: FederationWatch,
    holds: BTreeMap<FederatedJobId, RecordedHolds>,
    /// Since when a cell is heard, by the monotonic clock.
    heard_since: BTreeMap<Name, Duration>,
    /// Cells that are being visited.
    visiting: BTreeSet<Name>,
    /// When a cell is visited next, by the monotonic clock.
    visit_at: BTreeMap<Name, Duration>,
    flights: FuturesUnordered<BoxFuture<'static, DivisionFlight>>,
    questions: Questions,
}

impl Federation {
    /// Divides the federated jobs again and again.
    pub(crate) async fn divide(
        &self,
        writer: &LeaseWriter,
        mut looked: watch::Receiver<LookedMembers>,
    ) -> StoreResult<Infallible> {
        let promised = Promised::load(&self.db, &self.config.space).await?;
        let mut division = Division {
            federation: self,
            writer,
            looked: LookedMembers::default(),
            cells: MemberCells::default(),
            led: LedJobs::default(),
            promised,
            watch: FederationWatch::default(),
            holds: BTreeMap::new(),
            heard_since: BTreeMap::new(),
            visiting: BTreeSet::new(),
            visit_at: BTreeMap::new(),
            flights: FuturesUnordered::new(),
            questions: Questions::default(),
        };
        loop {
            let (_, mut changes) = self.mirror.subscribe_with(|state| state.cursor());
            let now_looked = looked.borrow_and_update().clone();
            division.refresh(now_looked);
            division.failovers_begin().await?;
            division.settle_all().await?;
            division.versions_read().await?;
            division.questions_begin().await?;
            division.asks_begin();
            division.visits_begin();
            let pause = division.pause();
            tokio::select! {
                Some(flight) = division.flights.next(), if !division.flights.is_empty() => {
                    division.landed(flight).await?;
                }
                _ = changes.next() => {}
                () = division.questions.moved() => {}
                changed = looked.changed() => if changed.is_err() {
                    // The looks have ended, and this term with them.
                    std::future::pending::<()>().await;
                },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

impl Division<'_> {
    fn now(&self) -> Duration {
        self.federation.clock.monotonic()
    }

    fn now_ms(&self) -> i64 {
        self.federation.clock.wall_ms()
    }

    /// Takes over what the mirror and the looks know.
    fn refresh(&mut self, looked: LookedMembers) {
        let round = looked.begun.filter(|_| looked.begun != self.looked.begun);
        self.looked = looked;
        let (members, rows) =
            self.federation.mirror.read(|state| (state.members().clone(), state.federated_jobs().clone()));
        self.cells = MemberCells::new(members, Arc::clone(&self.looked.seen));
        self.led.refresh(&rows, &mut self.promised);
        let now = self.now();
        self.heard_since.retain(|cell, _| self.cells.is_heard(cell));
        for cell in self.cells.rows.keys().filter(|cell| self.cells.is_heard(cell)) {
            self.heard_since.entry(cell.clone()).or_insert(now);
        }
        if let Some(begun) = round {
            self.watch.round(&self.cells.looks(), millis(begun));
        }
        let open =
            self.led.jobs.values().flat_map(|job| job.parts.values()).filter(|part| !part.is_arrived());
        let metrics = &self.federation.config.metrics;
        metrics.jobs.set(i64::try_from(self.led.jobs.len()).unwrap_or(i64::MAX));
        metrics.promises_open.set(i64::try_from(open.count()).unwrap_or(i64::MAX));
    }

    /// For how long a cell has answered again, in milliseconds.
    fn heard_ms(&self, cell: &Name) -> u64 {
        let since = self.heard_since.get(cell).copied();
        since.map_or(0, |since| millis(self.now().saturating_sub(since)))
    }

    /// Until when nothing is to be done.
    fn pause(&self) -> Duration {
        let now = self.now();
        let visits = self.visit_at.iter().filter(|(cell, _)| !self.visiting.contains(*cell));
        let visits = visits.map(|(_, at)| at.saturating_sub(now));
        visits.min().unwrap_or(VISIT_INTERVAL).clamp(Duration::from_millis(20), VISIT_INTERVAL)
    }

    fn caller(&self, cell: &Name) -> Option<CellCaller> {
        let (_, client) = self.looked.gateways.get(cell)?.0.first()?;
        let home = self.federation.config.space.to_string();
        Some(CellCaller { home, cell: cell.clone(), client: client.clone() })
    }

    /// Steps that follow from what is known, without a call: what may end now, what is settled of cells that are back,
    /// and who gets the newest version next.
    async fn settle_all(&mut self) -> StoreResult<()> {
        let now_ms = self.now_ms();
        let mut changes = Vec::new();
        let mut stopped = Vec::new();
        for (id, job) in &self.led.jobs {
            let mut change = FederatedChange::default();
            if job.row.state == FederatedState::Active {
                change = job.settled(&self.cells, |cell| self.heard_ms(cell), now_ms);
            }
            let is_over = |part: &&FederatedPart| part.is_over();
            change.gone = job.parts.values().filter(is_over).map(|part| part.cell.clone()).collect();
            let is_divided = job.status.divided == job.row.revision;
            let left = job.parts.len().saturating_sub(change.gone.len());
            if job.row.state == FederatedState::Stopping && is_divided && left == 0 {
                stopped.push(Arc::clone(&job.row));
            }
            if !change.parts.is_empty() || !change.gone.is_empty() || change.status.is_some() {
                changes.push((*id, change));
            }
        }
        self.record(changes).await?;
        for row in stopped {
            let row = &row;
            let ended = self.writer.change("federated_stopped", |tx, mut changes| async move {
                federated_stopped(&tx, &mut changes, row).await?;
                Ok(((), changes))
            });
            ended.await?;
        }
        Ok(())
    }

    /// Records changes, and takes them over: no visit says what is not recorded.
    async fn record(&mut self, changes: Vec<(FederatedJobId, FederatedChange)>) -> StoreResult<()> {
        let space = &self.federation.config.space;
        for part in changes.chunks(RECORD_JOBS) {
            let known: Vec<_> = part
                .iter()
                .filter_map(|(id, change)| Some((Arc::clone(&self.led.jobs.get(id)?.row), change)))
                .collect();
            let known = &known;
            let record = |tx| async move {
                for (row, change) in known {
                    federated_record(&tx, space, row, change).await?;
                }
                Ok(())
            };
            self.writer.run("federated_record", record).await?;
        }
        for (id, change) in changes {
            let Some(job) = self.led.jobs.get_mut(&id) else { continue };
            for part in change.parts {
                if !part.is_arrived() {
                    self.visit_at.insert(part.cell.clone(), Duration::ZERO);
                }
                job.parts.insert(part.cell.clone(), part);
            }
            change.gone.iter().for_each(|cell| drop(job.parts.remove(cell)));
            job.status = change.status.unwrap_or_else(|| std::mem::take(&mut job.status));
        }
        Ok(())
    }

    /// Asks cells how much room they have for each job that has to be divided.
    fn asks_begin(&mut self) {
        let now = self.now();
        let due = self.led.jobs.values().filter(|job| job.is_due(&self.cells, now));
        let due: Vec<FederatedJobId> = due.map(|job| job.row.id).collect();
        for id in due {
            let Some(job) = self.led.jobs.get(&id) else { continue };
            let (revision, rooms) = (job.row.revision, self.rooms(job));
            let ask = async move { DivisionFlight::Ask { job: id, revision, rooms: rooms.await } };
            self.flights.push(Box::pin(ask));
            if let Some(job) = self.led.jobs.get_mut(&id) {
                (job.is_asked, job.retry_at) = (true, now.saturating_add(RETRY));
            }
        }
    }

    /// Asks the cells how much room they have for a job.
    fn rooms(&self, job: &LedJob) -> impl Future<Output = Rooms> + Send + use<> {
        let (id, asked_ms) = (job.row.id, self.now_ms());
        let asks: Vec<_> = job
            .asked(&self.cells)
            .into_iter()
            .filter_map(|RoomAsk { cell, spec, has, most }| {
                let caller = self.caller(&cell)?;
                Some(async move { (cell, caller.room(id, &spec, has, most).await) })
            })
            .collect();
        async move {
            let by_cell: CellRooms = join_all(asks).await.into_iter().collect();
            Rooms { by_cell, asked_ms }
        }
    }

    /// Reads the versions that are assigned to cells and are not known yet: without them no visit can say what a cell
    /// is to have.
    async fn versions_read(&mut self) -> StoreResult<()> {
        let space = &self.federation.config.space;
        let missing = |(id, job): (&FederatedJobId, &LedJob)| {
            let id = *id;
            job.versions_missing().into_iter().map(move |version| (id, version)).collect::<Vec<_>>()
        };
        let missing: Vec<_> = self.led.jobs.iter().flat_map(missing).collect();
        for (id, version) in missing {
            let read = |tx| async move { federated_version(&tx, space, id, version).await };
            let found = self.writer.run("federated_version", read).await?;
            if let (Some(found), Some(job)) = (found, self.led.jobs.get_mut(&id)) {
                job.version_put(version, found.spec);
            }
        }
        Ok(())
    }

    /// Visits each cell that has something to hear, or was not visited for a while.
    fn visits_begin(&mut self) {
        let now = self.now();
        let cells: Vec<Name> = self.cells.rows.keys().cloned().collect();
        for cell in cells {
            let is_due = self.visit_at.get(&cell).is_none_or(|at| *at <= now);
            if !is_due || self.visiting.contains(&cell) || !self.cells.is_heard(&cell) {
                continue;
            }
            let parts: Vec<_> = self.led.jobs.values().filter_map(|job| job.told(&cell)).collect();
            let Some(caller) = self.caller(&cell) else { continue };
            self.visit_at.insert(cell.clone(), now.saturating_add(VISIT_INTERVAL));
            self.visiting.insert(cell);
            self.flights.push(Box::pin(async move { DivisionFlight::Visit(caller.visit(parts).await) }));
        }
    }

    async fn landed(&mut self, flight: DivisionFlight) -> StoreResult<()> {
        match flight {
            DivisionFlight::Visit(visited) => self.visited(visited).await,
            DivisionFlight::Question { id, planned, rooms } => {
                self.question_answer(id, &planned, &rooms).await
            }
            DivisionFlight::Ask { job: id, revision, rooms } => {
                let now_ms = self.now_ms();
                let Some(job) = self.led.jobs.get_mut(&id) else { return Ok(()) };
                job.is_asked = false;
                // Its owner has changed it meanwhile: it is asked for again.
                if job.row.revision != revision {
                    return Ok(());
                }
                let Some(job) = self.led.jobs.get(&id) else { return Ok(()) };
                let change = self.led.divided(job, &self.cells, &rooms, now_ms);
                self.record(vec![(id, change)]).await?;
                self.retry_soon(id, &rooms);
                Ok(())
            }
        }
    }

    /// Has a job divided again soon if its tasks may only lack what was promised to others, or the answer of a cell.
    fn retry_soon(&mut self, id: FederatedJobId, rooms: &Rooms) {
        let now = self.now();
        let Some(job) = self.led.jobs.get(&id) else { return };
        let is_short = job.is_short(&self.cells);
        let is_passing = is_short
            && job.retries_soon < RETRIES_SOON_MAX
            && (rooms.by_cell.values().any(Option::is_none)
                || self.led.is_room_deducted(job, rooms.asked_ms));
        let Some(job) = self.led.jobs.get_mut(&id) else { return };
        if !is_short {
            job.retries_soon = 0;
        } else if is_passing {
            job.retries_soon = job.retries_soon.saturating_add(1);
            job.retry_at = now.saturating_add(RETRY_SOON);
        }
    }

    /// Takes over what a visit has found.
    async fn visited(&mut self, visited: Visited) -> StoreResult<()> {
        let (now, now_ms) = (self.now(), self.now_ms());
        let Visited { cell, parts, strays } = visited;
        self.visiting.remove(&cell);
        let Some(parts) = parts else {
            self.visit_at.insert(cell, now.saturating_add(VISIT_AGAIN));
            return Ok(());
        };
        let mut changes = Vec::new();
        let mut is_open = false;
        for visited in parts {
            let id = visited.job;
            let Some(job) = self.led.jobs.get_mut(&id) else { continue };
            let changed = job.visited(&cell, visited, now_ms);
            is_open |=
                job.parts.get(&cell).is_some_and(|part| !part.is_arrived() || part.healthy() < part.target);
            if let Some(part) = changed {
                changes.push((id, FederatedChange { parts: vec![part], ..FederatedChange::default() }));
            }
        }
        for id in strays {
            // A part that nobody promised, such as one that a former leader has asked for too late: it is taken back.
            let Some(job) = self.led.jobs.get(&id).filter(|job| !job.parts.contains_key(&cell)) else {
                continue;
            };
            let part = FederatedPart::unwanted(cell.clone(), job.row.version, now_ms);
            changes.push((id, FederatedChange { parts: vec![part], ..FederatedChange::default() }));
            is_open = true;
        }
        let pause = if is_open { VISIT_AGAIN } else { VISIT_INTERVAL };
        self.visit_at.insert(cell, now.saturating_add(pause));
        self.record(changes).await
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
