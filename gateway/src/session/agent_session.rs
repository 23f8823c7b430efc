//! One session of an agent: reports into the store, changed rows to the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use borough_model::node::{NodeState, pressure_of, silent_since_ms};
use borough_model::task::{Health, HelperStatus};
use borough_model::{Incarnation, Name, TaskId, TaskRow, TaskState};
use borough_proto::bounds::{REPORT_TASKS_MAX, SESSION_ATTEMPTS_MAX};
use borough_proto::convert::measured_from_message;
use borough_proto::v1;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_proto::v1::task_status::Phase;
use borough_store::error_chain;
use borough_store::journal::Cursor;
use borough_store::mirror::MirrorState;
use borough_store::task::{ReportAnswer, ReportPhase, ResizeReport, TaskReport};
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

/// Interval of the check whether the agent still acknowledges what it is sent.
const STALL_LOOK: Duration = Duration::from_secs(5);

/// The state of one session's agent.
pub(super) struct AgentSession {
    cell: Arc<CellContext>,
    session: Arc<RegisteredSession>,
    name: Name,
    /// The mirror must contain everything up to here before the gateway sends commands.
    begin: Cursor,
    /// The attempts that the agent has, with the phase it last reported.
    reported: BTreeMap<DesiredAttempt, Phase>,
    /// The reports of them that the store has applied.
    applied: BTreeMap<DesiredAttempt, SentStatus>,
    /// The commands and chunks for the agent.
    delivery: Delivery,
    /// The agent's last notes on its machine.
    notes: NodeNotes,
}

/// The last report of an attempt that has not exited.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentStatus {
    phase: ReportPhase,
    process: Option<(u32, i64)>,
    health: Health,
    resize: Option<ResizeReport>,
    helpers: Vec<HelperStatus>,
}

impl SentStatus {
    fn of(report: &TaskReport) -> Option<Self> {
        let TaskReport { phase, process, health, .. } = *report;
        let (resize, helpers) = (report.resize.clone(), report.helpers.clone());
        let alive = report.exit.is_none() && phase.is_alive();
        alive.then_some(Self { phase, process, health, resize, helpers })
    }
}

/// Whether a node may accept tasks again.
enum NodeReturn {
    /// It does already, or has old attempts left.
    NotDue,
    Due,
    /// The node is lost.
    Impossible,
}

