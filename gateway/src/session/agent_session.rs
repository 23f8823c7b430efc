//! One session of an agent: reports into the store, changed rows to the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use borough_model::node::{NodeState, pressure_of};
use borough_model::task::Health;
use borough_model::{Incarnation, Name, TaskId, TaskRow, TaskState};
use borough_proto::bounds::{REPORT_TASKS_MAX, SESSION_ATTEMPTS_MAX};
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

use super::delivery::{ACKNOWLEDGE_MAX, Delivery};
use super::desired::{Command, DesiredAttempt, attempt_command, attempts_missing, commands_full};
use super::message::{MirrorRows, notes_of, report_missing, report_of};
use super::metrics::EndKind;
use super::registration::NodeNotes;
use super::registry::RegisteredSession;
use super::tally::FirstAndCount;
use super::write::NotWritten;
use crate::cell::CellContext;

/// Between two looks at whether the agent still acknowledges what it is sent.
const STALL_LOOK: Duration = Duration::from_secs(5);

/// What is known of one session's agent.
pub struct AgentSession {
    cell: Arc<CellContext>,
    session: Arc<RegisteredSession>,
    name: Name,
    /// Everything up to here must be in the mirror before the agent is told anything.
    begin: Cursor,
    /// Attempts the agent has, with the phase it last reported.
    reported: BTreeMap<DesiredAttempt, Phase>,
    /// What the store has taken of them.
    applied: BTreeMap<DesiredAttempt, SentStatus>,
    /// What is on its way to the agent.
    delivery: Delivery,
    /// What the agent last said of its machine.
    notes: NodeNotes,
}

/// What was said of an attempt that has not exited.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentStatus {
    phase: ReportPhase,
    process: Option<(u32, i64)>,
    health: Health,
}

impl SentStatus {
    fn of(report: &TaskReport) -> Option<Self> {
        let TaskReport { phase, process, health, .. } = *report;
        (report.exit.is_none() && phase.is_alive()).then_some(Self { phase, process, health })
    }
}

/// First and last attempt a task can have.
fn all_attempts(task: TaskId) -> RangeInclusive<DesiredAttempt> {
    let attempt = |incarnation| DesiredAttempt { task, incarnation: Incarnation(incarnation) };
    attempt(0)..=attempt(u64::MAX)
}

impl Drop for AgentSession {
    fn drop(&mut self) {
        self.reported_clear();
    }
}

