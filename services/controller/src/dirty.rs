//! Remembers which jobs and nodes must be examined, and hands them out in parts. A part is small enough that whoever
//! examines it holds the mirror's lock for well under a millisecond.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use borough_model::job::{JobState, Rollout, RolloutState};
use borough_model::node::{NodeRow, NodeState};
use borough_model::{Delta, JobId, JobRow, Name, NodeId, TaskState};
use borough_store::mirror::MirrorState;

use crate::decide::{ControllerAction, is_emptied};
use crate::scan::{JobScan, LookTimes};

/// Tasks that the examination of jobs visits in one part, and tasks of the nodes of one part. A single node may have
/// more.
const PART_TASKS: usize = 2_048;
/// What looking up a job costs, in tasks.
const JOB_WEIGHT: usize = 8;
/// The same for a job that waits for others: its spec is decoded, and they are looked up by their names.
const WAITING_WEIGHT: usize = 128;
/// Nodes of one part. A node has some tens of tasks.
const PART_NODES: usize = 32;
/// What a task costs on a node that is lost or emptied: its job's spec is decoded.
const SPEC_WEIGHT: usize = 16;

/// Jobs and nodes to examine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirty {
    jobs: BTreeSet<JobId>,
    nodes: BTreeSet<NodeId>,
    /// The job whose examination goes on with the next part.
    scan: Option<JobScan>,
    /// What was handed out last: the next part goes on behind it, so that what changes all the time delays no other.
    last_job: JobId,
    last_node: NodeId,
    /// Whether the cell's settings have changed.
    pub settings: bool,
    /// Jobs that wait for other jobs of their user.
    waiting: BTreeMap<Name, BTreeSet<JobId>>,
    /// Nodes that are emptied or drive attempts away. They are few, known from their rows, and examined with every
    /// move.
    emptied: BTreeSet<NodeId>,
    /// Jobs whose rollout goes on, or has failed: their tasks may be well all the same.
    rolling: BTreeSet<JobId>,
    /// Daemon jobs that run, with what their last look at the nodes followed from.
    daemons: BTreeMap<JobId, DaemonSeen>,
    /// Those of them that are to look at the nodes.
    looking: BTreeSet<JobId>,
    /// Whether a node, or a task of a daemon job, has changed since the last tick.
    nodes_changed: bool,
}

/// What a daemon job looks at the nodes again for at once: its spec, or a step that may have left some for the next
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DaemonSeen {
    spec_version: u32,
    priority: u32,
    steps: u64,
}

/// What is examined at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirtyPart {
    /// The jobs whose examination is over.
    pub jobs: Vec<JobId>,
    /// What to do for them.
    pub actions: Vec<ControllerAction>,
    /// What the examination of jobs has cost, in tasks.
    pub visited: usize,
    /// Nodes to examine.
    pub nodes: Vec<NodeId>,
}

