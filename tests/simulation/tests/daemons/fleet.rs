//! The agents of all nodes: they register, renew, run what is placed on them, and report, without processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_kv::env::Rng;
use borough_model::node::{AgentIdentity, AgentProcess, DurableId, NodeFacts};
use borough_model::task::{EndReason, Exit, Health, TaskRow, TaskState};
use borough_model::{Incarnation, NodeId, Resources, TaskId};
use borough_store::StoreError;
use borough_store::node::{
    NodeRegistration, SessionFence, node_live_read, node_live_renew, node_register, node_reported,
    node_writer,
};
use borough_store::task::{ReportAnswer, ReportPhase, TaskReport, task_report_apply};
use borough_testkit::{below, name, node_facts};

use crate::World;

/// Milliseconds between two renewals of a node.
const BEAT_MS: i64 = 10_000;
/// One running attempt in so many ends by itself in a round.
const CRASHES: u64 = 5_000;
/// Nodes whose agents write in one transaction.
const TOGETHER: usize = 50;

type Attempt = (TaskId, Incarnation);

/// The agent of one machine.
#[derive(Default)]
struct Agent {
    node: NodeId,
    session: u64,
    boot: u64,
    beat_ms: i64,
    silent: bool,
    /// What runs on the machine, and what has to be reported of it.
    attempts: BTreeMap<Attempt, ReportPhase>,
    dirty: BTreeSet<Attempt>,
    /// It has to register: it is new, or was silent, or has rebooted.
    is_new: bool,
}

/// All agents, by the number of their machine.
pub(crate) struct Fleet {
    rng: Arc<dyn Rng>,
    agents: BTreeMap<u64, Agent>,
    of_node: BTreeMap<NodeId, u64>,
    calm: bool,
    pub crashes: u64,
}

impl Fleet {
    pub(crate) fn new(rng: Arc<dyn Rng>) -> Self {
        Self { rng, agents: BTreeMap::new(), of_node: BTreeMap::new(), calm: false, crashes: 0 }
    }

    /// A machine joins.
    pub(crate) fn join(&mut self, number: u64) {
        let node = NodeId(self.rng.next_u64().max(1));
        self.of_node.insert(node, number);
        self.agents.insert(number, Agent { node, boot: 1, is_new: true, ..Agent::default() });
    }

    /// The machine is gone.
    pub(crate) fn leave(&mut self, number: u64) {
        if let Some(agent) = self.agents.remove(&number) {
            self.of_node.remove(&agent.node);
        }
    }

    pub(crate) fn node(&self, number: u64) -> Option<NodeId> {
        self.agents.get(&number).map(|agent| agent.node)
    }

    /// Its agent neither renews nor reports, or does again. What runs goes on.
    pub(crate) fn silence(&mut self, number: u64, silent: bool) {
        if let Some(agent) = self.agents.get_mut(&number) {
            agent.is_new |= agent.silent && !silent;
            agent.silent = silent;
        }
    }

    /// The machine loses all processes.
    pub(crate) fn reboot(&mut self, number: u64) {
        if let Some(agent) = self.agents.get_mut(&number) {
            agent.boot += 1;
            agent.is_new = true;
            // It has to say what it has lost.
            agent.dirty.extend(agent.attempts.keys().copied());
            agent.attempts.clear();
        }
    }

    /// From now on nothing ends by itself.
    pub(crate) fn calm(&mut self) {
        self.calm = true;
    }

    /// What runs of a job on a node: the truth, whatever the rows say.
    pub(crate) fn running(&self, node: NodeId, job: borough_model::JobId) -> usize {
        let agent = self.of_node.get(&node).and_then(|number| self.agents.get(number));
        let runs = |phase: &ReportPhase| matches!(phase, ReportPhase::Running | ReportPhase::Stopping);
        agent.map_or(0, |agent| {
            agent.attempts.iter().filter(|((task, _), phase)| task.job == job && runs(phase)).count()
        })
    }

    /// Whether the agent of a node is silent.
    pub(crate) fn is_silent(&self, node: NodeId) -> bool {
        self.of_node.get(&node).and_then(|number| self.agents.get(number)).is_none_or(|agent| agent.silent)
    }

    /// The row of a task has changed: its node's agent begins or ends an attempt.
    pub(crate) fn wanted(&mut self, row: &TaskRow) {
        let attempt = (row.id, row.incarnation);
        let placed = row.node.and_then(|node| self.of_node.get(&node)).copied();
        let Some(agent) = placed.and_then(|number| self.agents.get_mut(&number)) else { return };
        match row.state {
            TaskState::Assigned => {
                agent.attempts.entry(attempt).or_insert(ReportPhase::Running);
                agent.dirty.insert(attempt);
            }
            TaskState::Stopping | TaskState::Dead | TaskState::Pending => agent.stop(attempt),
            // What a machine has lost, it has to say.
            TaskState::Starting | TaskState::Running | TaskState::Releasing | TaskState::Lost
                if !agent.attempts.contains_key(&attempt) =>
            {
                agent.dirty.insert(attempt);
            }
            _ => {}
        }
    }

