//! A node's agent without a node: follows the mirror, simulates its attempts, and reports as a gateway would, through
//! silences and reboots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use borough_kv::Transaction;
use borough_kv::env::Rng;
use borough_model::node::{AgentIdentity, AgentProcess, DurableId, NodeFacts, NodeState};
use borough_model::task::{EndReason, Exit, Health, TaskRow, TaskState};
use borough_model::{Incarnation, NodeId, Resources, TaskId};
use borough_store::mirror::MirrorState;
use borough_store::node::{
    NodeRegistration, NodeWriter, SessionFence, node_live_read, node_live_renew, node_register,
    node_reported, node_writer,
};
use borough_store::task::{ReportAnswer, ReportPhase, TaskReport, task_report_apply};
use borough_store::{CellSpace, StoreError, StoreResult};
use borough_testkit::{below, name, node_facts, rng_of};
use parking_lot::Mutex;

use crate::cell::Cell;

/// An attempt of a task.
type Attempt = (TaskId, Incarnation);

/// State that agents share with the disturber.
#[derive(Default)]
pub(crate) struct Machines {
    /// Nodes that neither renew their lease nor report.
    pub silent: Mutex<BTreeSet<usize>>,
    /// Nodes that will lose all processes.
    pub reboot: Mutex<BTreeSet<usize>>,
    /// From now on nothing crashes.
    pub calm: AtomicBool,
    /// The running processes, with their nodes.
    running: Mutex<BTreeMap<TaskId, BTreeSet<(NodeId, Incarnation)>>>,
    pids: AtomicU32,
    /// Rules that agents have seen broken.
    pub wrong: Mutex<Vec<String>>,
}

struct Process {
    phase: ReportPhase,
    process: Option<(u32, i64)>,
    health: Health,
    exit: Option<Exit>,
    batch: bool,
    next_ms: i64,
}

pub(crate) struct Agent {
    cell: Arc<Cell>,
    machines: Arc<Machines>,
    number: usize,
    rng: Arc<dyn Rng>,
    boot: u64,
    session: u64,
    node: NodeId,
    processes: BTreeMap<Attempt, Process>,
    changed: bool,
    reported_ms: i64,
    beat_ms: i64,
}

impl Agent {
    /// The agent of node `number`.
    pub(crate) fn new(cell: &Arc<Cell>, machines: &Arc<Machines>, seed: u64, number: usize) -> Self {
        Self {
            cell: Arc::clone(cell),
            machines: Arc::clone(machines),
            number,
            rng: rng_of(seed, 100 + u64::try_from(number).unwrap()),
            boot: 1,
            session: 0,
            node: NodeId(0),
            processes: BTreeMap::new(),
            changed: true,
            reported_ms: 0,
            beat_ms: 0,
        }
    }

    /// Runs until the test is over.
    pub(crate) async fn run(mut self) {
        self.cell.mirror.ready().await;
        loop {
            // What the store does not take now is sent again.
            match self.session().await {
                Ok(()) => {}
                Err(StoreError::Kv(_)) => self.pause(100).await,
                Err(error) => {
                    self.machines.wrong.lock().push(format!("{} gets {error:?}", self.node));
                    self.pause(1_000).await;
                }
            }
        }
    }

    async fn pause(&self, most_ms: u64) {
        tokio::time::sleep(Duration::from_millis(10 + below(&*self.rng, most_ms))).await;
    }

    fn now_ms(&self) -> i64 {
        self.cell.clock.wall_ms()
    }

    fn after(&self, least_ms: u64, most_ms: u64) -> i64 {
        self.now_ms().saturating_add_unsigned(least_ms + below(&*self.rng, most_ms - least_ms))
    }

