//! The course of one session: reports into the store, the journal's changes to the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::node::NodeState;
use borough_model::{Delta, JournalEntry, Name, TaskId, TaskRow, TaskState};
use borough_proto::v1;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_proto::v1::task_status::Phase;
use borough_store::journal::{Change, ChangeSet, Cursor};
use borough_store::mirror::{MirrorEvent, MirrorState, MirrorSubscription};
use borough_store::node::node_reported;
use borough_store::task::{ReportAnswer, ReportSource, TaskReport};
use borough_store::{StoreError, StoreResult, error_chain};
use tokio::sync::mpsc;

use super::desired::{Command, Life, commands_full, life_command, lives_missing};
use super::message::{assignment, life_to_message, report_missing, report_of, stop};
use super::registry::Session;
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
    /// What the agent was last told of each life.
    told: BTreeMap<Life, Command>,
}

impl Course {
    /// The course of a session that began at `begin`.
    pub fn new(door: Arc<CellDoor>, session: Arc<Session>, name: Name, begin: Cursor) -> Self {
        Self { door, session, name, begin, reported: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// Follows reports and the journal until the session ends. Nothing is said before the full report is durable.
    pub async fn run(mut self, mut reports: mpsc::Receiver<v1::Report>) {
        let Some(first) = reports.recv().await else { return };
        if let Err(error) = self.door.mirror.wait_for(self.begin).await {
            tracing::warn!(node = %self.name, error = %error_chain(&error), "session could not begin");
            return;
        }
        if self.report(first).await.is_none() {
            return;
        }
        loop {
            let Some(mut subscription) = self.full_tell().await else { return };
            if !self.follow(&mut subscription, &mut reports).await {
                return;
            }
        }
    }

    /// Until the subscription is over (`true`: begin anew) or the session is (`false`).
    async fn follow(
        &mut self,
        subscription: &mut MirrorSubscription,
        reports: &mut mpsc::Receiver<v1::Report>,
    ) -> bool {
        loop {
            let alive = tokio::select! {
                report = reports.recv() => match report {
                    Some(report) => self.report(report).await.is_some(),
                    None => false,
                },
                event = subscription.next() => match event {
                    Some(MirrorEvent::Entry { entry, .. }) => self.entry(&entry).await,
                    Some(MirrorEvent::Resync) | None => return true,
                },
            };
            if !alive {
                return false;
            }
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
            self.reported.clear();
        }
        self.reported.extend(items.iter().map(|(life, phase, _)| (*life, *phase)));
        let missing = if report.full { self.missing() } else { Vec::new() };
        let lives: Vec<Life> = items.iter().map(|(life, ..)| *life).chain(missing.iter().copied()).collect();
        let reports: Vec<TaskReport> = items
            .into_iter()
            .map(|(.., report)| report)
            .chain(missing.into_iter().map(report_missing))
            .collect();
        let source = ReportSource { node, session: self.session.id };
        let applied = match reports.is_empty() {
            true => None,
            false => Some(self.door.reports.apply(source, reports).await?),
        };
        if let Some(applied) = applied {
            self.door.mirror.wait_for(applied.cursor).await.ok()?;
            self.answer(&lives, &applied.answers).await?;
        }
        self.session.report_applied(report.revision);
        self.say(ToAgent::ReportApplied(v1::ReportApplied { revision: report.revision })).await?;
        self.recovered().await
    }

    /// What the store's answers mean for the agent.
    async fn answer(&mut self, lives: &[Life], answers: &[ReportAnswer]) -> Option<()> {
        let mut commands = Vec::new();
        for (life, answer) in lives.iter().zip(answers) {
            match answer {
                ReportAnswer::Stop => {
                    let reason = borough_model::task::StopReason::Restart;
                    commands.push((*life, Command::Stop { reason, drain: false }));
                }
                ReportAnswer::Forget => commands.push((*life, Command::Forget)),
                ReportAnswer::Refused(refused) => {
                    tracing::warn!(node = %self.name, ?life, %refused, "a report contradicts the store");
                }
                ReportAnswer::Park => {
                    tracing::warn!(node = %self.name, ?life, "a life the store does not know is parked")
                }
                ReportAnswer::Applied | ReportAnswer::Superseded => {}
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

    /// Tells everything, and subscribes to what follows it.
    async fn full_tell(&mut self) -> Option<MirrorSubscription> {
        let (node, reported) = (self.session.node, &self.reported);
        let (commands, subscription) = self.door.mirror.subscribe_with(|state| {
            let rows = state.node_tasks(node).map(|row| &**row);
            commands_full(node, rows, reported, |task| state.tasks().get(&task).map(|row| &**row))
        });
        self.told.clear();
        self.tell(commands.into_iter().collect(), true).await?;
        Some(subscription)
    }

    /// Tells what an entry changes for this node.
    async fn entry(&mut self, entry: &JournalEntry) -> bool {
        let mut commands = Vec::new();
        for delta in &entry.deltas {
            if let Delta::Task { row } = delta {
                self.row_commands(row, &mut commands);
            }
        }
        self.tell(commands, false).await.is_some()
    }

    fn row_commands(&self, row: &TaskRow, commands: &mut Vec<(Life, Command)>) {
        let node = self.session.node;
        let all = |id: TaskId| {
            let life = |incarnation| Life { task: id, incarnation: borough_model::Incarnation(incarnation) };
            life(0)..=life(u64::MAX)
        };
        let known = self.reported.range(all(row.id)).map(|(life, phase)| (*life, Some(*phase)));
        let own = Life { task: row.id, incarnation: row.incarnation };
        let own = (row.node == Some(node) && !self.reported.contains_key(&own)).then_some((own, None));
        for (life, phase) in known.chain(own) {
            commands.extend(life_command(row, node, life, phase).map(|command| (life, command)));
        }
    }

    /// Says what was not said before. What cannot be said yet (the mirror lacks its spec) is not taken as said.
    async fn tell(&mut self, commands: Vec<(Life, Command)>, full: bool) -> Option<()> {
        // Every session hears every entry of its cell, and most are of other nodes.
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
            self.told.remove(&life);
        }
        let silent = desired.assignments.is_empty() && desired.stops.is_empty() && desired.forget.is_empty();
        if silent && !full {
            return Some(());
        }
        self.say(ToAgent::Desired(desired)).await
    }

    async fn say(&self, message: ToAgent) -> Option<()> {
        let current = self.door.sessions.is_current(&self.session);
        (current && self.session.send(message).await).then_some(())
    }

    /// Lets a node that came back take tasks again once nothing old is left on it. `None` where the node was declared
    /// lost under this session: its agent is to begin anew, since only a registration brings a lost node back.
    async fn recovered(&self) -> Option<()> {
        let node = self.session.node;
        let returning = self.door.mirror.read(|state| match state.nodes().get(&node)?.state {
            NodeState::Ready => None,
            NodeState::Recovering => Some(Some(self.left_over(state))),
            NodeState::Lost => Some(None),
        });
        let (lost, stale) = match returning {
            None => return Some(()),
            Some(Some(left)) => left,
            Some(None) => {
                tracing::warn!(node = %self.name, "heard of again after it was declared lost");
                return None;
            }
        };
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        if let Err(error) = self.reported_write(count(lost), count(stale)).await {
            tracing::warn!(node = %self.name, error = %error_chain(&error), "the node's return waits");
        }
        Some(())
    }

    /// How many lost tasks still name the node, and how many lives it runs that are over in the store.
    fn left_over(&self, state: &MirrorState) -> (usize, usize) {
        let node = self.session.node;
        let lost = state.node_tasks(node).filter(|row| row.state == TaskState::Lost).count();
        let stale = self.reported.iter().filter(|(life, phase)| {
            let other = |row: &Arc<TaskRow>| row.node != Some(node) || row.incarnation != life.incarnation;
            state.tasks().get(&life.task).is_some_and(other) && **phase != Phase::Released
        });
        (lost, stale.count())
    }

    async fn reported_write(&self, lost: u32, stale: u32) -> StoreResult<()> {
        let change = Change {
            request: self.door.request_id(),
            actor: format!("node/{}", self.name),
            action: "node_reported",
            at_ms: self.door.clock.wall_ms(),
        };
        let (change, space, node) = (&change, &self.door.space, self.session.node);
        let write = self.door.db.run("node_reported", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            node_reported(&tx, &mut changes, node, lost, stale).await?;
            changes.append(&tx)?;
            Ok::<_, StoreError>(())
        });
        write.await
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
