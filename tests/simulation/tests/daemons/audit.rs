//! The audit of the whole cell: which nodes must have a daemon, and which must have none. It reads rows and what runs
//! on the machines, and shares no decision with the controller.

use std::collections::BTreeMap;

use borough_model::node::{NodeRow, NodeState, TaintEffect};
use borough_model::task::{TaskRow, TaskState};
use borough_model::{Delta, JobId, NodeId, TaskId};

use crate::fleet::Fleet;
use crate::{EVERYWHERE, LABEL, LABELLED, SERVICE};

/// How long a node may be otherwise than it should be, in milliseconds: the next look, the decision, the start, and a
/// pause after failures.
const LATE_MS: i64 = 60_000;
/// The same for a drain: tasks of the service leave first, as many at a time as it may miss.
const DRAIN_MS: i64 = 120_000;

/// What a node must have of a daemon job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expected {
    One,
    None,
    /// It keeps what it has, and gets none.
    Kept,
    /// Nothing at all may be left on it.
    Empty,
}

/// The rows of the cell by its journal.
#[derive(Default)]
pub(crate) struct CellView {
    pub nodes: BTreeMap<NodeId, NodeRow>,
    tasks: BTreeMap<TaskId, TaskRow>,
    /// Since when a node is not as it should be.
    wrong: BTreeMap<(NodeId, JobId), (Expected, i64)>,
    pub broken: Vec<String>,
    /// How often a node was lost.
    pub lost: u64,
}

/// What the node must have of the job.
fn expected(node: &NodeRow, job: JobId) -> Expected {
    let ends = |effect| node.taints.iter().any(|taint| taint.effect == effect && !taint.key.contains('/'));
    if job == LABELLED && node.labels.get(LABEL.0).is_none_or(|value| value != LABEL.1) {
        Expected::None
    } else if node.state != NodeState::Ready {
        Expected::Kept
    } else if node.draining || ends(TaintEffect::NoExecute) {
        Expected::None
    } else if node.taints.is_empty() {
        Expected::One
    } else {
        Expected::Kept
    }
}

impl CellView {
    pub(crate) fn apply(&mut self, delta: &Delta, at_ms: i64) {
        match delta {
            Delta::Node { row } => {
                let before = self.nodes.insert(row.id, row.clone());
                let was_lost = before.is_some_and(|before| before.state == NodeState::Lost);
                self.lost += u64::from(row.state == NodeState::Lost && !was_lost);
            }
            Delta::NodeRemoved { node, .. } => {
                self.nodes.remove(node);
                self.wrong.retain(|(of, _), _| of != node);
                let left = self.tasks.values().find(|row| row.charged_node() == Some(*node));
                self.broken.extend(left.map(|row| format!("{} is on {node}, removed at {at_ms}", row.id)));
            }
            Delta::Task { row } => drop(self.tasks.insert(row.id, row.clone())),
            Delta::TaskRemoved { task, .. } => drop(self.tasks.remove(task)),
            _ => {}
        }
    }

    /// How many tasks of each job are on each node, and run there.
    fn counts(&self) -> BTreeMap<(NodeId, JobId), (usize, usize)> {
        let mut counts: BTreeMap<(NodeId, JobId), (usize, usize)> = BTreeMap::new();
        for row in self.tasks.values() {
            if let Some(node) = row.charged_node() {
                let of = counts.entry((node, row.id.job)).or_default();
                of.0 += 1;
                of.1 += usize::from(row.state == TaskState::Running);
            }
        }
        counts
    }

