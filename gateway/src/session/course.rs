//! The course of one session: reports into the store, changed rows to the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use borough_model::node::{NodeState, pressure_of};
use borough_model::task::Health;
use borough_model::{Incarnation, Name, TaskId, TaskRow, TaskState};
use borough_proto::bounds::{REPORT_TASKS_MAX, SESSION_LIVES_MAX};
use borough_proto::convert::measured_from_message;
use borough_proto::v1;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_proto::v1::task_status::Phase;
use borough_store::error_chain;
use borough_store::journal::Cursor;
use borough_store::mirror::MirrorState;
use borough_store::task::{ReportAnswer, ReportPhase, TaskReport};
use tokio::sync::mpsc;
use tonic::Status;

use super::arrive::NodeNotes;
use super::delivery::{ACKNOWLEDGE_MAX, Delivery};
use super::desired::{Command, Life, commands_full, life_command, lives_missing};
use super::message::{MirrorRows, notes_of, report_missing, report_of};
use super::metrics::EndKind;
use super::registry::Session;
use super::tally::Tally;
use super::write::NotWritten;
use crate::cell::CellDoor;

/// Between two looks at whether the agent still acknowledges what it is sent.
const STALL_LOOK: Duration = Duration::from_secs(5);

/// What is known of one session's agent.
pub struct Course {
    door: Arc<CellDoor>,
    session: Arc<Session>,
    name: Name,
    /// Everything up to here must be in the mirror before the agent is told anything.
    begin: Cursor,
    /// Lives the agent has, with the phase it last reported.
    reported: BTreeMap<Life, Phase>,
    /// What the store has taken of them.
    applied: BTreeMap<Life, Said>,
    /// What is on its way to the agent.
    delivery: Delivery,
    /// What the agent last said of its machine.
    notes: NodeNotes,
}

/// What was said of a life that has not exited.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    phase: ReportPhase,
    process: Option<(u32, i64)>,
    health: Health,
}

impl Said {
    fn of(report: &TaskReport) -> Option<Self> {
        let TaskReport { phase, process, health, .. } = *report;
        (report.exit.is_none() && phase.is_alive()).then_some(Self { phase, process, health })
    }
}

/// First and last life a task can have.
fn all_lives(task: TaskId) -> RangeInclusive<Life> {
    let life = |incarnation| Life { task, incarnation: Incarnation(incarnation) };
    life(0)..=life(u64::MAX)
}

impl Drop for Course {
    fn drop(&mut self) {
        self.reported_clear();
    }
}

impl Course {
    /// The course of a session that began at `begin`.
    pub fn new(door: Arc<CellDoor>, session: Arc<Session>, name: Name, begin: Cursor) -> Self {
        Self {
            door,
            session,
            name,
            begin,
            reported: BTreeMap::new(),
            applied: BTreeMap::new(),
            delivery: Delivery::default(),
            notes: NodeNotes::default(),
        }
    }

    /// Follows reports, acknowledgements and notices until the session ends. Nothing is said before the full report is
    /// durable.
    pub async fn run(mut self, mut reports: mpsc::Receiver<v1::Report>) {
        if self.begin_wait(&mut reports).await.is_none() {
            return;
        }
        // What changes after this is noticed again.
        self.session.notices.take();
        self.full_tell();
        let mut acknowledged = self.session.acknowledged();
        while self.deliver().await.is_some() {
            let session = Arc::clone(&self.session);
            let going = tokio::select! {
                report = reports.recv() => match report {
                    Some(report) => self.report(report).await,
                    None => None,
                },
                changed = acknowledged.changed() => match changed {
                    Ok(()) => {
                        let sequence = *acknowledged.borrow_and_update();
                        self.acknowledged(sequence).await
                    }
                    Err(_) => None,
                },
                noticed = session.notices.next() => {
                    match noticed.all {
                        true => self.full_tell(),
                        false => self.changed(noticed.tasks),
                    }
                    Some(())
                }
                () = tokio::time::sleep(STALL_LOOK), if self.delivery.waiting(Duration::ZERO).is_some() => {
                    self.stall_look()
                }
            };
            if going.is_none() {
                return;
            }
        }
    }

