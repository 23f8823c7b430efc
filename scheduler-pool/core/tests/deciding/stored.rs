//! A cell as the store has it: its rows, and a journal of the changes.

use std::collections::BTreeMap;

use borough_model::job::{JobState, job_new};
use borough_model::node::{
    LoadMeasured, NodeLoad, NodeState, node_alloc_forgo, node_alloc_fulfil, node_alloc_release,
    node_alloc_touch,
};
use borough_model::resource::resources_sub;
use borough_model::task::{Attempt, TaskEvent, holds_ready, node_alloc_sum, task_transition};
use borough_model::{
    Delta, JobId, JobRow, JobSpec, Name, NodeAlloc, NodeId, NodeRow, RequestId, Resources, TaskId, TaskRow,
    TaskState,
};
use borough_scheduler_core::{CellSettings, Plan, PlannedPlacement, Snapshot, Victim};

/// The rows of a cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredCell {
    pub settings: CellSettings,
    pub now_ms: i64,
    pub nodes: BTreeMap<NodeId, (NodeRow, NodeAlloc)>,
    pub loads: BTreeMap<NodeId, NodeLoad>,
    pub jobs: BTreeMap<JobId, (JobRow, JobSpec)>,
    pub tasks: BTreeMap<TaskId, TaskRow>,
    /// The changes that no snapshot has seen yet.
    pub journal: Vec<Delta>,
    /// The victims of committed plans, in order.
    pub evictions: Vec<Victim>,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// A node that takes tasks, with ports 20000 to 20009.