    /// One connection, from registration to silence or reboot.
    async fn session(&mut self) -> StoreResult<()> {
        self.session = self.cell.id();
        let name = name(&format!("n{}", self.number));
        let durable = DurableId(u128::try_from(self.number).unwrap());
        let identity = AgentIdentity::new(durable, "machine").unwrap();
        // Each boot has a process of its own, and the disturber has seen the earlier one end.
        let agent = Some(AgentProcess { identity, identity_before: None, instance: self.boot });
        let arrival = NodeRegistration::new(name, self.facts(), NodeId(self.cell.id()), self.session);
        let (arrival, before) = (NodeRegistration { agent, ..arrival }, self.node);
        let beat = self.cell.id();
        let registered = self
            .cell
            .change("node", "node_register", async |tx, changes| {
                let silent = node_live_read(tx, changes.space(), before).await?;
                let arrival = NodeRegistration { silent, ..arrival.clone() };
                let (registered, writer) = node_register(tx, changes, &arrival).await?;
                node_live_renew(&writer, changes.space(), beat, 0, None).await?;
                Ok(registered)
            })
            .await?;
        let (registered, cursor) = registered;
        self.node = registered.row.id;
        self.cell.mirror.wait_for(cursor).await?;
        self.changed = true;
        loop {
            self.pause(120).await;
            if self.machines.silent.lock().contains(&self.number) {
                self.silence().await;
                return Ok(());
            }
            if self.machines.reboot.lock().remove(&self.number) {
                self.boot += 1;
                let attempts: Vec<Attempt> = self.processes.keys().copied().collect();
                attempts.into_iter().for_each(|attempt| self.ended(attempt));
                self.processes.clear();
                return Ok(());
            }
            if self.now_ms() >= self.beat_ms {
                self.beat().await?;
            }
            if self.is_lost() {
                // It was declared lost during this session, between its registration and its first renewal. Only
                // another registration brings the node back, as a gateway makes its agent begin again.
                return Ok(());
            }
            self.processes_step();
            self.desired();
            if self.changed || self.now_ms() >= self.reported_ms {
                self.report().await?;
            }
        }
    }

    fn fence(&self) -> SessionFence {
        SessionFence { node: self.node, session: self.session }
    }

    fn is_lost(&self) -> bool {
        let state = |state: &MirrorState| state.nodes().get(&self.node).map(|row| row.state);
        self.cell.mirror.read(state) == Some(NodeState::Lost)
    }

    /// Processes continue without reports.
    async fn silence(&mut self) {
        while self.machines.silent.lock().contains(&self.number) {
            self.pause(200).await;
            self.processes_step();
        }
    }

    fn facts(&self) -> NodeFacts {
        let rack = ["a", "b", "c"][self.number % 3];
        let capacity = Resources { cpu_millis: 3_000, memory_bytes: 2 << 30, ..Resources::default() };
        NodeFacts {
            port_last: 20_011,
            attributes: BTreeMap::from([("rack".to_owned(), rack.to_owned())]),
            boot_id: format!("boot-{}-{}", self.number, self.boot),
            ..node_facts(capacity)
        }
    }

    async fn beat(&mut self) -> StoreResult<()> {
        let (fence, beat) = (self.fence(), self.cell.id());
        let renewed = self.cell.faulty.write(async |tx, space| {
            node_live_renew(&writer_of(tx, space, fence).await?, space, beat, 0, None).await
        });
        renewed.await?;
        self.beat_ms = self.after(300, 500);
        Ok(())
    }

    /// Processes end by themselves.
    fn processes_step(&mut self) {
        let (now_ms, calm) = (self.now_ms(), self.machines.calm.load(Ordering::Relaxed));
        let due = self.processes.iter().filter(|(_, process)| process.next_ms <= now_ms);
        let due: Vec<Attempt> = due.map(|(attempt, _)| *attempt).collect();
        for attempt in due {
            // As agents do: an attempt begins after the earlier one has left the machine.
            let earlier = self.processes.range((attempt.0, Incarnation(0))..attempt);
            let mut earlier = earlier.filter(|(_, process)| process.phase == ReportPhase::Stopping);
            if earlier.next().is_none() {
                self.process_step(attempt, calm);
            }
        }
    }