impl Dirty {
    /// Returns true if nothing must be examined.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.nodes.is_empty() && self.scan.is_none()
    }

    /// Nodes that are emptied or drive attempts away.
    pub(crate) fn emptied(&self) -> &BTreeSet<NodeId> {
        &self.emptied
    }

    /// Adds nodes to examine.
    pub(crate) fn nodes_add(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.nodes.extend(nodes);
    }

    /// Adds the jobs whose rollout goes on: what it does next depends on time too.
    pub(crate) fn rollouts_add(&mut self) {
        self.jobs.extend(self.rolling.iter().copied());
    }

    /// Adds the daemon jobs, if a node has changed or one waits for its quota. A burst of changes costs one look a
    /// tick.
    pub(crate) fn daemons_add(&mut self, state: &MirrorState) {
        let waits = |job: &JobId| {
            let row = state.jobs().get(job);
            row.and_then(|row| row.daemon.as_ref()).is_some_and(|daemon| daemon.unadmitted > 0)
        };
        let all = std::mem::take(&mut self.nodes_changed);
        let due: Vec<JobId> = self.daemons.keys().filter(|job| all || waits(job)).copied().collect();
        self.jobs.extend(due.iter().copied());
        self.looking.extend(due);
    }

    /// Records what a delta affects.
    pub(crate) fn note(&mut self, delta: &Delta) {
        match delta {
            Delta::Job { row, .. } => self.job_note(row),
            Delta::Task { row } => {
                self.jobs.insert(row.id.job);
                let waits = matches!(row.state, TaskState::Pending | TaskState::Dead);
                self.nodes_changed |= row.daemon_node.is_some() && waits;
                self.nodes.extend(row.node);
                // A move lets the next task of its job leave a node that is emptied.
                self.nodes.extend(self.emptied.iter().copied());
            }
            Delta::Node { row } => self.node_note(row),
            Delta::NodeRemoved { node, .. } => {
                self.nodes_changed = true;
                self.emptied.remove(node);
            }
            Delta::JobRemoved { job, .. } => {
                self.rolling.remove(job);
                self.daemons.remove(job);
            }
            Delta::CellSettings { .. } => self.settings = true,
            _ => {}
        }
    }

    /// Records a job, and after its end those that may have waited for it.
    fn job_note(&mut self, row: &JobRow) {
        self.jobs.insert(row.id);
        let is_rolling =
            |rollout: &Rollout| matches!(rollout.state, RolloutState::Rolling | RolloutState::Failed);
        if row.state == JobState::Running && row.rollout.as_deref().is_some_and(is_rolling) {
            self.rolling.insert(row.id);
        } else {
            self.rolling.remove(&row.id);
        }
        self.daemon_note(row);
        match row.state {
            JobState::Waiting => {
                self.waiting.entry(row.user.clone()).or_default().insert(row.id);
            }
            JobState::Running | JobState::Stopping | JobState::Ended { .. } => {
                let Some(of_user) = self.waiting.get_mut(&row.user) else { return };
                of_user.remove(&row.id);
                if of_user.is_empty() {
                    self.waiting.remove(&row.user);
                } else if matches!(row.state, JobState::Ended { .. }) {
                    self.jobs.extend(of_user.iter().copied());
                }
            }
        }
    }

    fn daemon_note(&mut self, row: &JobRow) {
        let Some(daemon) = row.daemon.as_ref().filter(|_| row.state == JobState::Running) else {
            self.daemons.remove(&row.id);
            return;
        };
        let JobRow { spec_version, priority, .. } = *row;
        let seen = DaemonSeen { spec_version, priority, steps: daemon.steps };
        if self.daemons.insert(row.id, seen) != Some(seen) {
            self.looking.insert(row.id);
        }
    }

    fn node_note(&mut self, row: &NodeRow) {
        self.nodes_changed = true;
        self.nodes.insert(row.id);
        if is_emptied(row) {
            self.emptied.insert(row.id);
        } else {
            self.emptied.remove(&row.id);
        }
    }

    /// Takes a part of what is to be examined, bounded by the tasks that are visited. Examines the jobs of it. The
    /// examination of a job with many tasks goes on with the next part.
    pub(crate) fn part(&mut self, state: &MirrorState, times: LookTimes) -> DirtyPart {
        let mut part = DirtyPart::default();
        while part.visited < PART_TASKS {
            let Some(mut scan) = self.scan.take().or_else(|| self.job_next(state, &mut part, times)) else {
                break;
            };
            let step = scan.advance(state, PART_TASKS.saturating_sub(part.visited), times);
            part.visited = part.visited.saturating_add(step.visited);
            match step.actions {
                Some(actions) => {
                    part.jobs.push(scan.job);
                    part.actions.extend(actions);
                }
                None => self.scan = Some(scan),
            }
        }
        let mut tasks = 0_usize;
        while part.nodes.len() < PART_NODES {
            let Some(node) = next_after(&self.nodes, self.last_node) else { break };
            tasks = tasks.saturating_add(node_weight(state, node));
            if tasks > PART_TASKS && !part.nodes.is_empty() {
                break;
            }
            self.nodes.remove(&node);
            self.last_node = node;
            part.nodes.push(node);
        }
        part
    }

    /// The next job, if what is left of the part has room for it.
    fn job_next(&mut self, state: &MirrorState, part: &mut DirtyPart, times: LookTimes) -> Option<JobScan> {
        loop {
            let job = next_after(&self.jobs, self.last_job)?;
            let row = state.jobs().get(&job);
            let weight = match row.map(|row| row.state) {
                Some(JobState::Waiting) => WAITING_WEIGHT,
                _ => JOB_WEIGHT,
            };
            let visited = part.visited.saturating_add(weight);
            if visited > PART_TASKS {
                return None;
            }
            part.visited = visited;
            self.jobs.remove(&job);
            self.last_job = job;
            let looks = self.looking.remove(&job);
            match row {
                Some(row) => {
                    let scan = JobScan::begin(state, row, times);
                    return Some(if looks { scan.with_nodes(state, row) } else { scan });
                }
                None => part.jobs.push(job),
            }
        }
    }
}