    /// Takes the full report in, to its end.
    async fn begin_wait(&mut self, reports: &mut mpsc::Receiver<v1::Report>) -> Option<()> {
        let mut first = reports.recv().await?;
        if let Err(error) = self.door.mirror.wait_for(self.begin).await {
            tracing::warn!(node = %self.name, error = %error_chain(&error), "session could not begin");
            return None;
        }
        if !first.full_begin {
            let why = "the agent's first report does not begin its full report";
            self.session.end(EndKind::Protocol, Status::aborted(why));
            return None;
        }
        loop {
            let ended = first.full_end;
            self.report(first).await?;
            if ended {
                return Some(());
            }
            first = reports.recv().await?;
        }
    }

    /// Applies a report and answers it. `None` where the session is over.
    async fn report(&mut self, report: v1::Report) -> Option<()> {
        let node = self.session.node;
        let mut items: Vec<(Life, Phase, TaskReport)> = Vec::with_capacity(report.tasks.len());
        let mut left_out = Tally::default();
        for status in &report.tasks {
            match report_of(status, node) {
                Ok(item) => items.push(item),
                Err(refused) => left_out.note(|| refused.to_string()),
            }
        }
        if let Some((count, first)) = left_out.told() {
            tracing::warn!(node = %self.name, count, first, "statuses of a report were left out");
        }
        if report.full_begin {
            self.reported_clear();
        }
        self.reported.extend(items.iter().map(|(life, phase, _)| (*life, *phase)));
        if self.reported.len() > SESSION_LIVES_MAX {
            let why = format!("the agent has more attempts than its bound: at most {SESSION_LIVES_MAX}");
            self.session.end(EndKind::Protocol, Status::aborted(why));
            return None;
        }
        self.door.sessions.holders.hold(&self.session, items.iter().map(|(life, ..)| life.task));
        // What the store has taken already is not written again: most statuses only bring a sample of usage.
        items.retain(|(life, _, report)| {
            self.applied.get(life).is_none_or(|applied| Said::of(report).as_ref() != Some(applied))
        });
        self.store(items.into_iter().map(|(life, _, report)| (life, report)).collect()).await?;
        if report.full_end {
            let missing: Vec<_> =
                self.missing().into_iter().map(|life| (life, report_missing(life))).collect();
            for chunk in missing.chunks(REPORT_TASKS_MAX) {
                self.store(chunk.to_vec()).await?;
            }
        }
        self.load_noted(&report);
        self.noted(&report).await?;
        self.session.report_applied(report.revision);
        self.worked();
        self.say(ToAgent::ReportApplied(v1::ReportApplied { revision: report.revision })).await?;
        // A node takes tasks again once its agent has taken in all that it is to run, and not before.
        if self.delivery.is_complete() { self.recovered().await } else { Some(()) }
    }

    /// Has reports of single lives written, and takes in what the store makes of them.
    async fn store(&mut self, items: Vec<(Life, TaskReport)>) -> Option<()> {
        if items.is_empty() {
            return Some(());
        }
        let (lives, reports): (Vec<Life>, Vec<TaskReport>) = items.into_iter().unzip();
        let said: Vec<Option<Said>> = reports.iter().map(Said::of).collect();
        let applied = self.written(self.door.reports.apply(self.session.fence(), reports).await?)?;
        self.door.mirror.wait_for(applied.cursor).await.ok()?;
        for ((life, said), answer) in lives.iter().zip(said).zip(&applied.answers) {
            match said.filter(|_| *answer == ReportAnswer::Applied) {
                Some(said) => drop(self.applied.insert(*life, said)),
                None => drop(self.applied.remove(life)),
            }
        }
        self.answer(&lives, &applied.answers);
        Some(())
    }

    /// The agent has applied chunks. `None` where it says so of what was not sent.
    async fn acknowledged(&mut self, sequence: u64) -> Option<()> {
        let before = self.delivery.is_complete();
        if let Err(error) = self.delivery.acknowledged(sequence) {
            self.session.end(EndKind::Protocol, Status::aborted(error.to_string()));
            return None;
        }
        self.worked();
        if !before && self.delivery.is_complete() { self.recovered().await } else { Some(()) }
    }

    /// Notes that the session does its work, which is what keeps the node's lease alive: see
    /// [`lease_counts`](super::failure::lease_counts).
    fn worked(&self) {
        let now = self.door.machine.monotonic();
        if self.session.worked(now, self.delivery.is_complete()) {
            self.door.sessions.failures.progress(self.session.node);
        }
    }