    fn process_step(&mut self, attempt: Attempt, calm: bool) {
        let (chance, number) = (below(&*self.rng, 10), self.machines.pids.fetch_add(1, Ordering::Relaxed));
        let (soon, later) = (self.after(5, 300), self.after(400, 9_000));
        let now_ms = self.now_ms();
        let node = self.node;
        let Some(process) = self.processes.get_mut(&attempt) else { return };
        match process.phase {
            ReportPhase::Accepted | ReportPhase::Starting => {
                process.phase = ReportPhase::Running;
                process.process = Some((number, now_ms));
                process.next_ms = if chance < 7 { soon } else { later };
                self.begun(attempt);
            }
            // A task without a health check is not stopped for its agent's report, and is healthy in the end.
            ReportPhase::Running if process.health != Health::Healthy => {
                let unhealthy = chance == 0 && !calm;
                process.health = if unhealthy { Health::Unhealthy } else { Health::Healthy };
                process.next_ms = later;
            }
            ReportPhase::Running if calm && !process.batch => process.next_ms = i64::MAX,
            ReportPhase::Running => {
                let code = i32::from(!calm && chance < if process.batch { 2 } else { 8 });
                process.exit = Some(exit(attempt, node, EndReason::Exited, code, now_ms));
                process.phase = ReportPhase::Exited;
                process.next_ms = soon;
                self.ended(attempt);
            }
            ReportPhase::Stopping => {
                process.exit = Some(exit(attempt, node, EndReason::Stopped, 0, now_ms));
                process.phase = ReportPhase::Exited;
                process.next_ms = soon;
                self.ended(attempt);
            }
            ReportPhase::Exited => {
                process.phase = ReportPhase::Released;
                process.next_ms = i64::MAX;
            }
            ReportPhase::Released | ReportPhase::Missing => process.next_ms = i64::MAX,
        }
        self.changed = true;
    }

    /// No other process of the task runs on a node that is not lost.
    fn begun(&self, attempt: Attempt) {
        let mut running = self.machines.running.lock();
        let others = running.entry(attempt.0).or_default();
        let conflicting = others.iter().find(|(node, _)| {
            self.cell
                .mirror
                .read(|state| state.nodes().get(node).is_some_and(|row| row.state == NodeState::Ready))
        });
        if let Some(conflicting) = conflicting {
            self.machines
                .wrong
                .lock()
                .push(format!("{attempt:?} starts on {} beside {conflicting:?}", self.node));
        }
        others.insert((self.node, attempt.1));
    }

    fn ended(&self, attempt: Attempt) {
        if let Some(running) = self.machines.running.lock().get_mut(&attempt.0) {
            running.remove(&(self.node, attempt.1));
        }
    }

    /// The rows' desired state for this node: begins and ends processes.
    fn desired(&mut self) {
        let node = self.node;
        let (rows, known) = self.cell.mirror.read(|state| {
            let batch = |row: &TaskRow| {
                let spec = state.spec(row.id.job, row.spec_version);
                spec.is_some_and(|spec| spec.kind == borough_model::job::JobKind::Batch)
            };
            let rows = state.node_tasks(node).map(|row| (TaskRow::clone(row), batch(row)));
            let known = self.processes.keys().map(|(task, _)| *task);
            let known = known.filter_map(|task| Some((task, state.tasks().get(&task)?.clone())));
            (rows.collect::<Vec<_>>(), known.collect::<BTreeMap<_, _>>())
        });
        for (row, batch) in rows {
            let attempt = (row.id, row.incarnation);
            if row.state == TaskState::Assigned && !self.processes.contains_key(&attempt) {
                let next_ms = self.after(5, 200);
                let (phase, health) = (ReportPhase::Accepted, Health::Unknown);
                let process = Process { phase, process: None, health, exit: None, batch, next_ms };
                self.processes.insert(attempt, process);
                self.changed = true;
            }
        }
        let unwanted = |(task, attempt): &Attempt| {
            known.get(task).is_some_and(|row| {
                let own = row.node == Some(node) && row.incarnation == *attempt;
                !own || matches!(row.state, TaskState::Stopping | TaskState::Pending | TaskState::Dead)
            })
        };
        let stops: Vec<Attempt> =
            self.processes.keys().filter(|attempt| unwanted(attempt)).copied().collect();
        stops.into_iter().for_each(|attempt| self.stop(attempt));
    }

    fn stop(&mut self, attempt: Attempt) {
        let next_ms = self.after(5, 600);
        let Some(process) = self.processes.get_mut(&attempt) else { return };
        match process.phase {
            ReportPhase::Accepted | ReportPhase::Starting => {
                process.phase = ReportPhase::Released;
                process.next_ms = i64::MAX;
            }
            ReportPhase::Running => {
                process.phase = ReportPhase::Stopping;
                process.next_ms = next_ms;
            }
            _ => return,
        }
        self.changed = true;
    }