impl AgentSession {
    /// A session that began at `begin`.
    pub fn new(cell: Arc<CellContext>, session: Arc<RegisteredSession>, name: Name, begin: Cursor) -> Self {
        Self {
            cell,
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
        if let Err(error) = self.cell.mirror.wait_for(self.begin).await {
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
        let mut items: Vec<(DesiredAttempt, Phase, TaskReport)> = Vec::with_capacity(report.tasks.len());
        let mut left_out = FirstAndCount::default();
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
        self.reported.extend(items.iter().map(|(attempt, phase, _)| (*attempt, *phase)));
        if self.reported.len() > SESSION_ATTEMPTS_MAX {
            let why = format!("the agent has more attempts than its bound: at most {SESSION_ATTEMPTS_MAX}");
            self.session.end(EndKind::Protocol, Status::aborted(why));
            return None;
        }
        self.cell.sessions.holders.hold(&self.session, items.iter().map(|(attempt, ..)| attempt.task));
        // What the store has taken already is not written again: most statuses only bring a sample of usage.
        items.retain(|(attempt, _, report)| {
            self.applied.get(attempt).is_none_or(|applied| SentStatus::of(report).as_ref() != Some(applied))
        });
        self.store(items.into_iter().map(|(attempt, _, report)| (attempt, report)).collect()).await?;
        if report.full_end {
            let missing: Vec<_> =
                self.missing().into_iter().map(|attempt| (attempt, report_missing(attempt))).collect();
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

    /// Has reports of single attempts written, and takes in what the store makes of them.
    async fn store(&mut self, items: Vec<(DesiredAttempt, TaskReport)>) -> Option<()> {
        if items.is_empty() {
            return Some(());
        }
        let (attempts, reports): (Vec<DesiredAttempt>, Vec<TaskReport>) = items.into_iter().unzip();
        let said: Vec<Option<SentStatus>> = reports.iter().map(SentStatus::of).collect();
        let applied = self.written(self.cell.reports.apply(self.session.fence(), reports).await?)?;
        self.cell.mirror.wait_for(applied.cursor).await.ok()?;
        for ((attempt, said), answer) in attempts.iter().zip(said).zip(&applied.answers) {
            match said.filter(|_| *answer == ReportAnswer::Applied) {
                Some(said) => drop(self.applied.insert(*attempt, said)),
                None => drop(self.applied.remove(attempt)),
            }
        }
        self.answer(&attempts, &applied.answers);
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
        let now = self.cell.machine.monotonic();
        if self.session.worked(now, self.delivery.is_complete()) {
            self.cell.sessions.failures.progress(self.session.node);
        }
    }

    /// Ends a session whose agent takes nothing in.
    fn stall_look(&self) -> Option<()> {
        let waiting = self.delivery.waiting(self.cell.machine.monotonic())?;
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
            let now = self.cell.machine.monotonic();
            let (delivery, cell) = (&mut self.delivery, self.cell.name.as_str());
            let chunk = self.cell.mirror.read(|state| delivery.next(&MirrorRows { state, cell }, now));
            let Some(chunk) = chunk else { return Some(()) };
            for (attempt, bytes) in &chunk.set_aside {
                self.cell.sessions.metrics.set_aside(&self.cell.name);
                tracing::error!(node = %self.name, ?attempt, bytes, "too long for any message: set aside");
            }
            self.forgotten(&chunk.forgotten);
            if chunk.message.sequence > 0 {
                self.say(ToAgent::Desired(chunk.message)).await?;
            }
        }
    }

    /// Forgets attempts that the agent is told to forget.
    fn forgotten(&mut self, attempts: &[DesiredAttempt]) {
        for attempt in attempts {
            self.reported.remove(attempt);
            self.applied.remove(attempt);
            if self.reported.range(all_attempts(attempt.task)).next().is_none() {
                self.cell.sessions.holders.release(&self.session, [attempt.task]);
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
        let known = self.cell.mirror.read(|state| {
            let row = state.nodes().get(&node)?;
            let short_of = notes.short_of.as_ref();
            let packages = notes.packages.as_ref().is_none_or(|packages| *packages == row.packages);
            Some(packages && short_of.is_none_or(|short_of| *short_of == pressure_of(&row.taints)))
        });
        if known.unwrap_or(true) {
            return Some(());
        }
        let noted = self.cell.registrations.noted(self.session.fence(), notes.clone()).await?;
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

    /// Has the load written that an agent tells, where it is not known like that. A first report without one takes away
    /// what the sessions before have told: a load is that of the session, and as fresh as the node's lease.
    fn load_noted(&self, report: &v1::Report) {
        let told = match &report.load {
            Some(told) => told.load.as_ref().map(measured_from_message),
            None if report.full_begin => None,
            None => return,
        };
        let node = self.session.node;
        let known = self.cell.mirror.read(|state| state.loads().get(&node).and_then(|load| load.measured));
        if told != known {
            self.session.load_note(told);
        }
    }

    /// What the store's answers mean for the agent.
    fn answer(&mut self, attempts: &[DesiredAttempt], answers: &[ReportAnswer]) {
        let (mut contradicting, mut parked) = (FirstAndCount::default(), FirstAndCount::default());
        for (attempt, answer) in attempts.iter().zip(answers) {
            match answer {
                ReportAnswer::Stop => {
                    let reason = borough_model::task::StopReason::Restart;
                    let stop = Command::Stop { reason, drain: false, notice_max_ms: None };
                    self.delivery.command(*attempt, stop);
                }
                ReportAnswer::Forget => self.delivery.command(*attempt, Command::Forget),
                ReportAnswer::Refused(refused) => contradicting.note(|| format!("{attempt:?}: {refused}")),
                ReportAnswer::Park => parked.note(|| format!("{attempt:?}")),
                ReportAnswer::Applied => {}
            }
        }
        if let Some((count, first)) = contradicting.told() {
            tracing::warn!(node = %self.name, count, first, "reports contradict the store");
        }
        if let Some((count, first)) = parked.told() {
            tracing::warn!(node = %self.name, count, first, "attempts that the store does not know are parked");
        }
    }

    fn missing(&self) -> Vec<DesiredAttempt> {
        let sent: BTreeSet<DesiredAttempt> = self.delivery.told().collect();
        self.cell.mirror.read(|state| {
            let rows = state.node_tasks(self.session.node).map(|row| &**row);
            attempts_missing(rows, &self.reported, &sent)
        })
    }

    /// Forgets what was reported: a full report follows, or nothing more.
    fn reported_clear(&mut self) {
        let tasks = self.reported.keys().map(|attempt| attempt.task);
        self.cell.sessions.holders.release(&self.session, tasks);
        self.reported.clear();
        self.applied.clear();
    }

    /// Has everything sent.
    fn full_tell(&mut self) {
        let (node, reported) = (self.session.node, &self.reported);
        let commands = self.cell.mirror.read(|state| {
            let rows = state.node_tasks(node).map(|row| &**row);
            commands_full(node, rows, reported, |task| state.tasks().get(&task).map(|row| &**row))
        });
        self.delivery.full(commands);
    }

    /// Has what follows from the rows of tasks that have changed sent.
    fn changed(&mut self, tasks: BTreeSet<TaskId>) {
        let rows: Vec<Arc<TaskRow>> = self
            .cell
            .mirror
            .read(|state| tasks.iter().filter_map(|task| state.tasks().get(task).cloned()).collect());
        let mut commands = Vec::new();
        for row in &rows {
            self.row_commands(row, &mut commands);
        }
        for (attempt, command) in commands {
            self.delivery.command(attempt, command);
        }
    }

    fn row_commands(&self, row: &TaskRow, commands: &mut Vec<(DesiredAttempt, Command)>) {
        let node = self.session.node;
        let known =
            self.reported.range(all_attempts(row.id)).map(|(attempt, phase)| (*attempt, Some(*phase)));
        let own = DesiredAttempt { task: row.id, incarnation: row.incarnation };
        let own = (row.node == Some(node) && !self.reported.contains_key(&own)).then_some((own, None));
        for (attempt, phase) in known.chain(own) {
            commands.extend(attempt_command(row, node, attempt, phase).map(|command| (attempt, command)));
        }
    }

    async fn say(&self, message: ToAgent) -> Option<()> {
        (self.session.is_current() && self.session.send(message).await).then_some(())
    }

    /// Lets a node that came back take tasks again once nothing old is left on it. `None` where the node was declared
    /// lost under this session: its agent is to begin again, since only a registration brings a lost node back.
    async fn recovered(&self) -> Option<()> {
        let node = self.session.node;
        let returning = self.cell.mirror.read(|state| match state.nodes().get(&node)?.state {
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
        let present = present.map(|(attempt, _)| (attempt.task, attempt.incarnation)).collect();
        let reported = self.cell.registrations.reported(self.session.fence(), present).await?;
        self.written_or_later(reported, "the node's return waits")
    }

    /// Whether the mirror shows something old on the node. Only a hint that it is of no use to ask the store, whose
    /// transaction counts by itself.
    fn is_left_over(&self, state: &MirrorState) -> bool {
        let node = self.session.node;
        let stale = |(attempt, phase): (&DesiredAttempt, &Phase)| {
            let other = |row: &Arc<TaskRow>| row.node != Some(node) || row.incarnation != attempt.incarnation;
            state.tasks().get(&attempt.task).is_some_and(other) && *phase != Phase::Released
        };
        state.node_tasks(node).any(|row| row.state == TaskState::Lost) || self.reported.iter().any(stale)
    }
}