    /// Ends a session whose agent takes nothing in.
    fn stall_look(&self) -> Option<()> {
        let waiting = self.delivery.waiting(self.door.machine.monotonic())?;
        if waiting < ACKNOWLEDGE_MAX {
            return Some(());
        }
        let seconds = waiting.as_secs();
        let why = format!("the agent has not acknowledged what it is to run for {seconds} s");
        self.session.end(EndKind::Stalled, Status::aborted(why));
        None
    }

    /// Sends what waits, as far as the agent's credit goes.
    async fn deliver(&mut self) -> Option<()> {
        loop {
            let now = self.door.machine.monotonic();
            let (delivery, cell) = (&mut self.delivery, self.door.name.as_str());
            let chunk = self.door.mirror.read(|state| delivery.next(&MirrorRows { state, cell }, now));
            let Some(chunk) = chunk else { return Some(()) };
            for (life, bytes) in &chunk.set_aside {
                self.door.sessions.metrics.set_aside(&self.door.name);
                tracing::error!(node = %self.name, ?life, bytes, "too long for any message: set aside");
            }
            self.forgotten(&chunk.forgotten);
            if chunk.message.sequence > 0 {
                self.say(ToAgent::Desired(chunk.message)).await?;
            }
        }
    }

    /// Forgets lives that the agent is told to forget.
    fn forgotten(&mut self, lives: &[Life]) {
        for life in lives {
            self.reported.remove(life);
            self.applied.remove(life);
            if self.reported.range(all_lives(life.task)).next().is_none() {
                self.door.sessions.holders.release(&self.session, [life.task]);
            }
        }
    }

    /// Writes what the agent says of its machine where the node's row does not say so. What could not be written is
    /// tried again with the next report.
    async fn noted(&mut self, report: &v1::Report) -> Option<()> {
        let NodeNotes { short_of, packages } = notes_of(report);
        self.notes.short_of = short_of.or_else(|| self.notes.short_of.take());
        self.notes.packages = packages.or_else(|| self.notes.packages.take());
        let (node, notes) = (self.session.node, &self.notes);
        let known = self.door.mirror.read(|state| {
            let row = state.nodes().get(&node)?;
            let short_of = notes.short_of.as_ref();
            let packages = notes.packages.as_ref().is_none_or(|packages| *packages == row.packages);
            Some(packages && short_of.is_none_or(|short_of| *short_of == pressure_of(&row.taints)))
        });
        if known.unwrap_or(true) {
            return Some(());
        }
        let noted = self.door.arrivals.noted(self.session.fence(), notes.clone()).await?;
        self.written_or_later(noted, "what the agent notes waits")
    }

    /// What was written. `None`, with the reason to the agent, where the session is over by that.
    fn written<T>(&self, written: Result<T, NotWritten>) -> Option<T> {
        let not_written = match written {
            Ok(value) => return Some(value),
            Err(not_written) => not_written,
        };
        tracing::warn!(node = %self.name, session = self.session.id, reason = %not_written, "session ended");
        self.session.end(not_written.kind(), not_written.status());
        None
    }

    /// The same, where what the store does not take now is tried again with the next report.
    fn written_or_later(&self, written: Result<(), NotWritten>, waits: &'static str) -> Option<()> {
        match written {
            Err(later @ NotWritten::Later(_)) => {
                tracing::warn!(node = %self.name, reason = %later, waits);
                Some(())
            }
            written => self.written(written),
        }
    }

    /// Has the load written that an agent tells, where it is not known like that. A first report without one takes away what
    /// the sessions before have told: a load is that of the session, and as fresh as the node's lease.
    fn load_noted(&self, report: &v1::Report) {
        let told = match &report.load {
            Some(told) => told.load.as_ref().map(measured_from_message),
            None if report.full_begin => None,
            None => return,
        };
        let node = self.session.node;
        let known = self.door.mirror.read(|state| state.loads().get(&node).and_then(|load| load.measured));
        if told != known {
            self.session.load_note(told);
        }
    }

