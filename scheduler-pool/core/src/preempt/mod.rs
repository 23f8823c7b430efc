//! Preemption: which tasks are evicted for a task that fits nowhere. Pure functions. A plan asks only for tasks that no
//! node takes otherwise.
//!
//! The rules, after Borg (EuroSys 2015, §2.5):
//!
//! - A victim has a lower priority than its preemptor. In the bands production and monitoring it is also of a lower
//!   band. An evicted task evicts nobody of its own band, so evictions do not cascade
//!   (`borough_model::job::victims_below` computes the bound).
//! - No victim can be spared: the task would not fit if any one of them stayed. Nodes are compared by the cost of their
//!   evictions ([`PreemptionCost`]).
//! - Within its band, a preemptor leaves a service as many tasks as the disruption budget of that service says. A
//!   higher band exceeds a budget if no other victims suffice.
//! - A victim has one preemptor. A task that is already leaving counts as gone, and is nobody's victim again.
//! - Only filters decide: all of them run again on the node without the victims. Evictions free no ports, because the
//!   ports of an ended attempt cool down first.
//! - If the cell allows it, a queue below its guarantee claims from queues above theirs, also at its own priority
//!   ([`crate::queueing::Claim`]). Never within production. The evicted task has no claim against its preemptor.
//! - A preemptor that must wait for its victims is held, with its share promised. A victim that only waits for its
//!   place releases it at once.
//!
//! The cost is bounded. A search skips stretches of nodes where even evicting every lower priority would not free
//! enough. It ends with enough offers to choose from. A plan begins no search after it has examined
//! [`TASKS_EXAMINED_MAX`] tasks, or after [`VICTIMS_MAX`] evictions. The backlog remembers what preemption cannot help,
//! until an event could change that ([`crate::Snapshot::remember`]).

mod node;
mod removal;
mod scope;
mod victim_search;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{Band, band};
use borough_model::task::Evicted;
use borough_model::{JobId, NodeId, TaskId};

pub(crate) use node::{NodeAnswer, Offer, copies_after_evictions, offer_of};
pub(crate) use removal::{HypotheticalRemoval, leaving, with_removed};
pub(crate) use scope::PreemptionScope;
pub(crate) use victim_search::{VictimSearch, no_victims_anywhere};

use crate::queueing::Claim;
use crate::tables::ResidentState;

/// A plan that has examined this many tasks for victims begins no other search. The rest waits for the next plan, so
/// that ordinary placements do not wait for it.
pub(crate) const TASKS_EXAMINED_MAX: u64 = 100_000;

/// A plan evicts at most this many tasks, because its commit is one transaction with some rows per victim. The same
/// bound holds for one gang: a gang that needs more victims evicts nobody.
pub(crate) const VICTIMS_MAX: usize = 1_500;

/// If only a fresh start or a disruption budget prevents an eviction, it is tried again after this many milliseconds.
pub(crate) const RETRY_MS: i64 = 1_000;

/// A task that the plan evicts, and the revision of its row at which it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The task that is evicted.
    pub task: TaskId,
    /// The revision of its row. Only this attempt is evicted.
    pub revision: u64,
    /// The priority of its job.
    pub priority: u32,
    /// True if it only waits for its place on the node. It then leaves at once.
    pub holds: bool,
    /// True if another queue claims it, because its own queue is above its guarantee.
    pub reclaimed: bool,
    /// The preemptor, and the notice.
    pub evicted: Evicted,
}

/// The cost of the evictions on a node, the most important part first. The smallest cost wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreemptionCost {
    /// The highest priority of a victim; `None` if waiting for leaving tasks suffices.
    pub highest: Option<u32>,
    /// Evictions beyond the disruption budgets of their jobs.
    pub violations: u32,
    /// The number of victims.
    pub victims: u32,
    /// The least excess over its guarantee of any queue that a victim is claimed from, in millionths of the cell over
    /// its weight.
    pub excess: Reverse<u64>,
    /// The seconds that victims have run, each times the thousandths of the node's processor time and memory that it
    /// has.
    pub work_lost: u64,
    /// True if the preemptor has to wait. Of equal offers the one that starts it at once wins.
    pub waits: bool,
    /// The node's id breaks ties.
    pub node: NodeId,
}

/// What a preemptor asks of a node, and whom it may evict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreemptionRequest<'r> {
    pub requirement: &'r crate::filter::Requirement,
    /// Victims have a priority below this, or the claim covers them.
    pub below: u32,
    /// What may be claimed from other queues.
    pub claim: Option<&'r Claim>,
    pub now_ms: i64,
    /// How long a started task is protected, in milliseconds.
    pub fresh_ms: i64,
}

impl PreemptionRequest<'_> {
    /// The band of the preemptor: a claim covers its own priority, and `below` is its priority or the least of its
    /// band.
    fn band(&self) -> Band {
        band(self.claim.map_or(self.below, |claim| claim.below.saturating_sub(1)))
    }

    /// Every victim has a priority below this.
    fn bound(&self) -> u32 {
        self.claim.map_or(0, |claim| claim.below).max(self.below)
    }
}

/// The evictions of a plan so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evictions {
    tasks: BTreeMap<TaskId, ResidentState>,
    of_job: BTreeMap<JobId, u32>,
    /// Nodes with victims, in the order of the evictions. Other tasks may fit there too.
    pub log: Vec<u32>,
    nodes: BTreeSet<u32>,
    /// Tasks that searches examined for victims.
    pub examined: u64,
}

impl Evictions {
    /// The number of victims.
    pub(crate) fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Returns true if the plan may evict no more.
    pub(crate) fn full(&self) -> bool {
        self.count() >= VICTIMS_MAX
    }

    /// Returns true if the plan begins no other victim search.
    pub(crate) fn spent(&self) -> bool {
        self.examined > TASKS_EXAMINED_MAX || self.full()
    }

    /// Returns true if a task is a victim already.
    pub(crate) fn has(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task)
    }

    fn of_job(&self, job: JobId) -> u32 {
        self.of_job.get(&job).copied().unwrap_or(0)
    }

    /// Adds victims on a node.
    pub(crate) fn added(&mut self, node: u32, victims: &[Victim]) {
        if !victims.is_empty() {
            self.log.push(node);
            self.nodes.insert(node);
        }
        for victim in victims {
            let state = if victim.holds { ResidentState::Held } else { ResidentState::Running };
            if self.tasks.insert(victim.task, state).is_none() {
                *self.of_job.entry(victim.task.job).or_default() += 1;
            }
        }
    }

    /// Removes victims: their preemptor's gang did not fit.
    pub(crate) fn removed(&mut self, victims: &[Victim]) {
        let tasks: BTreeSet<TaskId> = victims.iter().map(|victim| victim.task).collect();
        for task in tasks.into_iter().filter(|task| self.tasks.remove(task).is_some()) {
            if let Some(count) = self.of_job.get_mut(&task.job) {
                *count = count.saturating_sub(1);
            }
        }
    }
}
