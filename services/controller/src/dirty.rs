//! Remembers which jobs and nodes must be examined, and hands them out in parts. A part is small enough that whoever
//! examines it holds the mirror's lock for well under a millisecond.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use borough_model::job::JobState;
use borough_model::node::NodeRow;
use borough_model::{Delta, JobId, JobRow, Name, NodeId};
use borough_store::mirror::MirrorState;

use crate::decide::is_emptied;

/// Tasks of the jobs of one part. A single job may have more.
const PART_TASKS: usize = 2_048;
/// What looking up a job costs, in tasks.
const JOB_WEIGHT: usize = 8;
/// Nodes of one part. A node has some tens of tasks.
const PART_NODES: usize = 32;

/// Jobs and nodes to examine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirty {
    jobs: BTreeSet<JobId>,
    nodes: BTreeSet<NodeId>,
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
}

/// What is examined at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirtyPart {
    pub jobs: Vec<JobId>,
    pub nodes: Vec<NodeId>,
}

impl Dirty {
    /// Returns true if nothing must be examined.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.nodes.is_empty()
    }

    /// Adds nodes to examine.
    pub(crate) fn nodes_add(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.nodes.extend(nodes);
    }

    /// Records what a delta affects.
    pub(crate) fn note(&mut self, delta: &Delta) {
        match delta {
            Delta::Job { row, .. } => self.job_note(row),
            Delta::Task { row } => {
                self.jobs.insert(row.id.job);
                self.nodes.extend(row.node);
                // A move lets the next task of its job leave a node that is emptied.
                self.nodes.extend(self.emptied.iter().copied());
            }
            Delta::Node { row } => self.node_note(row),
            Delta::NodeRemoved { node } => {
                self.emptied.remove(node);
            }
            Delta::CellSettings { .. } => self.settings = true,
            _ => {}
        }
    }

    /// Records a job, and after its end those that may have waited for it.
    fn job_note(&mut self, row: &JobRow) {
        self.jobs.insert(row.id);
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

    fn node_note(&mut self, row: &NodeRow) {
        self.nodes.insert(row.id);
        if is_emptied(row) {
            self.emptied.insert(row.id);
        } else {
            self.emptied.remove(&row.id);
        }
    }

    /// Takes a part of what is to be examined: bounded by the tasks that the examination visits.
    pub(crate) fn part(&mut self, state: &MirrorState) -> DirtyPart {
        let (mut part, mut tasks) = (DirtyPart::default(), 0_usize);
        while tasks < PART_TASKS {
            let Some(job) = next_after(&self.jobs, self.last_job) else { break };
            let count =
                state.jobs().get(&job).map_or(0, |row| usize::try_from(row.count).unwrap_or(usize::MAX));
            tasks = tasks.saturating_add(count).saturating_add(JOB_WEIGHT);
            if tasks > PART_TASKS && !part.jobs.is_empty() {
                break;
            }
            self.jobs.remove(&job);
            self.last_job = job;
            part.jobs.push(job);
        }
        while part.nodes.len() < PART_NODES {
            let Some(node) = next_after(&self.nodes, self.last_node) else { break };
            self.nodes.remove(&node);
            self.last_node = node;
            part.nodes.push(node);
        }
        part
    }
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
    use borough_model::{RequestId, Resources, TaskId, TaskRow};
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
            let part = dirty.part(state);
            assert!(part.nodes.len() <= PART_NODES, "{part:?}");
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
        dirty.note(&Delta::NodeRemoved { node: NodeId(3) });
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

    #[test]
    fn everything_is_examined_in_parts_of_bounded_work() {
        let jobs =
            (1..=1_000).map(|id| job(id, "ada", JobState::Running, if id % 100 == 0 { 5_000 } else { 1 }));
        let nodes = (1..=200).map(|id| node(id, false));
        let state = listed(jobs.chain(nodes));
        let (mut dirty, mut pass, mut steps) = (Dirty::default(), FullPass::BEGIN, 0);
        while pass != FullPass::Over {
            pass = pass.advance(&mut dirty, &state, 300);
            steps += 1;
        }
        assert_eq!(steps, 7, "four of jobs and an empty one, one of nodes and an empty one");
        let mut again = dirty.clone();
        let (jobs, nodes, _) = all(&mut dirty, &state);
        assert_eq!((jobs.len(), nodes.len()), (1_000, 200));
        while !again.is_empty() {
            let part = again.part(&state);
            let tasks: usize =
                part.jobs.iter().map(|job| state.jobs()[job].count as usize + JOB_WEIGHT).sum();
            assert!(tasks <= PART_TASKS || part.jobs.len() == 1, "{tasks} tasks of {} jobs", part.jobs.len());
        }
    }

    /// Low ids come first only once.
    #[test]
    fn what_changes_all_the_time_delays_nothing_else() {
        let state = listed((1..=10).map(|id| job(id, "ada", JobState::Running, 100_000)));
        let mut dirty = Dirty::default();
        FullPass::BEGIN.advance(&mut dirty, &state, 100);
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.extend(dirty.part(&state).jobs);
            dirty.note(&job(1, "ada", JobState::Running, 100_000));
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