    /// Reports everything, including attempts that the rows have here and this agent has not.
    async fn report(&mut self) -> StoreResult<()> {
        self.changed = false;
        self.reported_ms = self.after(800, 1_200);
        let node = self.node;
        let (missing, recovering) = self.cell.mirror.read(|state| {
            let delivered = |row: &TaskRow| {
                matches!(
                    row.state,
                    TaskState::Starting
                        | TaskState::Running
                        | TaskState::Stopping
                        | TaskState::Releasing
                        | TaskState::Lost
                )
            };
            let rows =
                state.node_tasks(node).filter(|row| delivered(row)).map(|row| (row.id, row.incarnation));
            let missing =
                rows.filter(|attempt| !self.processes.contains_key(attempt)).collect::<Vec<Attempt>>();
            (missing, state.nodes().get(&node).is_some_and(|row| row.state != NodeState::Ready))
        });
        let known = self.processes.iter().map(|(attempt, process)| report_of(*attempt, process));
        let reports: Vec<TaskReport> =
            known.chain(missing.iter().map(|attempt| report_missing(*attempt))).collect();
        if !reports.is_empty() {
            self.reports_apply(&reports).await?;
        }
        if recovering {
            self.recovered().await?;
        }
        Ok(())
    }

    async fn reports_apply(&mut self, reports: &[TaskReport]) -> StoreResult<()> {
        let fence = self.fence();
        let applied = self.cell.change("gateway", "task_report", async |tx, changes| {
            task_report_apply(&writer_of(tx, changes.space(), fence).await?, changes, reports).await
        });
        let (answers, cursor) = applied.await?;
        self.cell.mirror.wait_for(cursor).await?;
        for (report, answer) in reports.iter().zip(answers) {
            let attempt = (report.task, report.incarnation);
            match answer {
                ReportAnswer::Applied => {}
                ReportAnswer::Stop => self.stop(attempt),
                ReportAnswer::Forget => drop(self.processes.remove(&attempt)),
                ReportAnswer::Park | ReportAnswer::Refused(_) => {
                    let text = format!("{} reports {report:?} and gets {answer:?}", self.node);
                    self.machines.wrong.lock().push(text);
                }
            }
        }
        Ok(())
    }

    /// A returned node takes tasks once it has no old attempts.
    async fn recovered(&mut self) -> StoreResult<()> {
        let fence = self.fence();
        let present = self.processes.iter().filter(|(_, process)| process.phase != ReportPhase::Released);
        let present: Vec<Attempt> = present.map(|(attempt, _)| *attempt).collect();
        let reported = self.cell.change("node", "node_reported", async |tx, changes| {
            node_reported(&writer_of(tx, changes.space(), fence).await?, changes, &present).await
        });
        reported.await?;
        self.reported_ms = self.after(100, 300);
        Ok(())
    }
}

/// The writer of a session that no other one replaces.
async fn writer_of<'t>(
    tx: &'t Transaction,
    space: &CellSpace,
    fence: SessionFence,
) -> StoreResult<NodeWriter<'t>> {
    let writer = node_writer(tx, space, fence).await?;
    writer.ok_or_else(|| StoreError::refused(format!("session {} is not in force", fence.session)))
}

fn exit((_, incarnation): Attempt, node: NodeId, reason: EndReason, code: i32, at_ms: i64) -> Exit {
    let message = String::new();
    let node = Some(node);
    Exit { reason, code: Some(code), signal: None, message, at_ms, incarnation, node, start_failure: None }
}

fn report_of((task, incarnation): Attempt, process: &Process) -> TaskReport {
    let Process { phase, process, health, exit, .. } = process;
    let (phase, process, health, exit) = (*phase, *process, *health, exit.clone());
    TaskReport {
        task,
        incarnation,
        phase,
        process,
        cores: Vec::new(),
        health,
        exit,
        resize: None,
        helpers: Vec::new(),
    }
}

fn report_missing((task, incarnation): Attempt) -> TaskReport {
    let (phase, health) = (ReportPhase::Missing, Health::Unknown);
    TaskReport {
        task,
        incarnation,
        phase,
        process: None,
        cores: Vec::new(),
        health,
        exit: None,
        resize: None,
        helpers: Vec::new(),
    }
}