/// What the examination of a node costs, in tasks.
fn node_weight(state: &MirrorState, node: NodeId) -> usize {
    let reads_specs = |row: &Arc<NodeRow>| row.state == NodeState::Lost || is_emptied(row);
    let each = if state.nodes().get(&node).is_some_and(reads_specs) { SPEC_WEIGHT } else { 1 };
    state.node_tasks_count(node).saturating_mul(each)
}

/// The first behind `last`, or else the first of all.
fn next_after<T: Copy + Ord>(set: &BTreeSet<T>, last: T) -> Option<T> {
    let behind = set.range((Bound::Excluded(last), Bound::Unbounded)).next();
    behind.or_else(|| set.first()).copied()
}

/// A pass over all jobs and nodes, whatever changes were noticed. It goes on a little with each tick, and takes about
/// `FULL_PASS` in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FullPass {
    Jobs(Bound<JobId>),
    Nodes(Bound<NodeId>),
    Over,
}

/// How long a pass takes, at least.
const FULL_PASS: Duration = Duration::from_secs(30);
impl FullPass {
    /// A pass from the beginning.
    pub(crate) const BEGIN: Self = Self::Jobs(Bound::Unbounded);
    /// Jobs, or nodes, that are added under one hold of the mirror's lock.
    pub(crate) const AT_ONCE: usize = 1_024;

    /// How many jobs or nodes the pass over `state` adds with every `tick`.
    pub(crate) fn step(state: &MirrorState, tick: Duration) -> usize {
        let all = state.jobs().len().saturating_add(state.nodes().len());
        let ticks = FULL_PASS.as_millis().checked_div(tick.as_millis()).unwrap_or(1);
        all.div_ceil(usize::try_from(ticks).unwrap_or(usize::MAX).max(1)).max(Self::AT_ONCE)
    }

    /// Adds the next jobs or nodes to `dirty`, at most `most`.
    pub(crate) fn advance(self, dirty: &mut Dirty, state: &MirrorState, most: usize) -> Self {
        match self {
            Self::Jobs(from) => {
                let mut last = None;
                for (job, row) in state.jobs().range((from, Bound::Unbounded)).take(most) {
                    dirty.job_note(row);
                    last = Some(*job);
                }
                last.map_or(Self::Nodes(Bound::Unbounded), |last| Self::Jobs(Bound::Excluded(last)))
            }
            Self::Nodes(from) => {
                let mut last = None;
                for (node, row) in state.nodes().range((from, Bound::Unbounded)).take(most) {
                    dirty.node_note(row);
                    last = Some(*node);
                }
                last.map_or(Self::Over, |last| Self::Nodes(Bound::Excluded(last)))
            }
            Self::Over => Self::Over,
        }
    }