    /// Checks every node. What is wrong for too long is broken.
    pub(crate) fn look(&mut self, now_ms: i64, fleet: &Fleet) {
        let counts = self.counts();
        let of = |node: NodeId, job| counts.get(&(node, job)).copied().unwrap_or_default();
        for node in self.nodes.values() {
            // Nobody hears what a silent agent would say.
            if fleet.is_silent(node.id) {
                self.wrong.retain(|(of, _), _| *of != node.id);
                continue;
            }
            for job in [EVERYWHERE, LABELLED] {
                let running = fleet.running(node.id, job);
                if running > 1 {
                    self.broken.push(format!("{running} attempts of {job} run on {}", node.name));
                }
                let (charged, runs) = of(node.id, job);
                let expected = expected(node, job);
                let is_right = match expected {
                    Expected::One => (charged, runs, running) == (1, 1, 1),
                    Expected::None | Expected::Empty => charged == 0 && running == 0,
                    Expected::Kept => true,
                };
                let key = (node.id, job);
                let known = self.broken.len();
                note(&mut self.wrong, &mut self.broken, key, (expected, is_right), (now_ms, LATE_MS));
                if self.broken.len() > known {
                    let rows = self
                        .tasks
                        .values()
                        .filter(|row| row.id.job == job && row.node_served() == Some(node.id));
                    let rows = rows.map(|row| {
                        format!("{} {:?} attempt {} on {:?}", row.id, row.state, row.incarnation, row.node)
                    });
                    let rows: Vec<String> = rows.collect();
                    self.broken
                        .push(format!("{}: {charged} charged, {running} run, rows {rows:?}", node.name));
                }
            }
            if node.draining && node.state == NodeState::Ready {
                let left = of(node.id, SERVICE).0;
                let key = (node.id, SERVICE);
                note(
                    &mut self.wrong,
                    &mut self.broken,
                    key,
                    (Expected::Empty, left == 0),
                    (now_ms, DRAIN_MS),
                );
            } else {
                self.wrong.remove(&(node.id, SERVICE));
            }
        }
    }

    /// What is not at rest: a node that is not as it was, or has not exactly what it must have.
    pub(crate) fn unsettled(&self, fleet: &Fleet) -> Vec<String> {
        let counts = self.counts();
        let mut open = Vec::new();
        let mut wanted = BTreeMap::from([(EVERYWHERE, 0_usize), (LABELLED, 0)]);
        for node in self.nodes.values() {
            if node.state != NodeState::Ready || node.draining || !node.taints.is_empty() {
                open.push(format!("{} is {:?}, with {:?}", node.name, node.state, node.taints));
                continue;
            }
            for job in [EVERYWHERE, LABELLED] {
                let one = usize::from(expected(node, job) == Expected::One);
                *wanted.entry(job).or_default() += one;
                let has = counts.get(&(node.id, job)).copied().unwrap_or_default();
                let running = fleet.running(node.id, job);
                if has != (one, one) || running != one {
                    open.push(format!("{} has {has:?} of {job}, {running} run, and {one} should", node.name));
                }
            }
        }
        for (job, wanted) in wanted {
            let served = self.tasks.values().filter(|row| row.id.job == job && !row.is_withdrawn()).count();
            if served != wanted {
                open.push(format!("{job} has {served} tasks for {wanted} nodes"));
            }
        }
        let waits =
            self.tasks.values().filter(|row| row.id.job == SERVICE && row.state != TaskState::Running);
        open.extend(waits.map(|row| format!("{} is {:?}", row.id, row.state)));
        open
    }
}

/// Notes whether a node is as it should be, and what has been wrong for too long.
fn note(
    wrong: &mut BTreeMap<(NodeId, JobId), (Expected, i64)>,
    broken: &mut Vec<String>,
    key: (NodeId, JobId),
    (expected, is_right): (Expected, bool),
    (now_ms, most_ms): (i64, i64),
) {
    if is_right {
        wrong.remove(&key);
        return;
    }
    let since = wrong.entry(key).or_insert((expected, now_ms));
    if since.0 != expected {
        *since = (expected, now_ms);
    }
    if now_ms - since.1 > most_ms {
        broken.push(format!("{} should have {expected:?} of {} since {}", key.0, key.1, since.1));
    }
}