    /// What the store's answers mean for the agent.
    fn answer(&mut self, lives: &[Life], answers: &[ReportAnswer]) {
        let (mut contradicting, mut parked) = (Tally::default(), Tally::default());
        for (life, answer) in lives.iter().zip(answers) {
            match answer {
                ReportAnswer::Stop => {
                    let reason = borough_model::task::StopReason::Restart;
                    let stop = Command::Stop { reason, drain: false, notice_max_ms: None };
                    self.delivery.command(*life, stop);
                }
                ReportAnswer::Forget => self.delivery.command(*life, Command::Forget),
                ReportAnswer::Refused(refused) => contradicting.note(|| format!("{life:?}: {refused}")),
                ReportAnswer::Park => parked.note(|| format!("{life:?}")),
                ReportAnswer::Applied => {}
            }
        }
        if let Some((count, first)) = contradicting.told() {
            tracing::warn!(node = %self.name, count, first, "reports contradict the store");
        }
        if let Some((count, first)) = parked.told() {
            tracing::warn!(node = %self.name, count, first, "lives that the store does not know are parked");
        }
    }

    fn missing(&self) -> Vec<Life> {
        let sent: BTreeSet<Life> = self.delivery.told().collect();
        self.door.mirror.read(|state| {
            let rows = state.node_tasks(self.session.node).map(|row| &**row);
            lives_missing(rows, &self.reported, &sent)
        })
    }

    /// Forgets what was reported: a full report follows, or nothing more.
    fn reported_clear(&mut self) {
        let tasks = self.reported.keys().map(|life| life.task);
        self.door.sessions.holders.release(&self.session, tasks);
        self.reported.clear();
        self.applied.clear();
    }

    /// Has everything sent.
    fn full_tell(&mut self) {
        let (node, reported) = (self.session.node, &self.reported);
        let commands = self.door.mirror.read(|state| {
            let rows = state.node_tasks(node).map(|row| &**row);
            commands_full(node, rows, reported, |task| state.tasks().get(&task).map(|row| &**row))
        });
        self.delivery.full(commands);
    }

    /// Has what follows from the rows of tasks that have changed sent.
    fn changed(&mut self, tasks: BTreeSet<TaskId>) {
        let rows: Vec<Arc<TaskRow>> = self
            .door
            .mirror
            .read(|state| tasks.iter().filter_map(|task| state.tasks().get(task).cloned()).collect());
        let mut commands = Vec::new();
        for row in &rows {
            self.row_commands(row, &mut commands);
        }
        for (life, command) in commands {
            self.delivery.command(life, command);
        }
    }

    fn row_commands(&self, row: &TaskRow, commands: &mut Vec<(Life, Command)>) {
        let node = self.session.node;
        let known = self.reported.range(all_lives(row.id)).map(|(life, phase)| (*life, Some(*phase)));
        let own = Life { task: row.id, incarnation: row.incarnation };
        let own = (row.node == Some(node) && !self.reported.contains_key(&own)).then_some((own, None));
        for (life, phase) in known.chain(own) {
            commands.extend(life_command(row, node, life, phase).map(|command| (life, command)));
        }
    }

    async fn say(&self, message: ToAgent) -> Option<()> {
        (self.session.is_current() && self.session.send(message).await).then_some(())
    }

    /// Lets a node that came back take tasks again once nothing old is left on it. `None` where the node was declared
    /// lost under this session: its agent is to begin anew, since only a registration brings a lost node back.
    async fn recovered(&self) -> Option<()> {
        let node = self.session.node;
        let returning = self.door.mirror.read(|state| match state.nodes().get(&node)?.state {
            NodeState::Ready => None,
            NodeState::Recovering => Some(Some(self.is_left_over(state))),
            NodeState::Lost => Some(None),
        });
        match returning {
            None | Some(Some(true)) => return Some(()),
            Some(Some(false)) => {}
            Some(None) => {
                let why = "the node was declared lost under this session";
                self.session.end(EndKind::Gateway, Status::aborted(why));
                return None;
            }
        }
        let present = self.reported.iter().filter(|(_, phase)| **phase != Phase::Released);
        let present = present.map(|(life, _)| (life.task, life.incarnation)).collect();
        let reported = self.door.arrivals.reported(self.session.fence(), present).await?;
        self.written_or_later(reported, "the node's return waits")
    }

    /// Whether the mirror shows something old on the node. Only a hint that it is of no use to ask the store, whose
    /// transaction counts by itself.
    fn is_left_over(&self, state: &MirrorState) -> bool {
        let node = self.session.node;
        let stale = |(life, phase): (&Life, &Phase)| {
            let other = |row: &Arc<TaskRow>| row.node != Some(node) || row.incarnation != life.incarnation;
            state.tasks().get(&life.task).is_some_and(other) && *phase != Phase::Released
        };
        state.node_tasks(node).any(|row| row.state == TaskState::Lost) || self.reported.iter().any(stale)
    }
}