pub(crate) fn node(number: u64, cores: u64, gib: u64) -> NodeRow {
    NodeRow {
        id: NodeId(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        name: name(&format!("node-{number}")),
        state: NodeState::Ready,
        schedulable: true,
        draining: false,
        capacity: Resources { cpu_millis: cores * 1000, memory_bytes: gib << 30, ..Resources::default() },
        port_first: 20000,
        port_last: 20009,
        attributes: BTreeMap::new(),
        labels: BTreeMap::new(),
        host: "127.0.0.1".to_owned(),
        boot_id: String::new(),
        agent_version: String::new(),
        revision: 1,
        changed_ms: 0,
        taints: Vec::new(),
        cards: Vec::new(),
        domains: Vec::new(),
        packages: Default::default(),
        identity: None,
    }
}

impl StoredCell {
    pub(crate) fn node_put(&mut self, mut row: NodeRow) {
        let (before, alloc) = match self.nodes.get(&row.id) {
            Some((before, alloc)) => (before.revision, node_alloc_touch(alloc)),
            None => (0, NodeAlloc::default()),
        };
        row.revision = before + 1;
        self.journal.push(Delta::Node { row: row.clone() });
        self.journal.push(Delta::NodeAlloc { node: row.id, alloc: alloc.clone() });
        self.nodes.insert(row.id, (row, alloc));
    }

    pub(crate) fn node_change(&mut self, id: NodeId, change: impl FnOnce(&mut NodeRow)) {
        let Some((row, _)) = self.nodes.get(&id) else { return };
        let mut row = row.clone();
        change(&mut row);
        self.node_put(row);
    }

    /// Writes the measurement of a node's agent.
    pub(crate) fn load_put(&mut self, node: NodeId, measured: Option<LoadMeasured>) {
        let revision = self.loads.get(&node).map_or(0, |before| before.revision) + 1;
        let load = NodeLoad { revision, changed_ms: self.now_ms, measured, ..NodeLoad::default() };
        self.journal.push(Delta::NodeLoad { node, load: load.clone() });
        self.loads.insert(node, load);
    }

    pub(crate) fn job_submit(&mut self, id: JobId, spec: &JobSpec) -> JobId {
        let mut row = job_new(id, spec, RequestId::default(), self.now_ms);
        row.state = JobState::Running;
        self.journal.push(Delta::Job { row: row.clone().into(), spec: Some(Box::new(spec.clone())) });
        self.jobs.insert(id, (row, spec.clone()));
        id
    }

    pub(crate) fn job_change(&mut self, id: JobId, change: impl FnOnce(&mut JobRow)) {
        let Some((row, _)) = self.jobs.get_mut(&id) else { return };
        change(row);
        row.revision += 1;
        self.journal.push(Delta::Job { row: row.clone().into(), spec: None });
    }

    /// Gives a job the next version of its spec.
    pub(crate) fn job_respec(&mut self, id: JobId, spec: &JobSpec) {
        let Some((row, known)) = self.jobs.get_mut(&id) else { return };
        row.revision += 1;
        row.spec_version += 1;
        known.clone_from(spec);
        self.journal.push(Delta::Job { row: row.clone().into(), spec: Some(Box::new(spec.clone())) });
    }

    pub(crate) fn task_put(&mut self, mut row: TaskRow) {
        row.revision = self.tasks.get(&row.id).map_or(0, |before| before.revision) + 1;
        self.journal.push(Delta::Task { row: row.clone() });
        self.tasks.insert(row.id, row);
    }

    /// Ends an attempt: releases its capacity, lets its ports cool down, and leaves the row as `change` makes it.
    pub(crate) fn task_end(&mut self, id: TaskId, cool_ms: Option<i64>, change: impl FnOnce(&mut TaskRow)) {
        let Some(row) = self.tasks.get(&id).filter(|row| row.charged_node().is_some()) else { return };
        let mut row = row.clone();
        let node = row.charged_node().expect("charged");
        let (_, alloc) = self.nodes.get_mut(&node).expect("a charged node is there");
        let until_ms = cool_ms.map(|cool_ms| self.now_ms + cool_ms);
        let (resources, ports) = (&row.charge.resources, row.port_numbers());
        let left = if row.promised {
            node_alloc_forgo(alloc, resources, &ports)
        } else {
            node_alloc_release(alloc, resources, &ports, until_ms)
        };
        *alloc = left.expect("what was charged is held");
        self.journal.push(Delta::NodeAlloc { node, alloc: alloc.clone() });
        row.ports.clear();
        row.promised = false;
        change(&mut row);
        self.task_put(row);
        self.promises_keep(node);
    }

    /// Changes the commitment of a node alone.
    pub(crate) fn alloc_change(&mut self, node: NodeId, change: impl FnOnce(&NodeAlloc) -> NodeAlloc) {
        let (_, alloc) = self.nodes.get_mut(&node).expect("a known node");
        *alloc = change(alloc);
        self.journal.push(Delta::NodeAlloc { node, alloc: alloc.clone() });
    }

    /// Gives held tasks of a node what they were promised, as far as it is free now.
    fn promises_keep(&mut self, node: NodeId) {
        let (row, alloc) = self.nodes.get(&node).expect("a known node").clone();
        let mut held: Vec<&TaskRow> = self.tasks.values().filter(|row| row.node == Some(node)).collect();
        held.sort_by_key(|row| (row.changed_ms, row.id));
        let capacity = self.limits(&row);
        for task in holds_ready(&capacity, &alloc, held) {
            let before = self.tasks.get(&task).expect("a known task");
            let attempt = Attempt { node, incarnation: before.incarnation };
            let confirmed = task_transition(before, &TaskEvent::HoldConfirmed { attempt }, self.now_ms);
            let confirmed = confirmed.expect("it is held").row;
            let (_, alloc) = self.nodes.get_mut(&node).expect("a known node");
            *alloc = node_alloc_fulfil(alloc, &capacity, &confirmed.charge.resources).expect("it is free");
            self.journal.push(Delta::NodeAlloc { node, alloc: alloc.clone() });
            self.task_put(confirmed);
        }
    }

    /// Checks that each node's allocation is the sum of its tasks.
    pub(crate) fn sums_checked(&self) {
        for (node, (row, alloc)) in &self.nodes {
            let there = self.tasks.values().filter(|row| row.charged_node() == Some(*node));
            let sum = node_alloc_sum(there).expect("in range");
            let nothing = |left: &Resources, right: &Resources| {
                let left = resources_sub(left, right);
                left.is_ok_and(|left| left.is_zero())
            };
            assert!(
                nothing(&alloc.used, &sum.used) && nothing(&sum.used, &alloc.used),
                "{}: {alloc:?} {sum:?}",
                row.name
            );
            let same = nothing(&alloc.promised, &sum.promised) && nothing(&sum.promised, &alloc.promised);
            assert!(same, "{}: {alloc:?} {sum:?}", row.name);
            assert_eq!((alloc.tasks, &alloc.ports), (sum.tasks, &sum.ports), "{}", row.name);
        }
    }

    /// The limits of a node, overcommit included.
    pub(crate) fn limits(&self, row: &NodeRow) -> Resources {
        let memory =
            u128::from(row.capacity.memory_bytes) * u128::from(self.settings.overcommit.memory_per_mille);
        let memory_bytes = u64::try_from(memory / 1000).expect("in range");
        Resources { memory_bytes, ..row.capacity.clone() }
    }

    /// Commits a plan by the rules of the model, which refuse impossible changes.
    pub(crate) fn commit(&mut self, plan: &Plan) {
        for placement in &plan.placements {
            self.placement_commit(placement);
        }
        for change in &plan.changes {
            let (_, alloc) = self.nodes.get_mut(&change.node).expect("a known node");
            assert_eq!(change.alloc.epoch, alloc.epoch + 1, "the plan was made on the newest commitment");
            *alloc = change.alloc.clone();
            self.journal.push(Delta::NodeAlloc { node: change.node, alloc: alloc.clone() });
        }
    }

    fn placement_commit(&mut self, placement: &PlannedPlacement) {
        self.evictions.extend(placement.victims.iter().cloned());
        for victim in &placement.victims {
            let before = self.tasks.get(&victim.task).expect("a known task");
            assert_eq!(before.revision, victim.revision);
            let evicted = task_transition(before, &TaskEvent::Evict(victim.evicted), self.now_ms);
            self.task_put(evicted.expect("it gives way").row);
        }
        let known = self.tasks.get(&placement.task).cloned();
        let before = known.unwrap_or_else(|| TaskRow::never_placed(placement.task));
        let event = placement.event(None);
        let transition = task_transition(&before, &event, self.now_ms).expect("the task may be placed");
        self.task_put(transition.row);
    }

    /// Applies the journal to a snapshot that has seen everything before.
    pub(crate) fn journal_apply(&mut self, snapshot: &mut Snapshot) {
        for delta in self.journal.drain(..) {
            snapshot.apply(&delta);
        }
    }

    /// Builds a snapshot from the rows. The seed decides the order of the rows.
    pub(crate) fn snapshot(&self, seed: u64) -> Snapshot {
        let node = |(row, alloc): &(NodeRow, NodeAlloc)| {
            [Delta::Node { row: row.clone() }, Delta::NodeAlloc { node: row.id, alloc: alloc.clone() }]
        };
        let job = |(row, spec): &(JobRow, JobSpec)| Delta::Job {
            row: row.clone().into(),
            spec: Some(Box::new(spec.clone())),
        };
        let mut deltas: Vec<Delta> = self.nodes.values().flat_map(node).collect();
        let load = |(&node, load): (&NodeId, &NodeLoad)| Delta::NodeLoad { node, load: load.clone() };
        deltas.extend(self.loads.iter().map(load));
        deltas.extend(self.jobs.values().map(job));
        deltas.extend(self.tasks.values().map(|row| Delta::Task { row: row.clone() }));
        let mut keyed: Vec<(u64, Delta)> = deltas
            .into_iter()
            .zip(0u64..)
            .map(|(delta, number)| {
                ((number ^ seed).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(23), delta)
            })
            .collect();
        keyed.sort_by_key(|&(key, _)| key);
        let mut snapshot = Snapshot::new(self.settings.clone());
        for (_, delta) in &keyed {
            snapshot.apply(delta);
        }
        snapshot
    }

    /// The tasks of a job that are placed.
    pub(crate) fn resident(&self, job: JobId) -> impl Iterator<Item = &TaskRow> {
        use TaskState::{Assigned, Held, Running, Starting};
        let rows = self.tasks.values().filter(move |row| row.id.job == job);
        rows.filter(|row| matches!(row.state, Held | Assigned | Starting | Running))
    }
}

/// A job of `count` tasks with this much processor time and memory.
pub(crate) fn spec(user: &str, job: &str, count: u32, cpu_millis: u64, mib: u64) -> JobSpec {
    let kind = borough_model::job::JobKind::Batch;
    let mut spec = JobSpec::defaults(name(user), name(job), kind, vec!["true".to_owned()]);
    spec.count = count;
    spec.task.resources = Resources { cpu_millis, memory_bytes: mib << 20, ..Resources::default() };
    spec
}