/// The first and the last attempt that a task can have.
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
    /// A session that was admitted at `begin`.
    pub(super) fn new(
        cell: Arc<CellContext>,
        session: Arc<RegisteredSession>,
        name: Name,
        begin: Cursor,
    ) -> Self {
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

    /// Follows reports, acknowledgements and notices until the session ends. Sends no command before the full report is
    /// durable.
    pub(super) async fn run(mut self, mut reports: mpsc::Receiver<v1::Report>) {
        if self.begin_wait(&mut reports).await.is_none() {
            return;
        }
        // A change after this is noticed again.
        self.session.notices.take();
        self.full_send();
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
                    if noticed.all {
                        self.full_send();
                    } else {
                        self.changed(noticed.tasks);
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

    /// Receives the full report, to its end.
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

    /// Applies a report and answers it. `None` if the session is over.
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
        if let Some((count, first)) = left_out.first_and_count() {
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
        // Skips what the store has applied already: most statuses only bring a sample of usage.
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
        let interval = self.cell.sessions.interval_tell(&self.session);
        let report_interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let applied = v1::ReportApplied { revision: report.revision, report_interval_ms };
        self.answer_send(ToAgent::ReportApplied(applied)).await?;
        // A node accepts tasks again only after its agent has applied its full desired state.
        if self.delivery.is_complete() { self.recovered().await } else { Some(()) }
    }

    /// Writes reports of single attempts, and handles the store's answers.
    async fn store(&mut self, items: Vec<(DesiredAttempt, TaskReport)>) -> Option<()> {
        if items.is_empty() {
            return Some(());
        }
        let (attempts, reports): (Vec<DesiredAttempt>, Vec<TaskReport>) = items.into_iter().unzip();
        let sent_status: Vec<Option<SentStatus>> = reports.iter().map(SentStatus::of).collect();
        let applied = self.written(self.cell.reports.apply(self.session.fence(), reports).await?)?;
        self.cell.mirror.wait_for(applied.cursor).await.ok()?;
        for ((attempt, sent_status), answer) in attempts.iter().zip(sent_status).zip(&applied.answers) {
            match sent_status.filter(|_| *answer == ReportAnswer::Applied) {
                Some(sent_status) => drop(self.applied.insert(*attempt, sent_status)),
                None => drop(self.applied.remove(attempt)),
            }
        }
        self.answer(&attempts, &applied.answers);
        Some(())
    }

    /// Handles the acknowledgement of chunks. `None` if the agent acknowledges a chunk that was not sent.
    async fn acknowledged(&mut self, sequence: u64) -> Option<()> {
        let before = self.delivery.is_complete();
        if let Err(error) = self.delivery.acknowledged(sequence) {
            self.session.end(EndKind::Protocol, Status::aborted(error.to_string()));
            return None;
        }
        self.worked();
        if !before && self.delivery.is_complete() { self.recovered().await } else { Some(()) }
    }

    /// Records that the session does its work, which keeps the node's lease alive: see
    /// [`lease_counts`](super::failure::lease_counts).
    fn worked(&self) {
        let now = self.cell.machine.monotonic();
        if self.session.worked(now, self.delivery.progress()) {
            self.cell.sessions.failures.progress(self.session.node);
        }
    }

    /// Ends a session whose agent acknowledges nothing.
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

    /// Sends waiting chunks, up to the agent's credit.
    async fn deliver(&mut self) -> Option<()> {
        loop {
            let now = self.cell.machine.monotonic();
            let (mirror, cell) = (&self.cell.mirror, self.cell.name.as_str());
            let rows = MirrorRows { mirror, cell, drain_delay_ms: self.cell.drain_delay_ms() };
            let chunk = self.delivery.next(&rows, now);
            let Some(chunk) = chunk else { return Some(()) };
            for (attempt, bytes) in &chunk.set_aside {
                self.cell.sessions.metrics.set_aside(&self.cell.name);
                tracing::error!(node = %self.name, ?attempt, bytes, "an attempt that is too long for any message is left out");
            }
            self.forgotten(&chunk.forgotten);
            if chunk.message.sequence > 0 {
                self.answer_send(ToAgent::Desired(chunk.message)).await?;
            }
        }
    }

    /// Drops the attempts that the agent is ordered to forget.
    fn forgotten(&mut self, attempts: &[DesiredAttempt]) {
        for attempt in attempts {
            self.reported.remove(attempt);
            self.applied.remove(attempt);
            if self.reported.range(all_attempts(attempt.task)).next().is_none() {
                self.cell.sessions.holders.release(&self.session, [attempt.task]);
            }
        }
    }

    /// Writes the agent's notes on its machine if the node's row differs, or says that the agent does not answer. A
    /// failed write is tried again with the next report.
    async fn noted(&mut self, report: &v1::Report) -> Option<()> {
        let NodeNotes { short_of, packages } = notes_of(report);
        self.notes.short_of = short_of.or_else(|| self.notes.short_of.take());
        self.notes.packages = packages.or_else(|| self.notes.packages.take());
        let (node, notes) = (self.session.node, &self.notes);
        let known = self.cell.mirror.read(|state| {
            let row = state.nodes().get(&node)?;
            let short_of = notes.short_of.as_ref();
            let packages = notes.packages.as_ref().is_none_or(|packages| *packages == row.packages);
            let silent = silent_since_ms(&row.taints).is_some();
            Some(!silent && packages && short_of.is_none_or(|short_of| *short_of == pressure_of(&row.taints)))
        });
        if known.unwrap_or(true) {
            return Some(());
        }
        let noted = self.cell.registrations.noted(self.session.fence(), notes.clone()).await?;
        self.written_or_later(noted, "what the agent notes waits")
    }

    /// The written value. `None` if the failure ends the session; the agent then gets the reason.
    fn written<T>(&self, written: Result<T, NotWritten>) -> Option<T> {
        let not_written = match written {
            Ok(value) => return Some(value),
            Err(not_written) => not_written,
        };
        tracing::warn!(node = %self.name, session = self.session.id, reason = %not_written, "session ended");
        self.session.end(not_written.kind(), not_written.status());
        None
    }

    /// As [`Self::written`], except that a write that the store cannot take now is tried again with the next report.
    fn written_or_later(&self, written: Result<(), NotWritten>, waits: &'static str) -> Option<()> {
        match written {
            Err(later @ NotWritten::Later(_)) => {
                tracing::warn!(node = %self.name, reason = %later, waits);
                Some(())
            }
            written => self.written(written),
        }
    }

    /// Queues the reported load to be written if it differs from the row, which the mirror need not have. A first
    /// report without a load removes what earlier sessions reported: a load belongs to its session, and is as fresh as
    /// the node's lease.
    fn load_noted(&self, report: &v1::Report) {
        let measured = match &report.load {
            Some(load) => load.load.as_ref().map(measured_from_message),
            None if report.full_begin => None,
            None => return,
        };
        self.session.load_note(measured);
    }

    /// Reacts to the store's answers.
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
        if let Some((count, first)) = contradicting.first_and_count() {
            tracing::warn!(node = %self.name, count, first, "reports contradict the store");
        }
        if let Some((count, first)) = parked.first_and_count() {
            tracing::warn!(node = %self.name, count, first, "attempts that the store does not know are parked");
        }
    }

    fn missing(&self) -> Vec<DesiredAttempt> {
        let sent: BTreeSet<DesiredAttempt> = self.delivery.commands_sent().collect();
        self.cell.mirror.read(|state| {
            let rows = state.node_tasks(self.session.node).map(|row| &**row);
            attempts_missing(rows, &self.reported, &sent)
        })
    }

    /// Forgets all reports: a full report follows, or nothing more.
    fn reported_clear(&mut self) {
        let tasks = self.reported.keys().map(|attempt| attempt.task);
        self.cell.sessions.holders.release(&self.session, tasks);
        self.reported.clear();
        self.applied.clear();
    }

    /// Sends the full desired state.
    fn full_send(&mut self) {
        let (node, reported) = (self.session.node, &self.reported);
        let commands = self.cell.mirror.read(|state| {
            let rows = state.node_tasks(node).map(|row| &**row);
            commands_full(node, rows, reported, |task| state.tasks().get(&task).map(|row| &**row))
        });
        self.delivery.full(commands);
    }

    /// Sends the commands that follow from changed rows.
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

    async fn answer_send(&self, message: ToAgent) -> Option<()> {
        (self.session.is_current() && self.session.send(message).await).then_some(())
    }

    /// Lets a returned node accept tasks again once it has no old attempts. `None` if the node was declared lost during
    /// this session: only a registration brings it back, so its agent must begin again.
    async fn recovered(&self) -> Option<()> {
        let node = self.session.node;
        let returning = self.cell.mirror.read(|state| match state.nodes().get(&node).map(|row| row.state) {
            Some(NodeState::Recovering) if !self.is_left_over(state) => NodeReturn::Due,
            Some(NodeState::Lost) => NodeReturn::Impossible,
            Some(NodeState::Ready | NodeState::Recovering) | None => NodeReturn::NotDue,
        });
        match returning {
            NodeReturn::NotDue => return Some(()),
            NodeReturn::Due => {}
            NodeReturn::Impossible => {
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

    /// Returns true if the mirror shows old attempts on the node. This only saves a useless transaction, which checks
    /// for itself.
    fn is_left_over(&self, state: &MirrorState) -> bool {
        let node = self.session.node;
        let stale = |(attempt, phase): (&DesiredAttempt, &Phase)| {
            let other = |row: &Arc<TaskRow>| row.is_over(node, attempt.incarnation);
            state.tasks().get(&attempt.task).is_some_and(other) && *phase != Phase::Released
        };
        state.node_tasks(node).any(|row| row.state == TaskState::Lost) || self.reported.iter().any(stale)
    }
}