    /// Registers, renews and reports for every node for which it is due.
    pub(crate) async fn round(&mut self, world: &World) {
        let now_ms = world.now_ms();
        self.crash();
        let is_due = |agent: &Agent| {
            !agent.silent && (agent.is_new || !agent.dirty.is_empty() || now_ms >= agent.beat_ms)
        };
        let due: Vec<u64> =
            self.agents.iter().filter(|(_, agent)| is_due(agent)).map(|(number, _)| *number).collect();
        for together in due.chunks(TOGETHER) {
            for number in together {
                self.agents.get_mut(number).unwrap().register_prepare(&*self.rng);
            }
            let agents = together.iter().map(|number| (*number, &self.agents[number]));
            let agents: Vec<(u64, &Agent)> = agents.collect();
            let written = world.change("node", async |tx, changes| {
                let mut answers = Vec::new();
                for (number, agent) in &agents {
                    answers.push(agent.write(tx, changes, *number, now_ms).await?);
                }
                Ok(answers)
            });
            for (number, answers) in together.iter().zip(written.await.unwrap()) {
                let beat_ms = now_ms + i64::try_from(below(&*self.rng, 2_000)).unwrap() + BEAT_MS;
                self.agents.get_mut(number).unwrap().written(answers, beat_ms);
            }
        }
    }

    /// Some attempt ends by itself.
    fn crash(&mut self) {
        if self.calm {
            return;
        }
        for agent in self.agents.values_mut() {
            for (attempt, phase) in &mut agent.attempts {
                if *phase == ReportPhase::Running && below(&*self.rng, CRASHES) == 0 {
                    *phase = ReportPhase::Released;
                    agent.dirty.insert(*attempt);
                    self.crashes += 1;
                }
            }
        }
    }
}

impl Agent {
    fn stop(&mut self, attempt: Attempt) {
        if let Some(phase) = self.attempts.get_mut(&attempt) {
            *phase = ReportPhase::Released;
            self.dirty.insert(attempt);
        }
    }

    fn register_prepare(&mut self, rng: &dyn Rng) {
        if self.is_new {
            self.session = rng.next_u64();
            // It says everything that it runs again.
            self.dirty.extend(self.attempts.keys().copied());
        }
    }

    fn facts(&self, number: u64) -> NodeFacts {
        let capacity = Resources { cpu_millis: 2_000, memory_bytes: 4 << 30, ..Resources::default() };
        NodeFacts { boot_id: format!("boot-{number}-{}", self.boot), ..node_facts(capacity) }
    }

    /// Writes what is due in a transaction. Returns the answers to its reports.
    async fn write(
        &self,
        tx: &borough_kv::Transaction,
        changes: &mut borough_store::ChangeSet,
        number: u64,
        now_ms: i64,
    ) -> Result<Vec<(Attempt, ReportAnswer)>, StoreError> {
        if self.is_new {
            let identity = AgentIdentity::new(DurableId(u128::from(number)), "machine").unwrap();
            let agent = Some(AgentProcess { identity, identity_before: None, instance: self.boot });
            let silent = node_live_read(tx, changes.space(), self.node).await?;
            let arrival = NodeRegistration::new(
                name(&format!("n{number}")),
                self.facts(number),
                self.node,
                self.session,
            );
            node_register(tx, changes, &NodeRegistration { agent, silent, ..arrival }).await?;
        }
        let fence = SessionFence { node: self.node, session: self.session };
        let space = changes.space().clone();
        let writer = node_writer(tx, &space, fence).await?;
        let writer = writer.ok_or_else(|| StoreError::refused(format!("{number} has no session")))?;
        let beat = u64::try_from(now_ms).unwrap();
        node_live_renew(&writer, &space, beat, 0, None).await?;
        let reports: Vec<TaskReport> =
            self.dirty.iter().map(|attempt| self.report(*attempt, now_ms)).collect();
        let answers = task_report_apply(&writer, changes, &reports).await?;
        let present = self.attempts.iter().filter(|(_, phase)| **phase != ReportPhase::Released);
        let present: Vec<Attempt> = present.map(|(attempt, _)| *attempt).collect();
        node_reported(&writer, changes, &present).await?;
        Ok(self.dirty.iter().copied().zip(answers).collect())
    }

    fn written(&mut self, answers: Vec<(Attempt, ReportAnswer)>, beat_ms: i64) {
        (self.is_new, self.beat_ms) = (false, beat_ms);
        self.dirty.clear();
        for (attempt, answer) in answers {
            match answer {
                ReportAnswer::Applied => {
                    if self.attempts.get(&attempt) == Some(&ReportPhase::Released) {
                        self.attempts.remove(&attempt);
                    }
                }
                ReportAnswer::Stop => self.stop(attempt),
                ReportAnswer::Forget => drop(self.attempts.remove(&attempt)),
                ReportAnswer::Park | ReportAnswer::Refused(_) => panic!("{attempt:?} gets {answer:?}"),
            }
        }
    }

    fn report(&self, (task, incarnation): Attempt, at_ms: i64) -> TaskReport {
        let phase = self.attempts.get(&(task, incarnation)).copied().unwrap_or(ReportPhase::Missing);
        let is_running = phase == ReportPhase::Running;
        let exit = (phase == ReportPhase::Released).then(|| Exit {
            reason: EndReason::Exited,
            code: Some(1),
            signal: None,
            message: String::new(),
            at_ms,
            incarnation,
            node: Some(self.node),
            start_failure: None,
        });
        TaskReport {
            task,
            incarnation,
            phase,
            process: is_running.then_some((1, 1)),
            cores: Vec::new(),
            health: if is_running { Health::Healthy } else { Health::Unknown },
            exit,
            resize: None,
            helpers: Vec::new(),
        }
    }
}