    /// Whether the next pass begins: this one is over, and it began at least [`FULL_PASS`] ago.
    pub(crate) fn is_due(self, begun: Duration, now: Duration) -> bool {
        self == Self::Over && now.saturating_sub(begun) >= FULL_PASS
    }
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobKind, JobOutcome, JobSpec, job_new};
    use borough_model::node::node_new;
    use borough_model::{RequestId, Resources, TaskId, TaskRow, TaskState};
    use borough_store::journal::Listed;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn job(id: u64, user: &str, state: JobState, count: u32) -> Delta {
        let spec = JobSpec::defaults(name(user), name("web"), JobKind::Batch, vec!["run".to_owned()]);
        let row = job_new(JobId(id), &spec, RequestId(1), 0);
        Delta::Job { row: JobRow { state, count, ..row }.into(), spec: None }
    }

    fn node(id: u64, draining: bool) -> Delta {
        let facts = borough_testkit::node_facts(Resources::default());
        let row = node_new(NodeId(id), name(&format!("n{id}")), facts, 0);
        Delta::Node { row: NodeRow { draining, ..row } }
    }

    fn listed(deltas: impl IntoIterator<Item = Delta>) -> MirrorState {
        let mut state = MirrorState::default();
        for delta in deltas {
            state.list(Listed::Row(Box::new(delta)));
        }
        state
    }

    /// Takes everything, and returns it with the number of parts.
    fn all(dirty: &mut Dirty, state: &MirrorState) -> (BTreeSet<JobId>, BTreeSet<NodeId>, usize) {
        let (mut jobs, mut nodes, mut parts) = (BTreeSet::new(), BTreeSet::new(), 0);
        while !dirty.is_empty() {
            let part = dirty.part(state, LookTimes::default());
            assert!(part.nodes.len() <= PART_NODES && part.visited <= PART_TASKS, "{part:?}");
            jobs.extend(part.jobs);
            nodes.extend(part.nodes);
            parts += 1;
        }
        (jobs, nodes, parts)
    }

    #[test]
    fn a_move_is_what_emptied_nodes_are_looked_at_for() {
        let state = MirrorState::default();
        let moved = Delta::Task { row: TaskRow::never_placed(TaskId { job: JobId(1), index: 0 }) };
        let looked = |dirty: &mut Dirty| {
            dirty.note(&moved);
            all(dirty, &state).1
        };
        let mut dirty = Dirty::default();
        for delta in [node(1, true), node(2, false), node(3, true)] {
            dirty.note(&delta);
        }
        all(&mut dirty, &state);
        assert_eq!(looked(&mut dirty), BTreeSet::from([NodeId(1), NodeId(3)]));
        dirty.note(&node(1, false));
        dirty.note(&Delta::NodeRemoved { node: NodeId(3), name: None });
        all(&mut dirty, &state);
        assert_eq!(looked(&mut dirty), BTreeSet::new());
    }

    #[test]
    fn the_end_of_a_job_is_what_its_user_s_waiting_jobs_are_looked_at_for() {
        let outcome = JobOutcome::Succeeded;
        let state = MirrorState::default();
        for (first, user, looked) in [
            (JobState::Running, "ada", false),
            (JobState::Ended { outcome }, "bob", false),
            (JobState::Ended { outcome }, "ada", true),
        ] {
            let mut dirty = Dirty::default();
            dirty.note(&job(2, "ada", JobState::Waiting, 1));
            all(&mut dirty, &state);
            dirty.note(&job(1, user, first, 1));
            assert_eq!(all(&mut dirty, &state).0.contains(&JobId(2)), looked);
            dirty.note(&job(2, "ada", JobState::Running, 1));
            assert!(dirty.waiting.is_empty(), "it waits no more");
        }
    }

    /// Rows of tasks that run.
    fn tasks(job: u64, count: u32) -> impl Iterator<Item = Delta> {
        (0..count).map(move |index| {
            let row = TaskRow::never_placed(TaskId { job: JobId(job), index });
            Delta::Task { row: TaskRow { state: TaskState::Running, revision: 1, ..row } }
        })
    }

    #[test]
    fn everything_is_examined_in_parts_of_bounded_work() {
        let count = |id: u64| if id.is_multiple_of(100) { 5_000 } else { 1 };
        let jobs = (1..=1_000).map(|id| job(id, "ada", JobState::Running, count(id)));
        let nodes = (1..=200).map(|id| node(id, false));
        let state = listed(jobs.chain((1..=1_000).flat_map(|id| tasks(id, count(id)))).chain(nodes));
        let (mut dirty, mut pass, mut steps) = (Dirty::default(), FullPass::BEGIN, 0);
        while pass != FullPass::Over {
            pass = pass.advance(&mut dirty, &state, 300);
            steps += 1;
        }
        assert_eq!(steps, 7, "four of jobs and an empty one, one of nodes and an empty one");
        let (jobs, nodes, parts) = all(&mut dirty, &state);
        assert_eq!((jobs.len(), nodes.len()), (1_000, 200));
        let work = 10 * 5_000 + 990 + 1_000 * JOB_WEIGHT;
        assert!((work / PART_TASKS..=work / PART_TASKS + 20).contains(&parts), "{parts} parts");
    }

    /// A job that has shrunk keeps the rows of tasks that it does not want any more.
    #[test]
    fn a_job_of_many_tasks_is_examined_in_several_parts_and_then_decided() {
        let many = u32::try_from(PART_TASKS).unwrap() * 3;
        let mut state = listed([job(1, "ada", JobState::Stopping, 1)].into_iter().chain(tasks(1, many)));
        for index in 0..many {
            let known = TaskRow::never_placed(TaskId { job: JobId(1), index });
            let row = TaskRow { state: TaskState::Dead, revision: 2, ..known };
            state.list(Listed::Row(Box::new(Delta::Task { row })));
        }
        let (mut dirty, mut parts) = (Dirty::default(), 0);
        dirty.note(&job(1, "ada", JobState::Stopping, 1));
        loop {
            let part = dirty.part(&state, LookTimes::default());
            parts += 1;
            assert!(part.visited <= PART_TASKS, "{part:?}");
            if dirty.is_empty() {
                assert_eq!(part.actions, [ControllerAction::JobEnd(JobId(1))]);
                break;
            }
            assert_eq!(part.actions, []);
        }
        assert_eq!(parts, 4);
    }

    /// A node that is lost needs the specs of its tasks, so a part has fewer of them.
    #[test]
    fn nodes_are_examined_by_the_number_of_their_tasks() {
        let row = |id, index, node| TaskRow {
            state: TaskState::Running,
            node: Some(NodeId(node)),
            revision: 1,
            ..TaskRow::never_placed(TaskId { job: JobId(id), index })
        };
        let state = |is| {
            let mut state = MirrorState::default();
            for id in 1..=40 {
                let Delta::Node { row: known } = node(id, false) else { unreachable!("it is a node") };
                let rows = (0..100).map(|index| Delta::Task { row: row(id, index, id) });
                let node = Delta::Node { row: NodeRow { state: is, ..known } };
                for delta in rows.chain([node]) {
                    state.list(Listed::Row(Box::new(delta)));
                }
            }
            state
        };
        for (is, most) in [(NodeState::Ready, PART_TASKS / 100), (NodeState::Lost, 1)] {
            let mut dirty = Dirty::default();
            dirty.nodes_add((1..=40).map(NodeId));
            let part = dirty.part(&state(is), LookTimes::default());
            assert_eq!(part.nodes.len(), most, "{is:?}");
        }
    }

    /// Low ids come first only once.
    #[test]
    fn what_changes_all_the_time_delays_nothing_else() {
        let jobs = (1..=10).map(|id| job(id, "ada", JobState::Running, 5_000));
        let state = listed(jobs.chain((1..=10).flat_map(|id| tasks(id, 5_000))));
        let mut dirty = Dirty::default();
        FullPass::BEGIN.advance(&mut dirty, &state, 100);
        let mut seen = Vec::new();
        while seen.len() < 10 {
            seen.extend(dirty.part(&state, LookTimes::default()).jobs);
            dirty.note(&job(1, "ada", JobState::Running, 5_000));
        }
        assert_eq!(seen, (1..=10).map(JobId).collect::<Vec<_>>());
    }

    #[test]
    fn a_pass_takes_its_time_and_then_begins_again() {
        let state = listed((1..=5_000).map(|id| job(id, "ada", JobState::Running, 1)));
        assert_eq!(FullPass::step(&state, Duration::from_secs(1)), FullPass::AT_ONCE);
        assert_eq!(FullPass::step(&state, Duration::from_secs(15)), 2_500);
        assert_eq!(FullPass::step(&state, Duration::ZERO), 5_000);
        let at = Duration::from_secs;
        assert!(FullPass::Over.is_due(at(10), at(40)) && !FullPass::Over.is_due(at(10), at(39)));
        assert!(!FullPass::BEGIN.is_due(at(10), at(400)), "this one is not over");
    }
}
