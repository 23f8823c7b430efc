//! The course of one session: reports into the store, changed rows to the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use borough_model::node::{NodeState, pressure_of};
use borough_model::task::Health;
use borough_model::{Incarnation, Name, TaskId, TaskRow, TaskState};
use borough_proto::convert::measured_from_message;
use borough_proto::v1;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_proto::v1::task_status::Phase;
use borough_store::error_chain;
use borough_store::journal::Cursor;
use borough_store::mirror::MirrorState;
use borough_store::task::{ReportAnswer, ReportPhase, TaskReport};
use tokio::sync::mpsc;

use super::arrive::NodeNotes;
use super::desired::{Command, Life, commands_full, life_command, lives_missing};
use super::message::{assignment, life_to_message, notes_of, report_missing, report_of, stop};
use super::registry::Session;
use super::write::NotWritten;
use crate::cell::CellDoor;

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
    /// What the agent was last told of each life.
    told: BTreeMap<Life, Command>,
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
            told: BTreeMap::new(),
            notes: NodeNotes::default(),
        }
    }

    /// Follows reports and notices until the session ends. Nothing is said before the full report is durable.
    pub async fn run(mut self, mut reports: mpsc::Receiver<v1::Report>) {
        let Some(first) = reports.recv().await else { return };
        if let Err(error) = self.door.mirror.wait_for(self.begin).await {
            tracing::warn!(node = %self.name, error = %error_chain(&error), "session could not begin");
            return;
        }
        if self.report(first).await.is_none() {
            return;
        }
        // What changes after this is noticed again.
        self.session.notices.take();
        let mut alive = self.full_tell().await.is_some();
        let session = Arc::clone(&self.session);
        while alive {
            alive = tokio::select! {
                report = reports.recv() => match report {
                    Some(report) => self.report(report).await.is_some(),
                    None => false,
                },
                noticed = session.notices.next() => match noticed.all {
                    true => self.full_tell().await.is_some(),
                    false => self.changed(noticed.tasks).await.is_some(),
                },
            };
        }
    }

    /// Applies a report and answers it. `None` where the session is over.
    async fn report(&mut self, report: v1::Report) -> Option<()> {
        let node = self.session.node;
        let mut items: Vec<(Life, Phase, TaskReport)> = Vec::with_capacity(report.tasks.len());
        for status in &report.tasks {
            match report_of(status, node) {
                Ok(item) => items.push(item),
                Err(refused) => tracing::warn!(node = %self.name, %refused, "a status was left out"),
            }
        }
        if report.full {
            self.reported_clear();
        }
        self.reported.extend(items.iter().map(|(life, phase, _)| (*life, *phase)));
        self.door.sessions.holders.hold(&self.session, items.iter().map(|(life, ..)| life.task));
        // What the store has taken already is not written again: most statuses only bring a sample of usage.
        items.retain(|(life, _, report)| {
            self.applied.get(life).is_none_or(|applied| Said::of(report).as_ref() != Some(applied))
        });
        let missing = if report.full { self.missing() } else { Vec::new() };
        let lives: Vec<Life> = items.iter().map(|(life, ..)| *life).chain(missing.iter().copied()).collect();
        let reports: Vec<TaskReport> = items
            .into_iter()
            .map(|(.., report)| report)
            .chain(missing.into_iter().map(report_missing))
            .collect();
        let said: Vec<Option<Said>> = reports.iter().map(Said::of).collect();
        let applied = match reports.is_empty() {
            true => None,
            false => Some(self.written(self.door.reports.apply(self.session.fence(), reports).await?)?),
        };
        if let Some(applied) = applied {
            self.door.mirror.wait_for(applied.cursor).await.ok()?;
            for ((life, said), answer) in lives.iter().zip(said).zip(&applied.answers) {
                match said.filter(|_| *answer == ReportAnswer::Applied) {
                    Some(said) => drop(self.applied.insert(*life, said)),
                    None => drop(self.applied.remove(life)),
                }
            }
            self.answer(&lives, &applied.answers).await?;
        }
        self.load_noted(&report);
        self.noted(&report).await?;
        self.session.report_applied(report.revision);
        self.say(ToAgent::ReportApplied(v1::ReportApplied { revision: report.revision })).await?;
        self.recovered().await
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
        self.session.end(not_written.status());
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
            None if report.full => None,
            None => return,
        };
        let node = self.session.node;
        let known = self.door.mirror.read(|state| state.loads().get(&node).and_then(|load| load.measured));
        if told != known {
            self.session.load_note(told);
        }
    }

    /// What the store's answers mean for the agent.
    async fn answer(&mut self, lives: &[Life], answers: &[ReportAnswer]) -> Option<()> {
        let mut commands = Vec::new();
        for (life, answer) in lives.iter().zip(answers) {
            match answer {
                ReportAnswer::Stop => {
                    let reason = borough_model::task::StopReason::Restart;
                    commands.push((*life, Command::Stop { reason, drain: false, notice_max_ms: None }));
                }
                ReportAnswer::Forget => commands.push((*life, Command::Forget)),
                ReportAnswer::Refused(refused) => {
                    tracing::warn!(node = %self.name, ?life, %refused, "a report contradicts the store");
                }
                ReportAnswer::Park => {
                    tracing::warn!(node = %self.name, ?life, "a life the store does not know is parked")
                }
                ReportAnswer::Applied => {}
            }
        }
        self.tell(commands, false).await
    }

    fn missing(&self) -> Vec<Life> {
        let sent: BTreeSet<Life> = self.told.keys().copied().collect();
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

    /// Tells everything.
    async fn full_tell(&mut self) -> Option<()> {
        let (node, reported) = (self.session.node, &self.reported);
        let commands = self.door.mirror.read(|state| {
            let rows = state.node_tasks(node).map(|row| &**row);
            commands_full(node, rows, reported, |task| state.tasks().get(&task).map(|row| &**row))
        });
        self.told.clear();
        self.tell(commands.into_iter().collect(), true).await
    }

    /// Tells what follows from the rows of tasks that have changed.
    async fn changed(&mut self, tasks: BTreeSet<TaskId>) -> Option<()> {
        let rows: Vec<Arc<TaskRow>> = self
            .door
            .mirror
            .read(|state| tasks.iter().filter_map(|task| state.tasks().get(task).cloned()).collect());
        let mut commands = Vec::new();
        for row in &rows {
            self.row_commands(row, &mut commands);
        }
        self.tell(commands, false).await
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

    /// Says what was not said before. What cannot be said yet (the mirror lacks its spec) is not taken as said.
    async fn tell(&mut self, commands: Vec<(Life, Command)>, full: bool) -> Option<()> {
        if commands.is_empty() && !full {
            return Some(());
        }
        let mut desired = v1::Desired { full, ..v1::Desired::default() };
        let (told, cell) = (&mut self.told, self.door.name.as_str());
        let mut forgotten = Vec::new();
        self.door.mirror.read(|state| {
            for (life, command) in commands {
                if told.get(&life) == Some(&command) || !desired_add(&mut desired, state, cell, life, command)
                {
                    continue;
                }
                told.insert(life, command);
                forgotten.extend((command == Command::Forget).then_some(life));
            }
        });
        for life in forgotten {
            self.reported.remove(&life);
            self.applied.remove(&life);
            self.told.remove(&life);
            let others = all_lives(life.task);
            if self.reported.range(others).next().is_none() {
                self.door.sessions.holders.release(&self.session, [life.task]);
            }
        }
        let silent = desired.assignments.is_empty() && desired.stops.is_empty() && desired.forget.is_empty();
        if silent && !full {
            return Some(());
        }
        self.say(ToAgent::Desired(desired)).await
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
                tracing::warn!(node = %self.name, "heard of again after it was declared lost");
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

/// Adds a command; `false` where the mirror lacks what it takes to say it.
fn desired_add(
    desired: &mut v1::Desired,
    state: &MirrorState,
    cell: &str,
    life: Life,
    command: Command,
) -> bool {
    let row = state.tasks().get(&life.task);
    let spec = row.and_then(|row| state.spec(life.task.job, row.spec_version));
    let node = row.and_then(|row| state.nodes().get(&row.node?));
    match command {
        Command::Run => match row.zip(spec).zip(node) {
            Some(((row, spec), node)) => desired.assignments.push(assignment(cell, row, spec, node)),
            None => return false,
        },
        Command::Stop { .. } => desired.stops.extend(stop(life, command, spec.map(|spec| &**spec))),
        Command::Forget => desired.forget.push(life_to_message(life)),
    }
    true
}
