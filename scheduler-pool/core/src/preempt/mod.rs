//! Preemption: who gives way to a task that fits nowhere. Pure, and asked only of what has found no room.
//!
//! The rules, after Borg (EuroSys 2015, §2.5):
//!
//! - Victims have a lower priority than their preemptor, and none is of its band where that is production or
//!   monitoring. A task that lost its own last place to another takes none in its own band: evictions lead to no
//!   cascade (`borough_model::job::victims_below` says it in one number).
//! - On a node no victim can be spared. Nodes are compared by what an eviction there costs ([`PreemptionCost`]).
//! - A victim has one preemptor. What is on its way out already counts as room, and is nobody's victim again.
//! - Only the filters count: a node where everything of lower priority went is held against all of them again. Ports
//!   are not had by preemption: those of an attempt that has ended cool down first.
//! - Where the cell says so, a queue takes back what it is guaranteed from those that have more, at its own priority
//!   too ([`crate::queueing::Claim`]); never within production, and who gave way so cannot do the same in turn.
//! - A preemptor that has to wait for its victims is held, its share promised; a victim that only waits for its place
//!   gives it up at once.
//!
//! What it costs is bounded: stretches of nodes in which not even everything of lower priority would be enough are
//! passed over by what the tables keeps of them, a search ends with enough nodes to choose from, no plan begins
//! another search once it has looked at [`TASKS_EXAMINED_MAX`] tasks or [`VICTIMS_MAX`] give way, and what preemption
//! cannot help is remembered until something changes that could ([`crate::CellTables::remember`]).

mod node;
mod removal;
mod scope;
mod victim_search;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use borough_model::task::Evicted;
use borough_model::{JobId, NodeId, TaskId};

pub(crate) use node::{NodeAnswer, Offer, copies_at_most, offer_of};
pub(crate) use removal::{HypotheticalRemoval, leaving, lifted};
pub(crate) use scope::PreemptionScope;
pub(crate) use victim_search::{VictimSearch, helps_nowhere};

use crate::queueing::Claim;
use crate::tables::Stand;

/// A plan that has looked at so many tasks for victims begins no other search: the rest waits for the next plan, and
/// ordinary placements do not wait for it.
pub(crate) const TASKS_EXAMINED_MAX: u64 = 100_000;

/// A plan in which so many give way makes no more do so: its commit is one transaction, and each is some rows of it.
/// The same for one gang, which makes nobody give way where more would have to.
pub(crate) const VICTIMS_MAX: usize = 1_500;

/// While a fresh start or a disruption budget is all that is in the way, it is asked again so often, in milliseconds.
pub(crate) const RETRY_MS: i64 = 1_000;

/// A task that has to give way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The task.
    pub task: TaskId,
    /// The revision of its row: what is evicted is this attempt, as it was seen.
    pub revision: u64,
    /// Its priority.
    pub priority: u32,
    /// Whether it only waits for its place on the node, and leaves it at once.
    pub holds: bool,
    /// Whether it gives back what its queue has beyond its guarantee.
    pub reclaimed: bool,
    /// For whom, and with what notice.
    pub evicted: Evicted,
}

/// What it costs to make room on a node, the dearest part first. The smallest is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreemptionCost {
    /// The highest priority of a victim; none: it suffices to wait for what is on its way out.
    pub highest: Option<u32>,
    /// Evictions beyond the disruption budgets of their jobs.
    pub violations: u32,
    /// Victims.
    pub victims: u32,
    /// How far the queues that give something back are beyond their guarantees, that of the least of them, in
    /// millionths of the cell over its weight.
    pub excess: Reverse<u64>,
    /// Seconds that victims have run, each times the thousandths of the node's processor time and memory that it has.
    pub work_lost: u64,
    /// The node: nothing else tells it apart.
    pub node: NodeId,
}

/// What an attempt to preempt is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreemptionRequest<'r> {
    pub requirement: &'r crate::filter::Requirement,
    /// Victims have a priority below this,
    pub below: u32,
    /// or this may be claimed from their queue.
    pub claim: Option<&'r Claim>,
    pub now_ms: i64,
    /// How long a task that has started is left alone, in milliseconds.
    pub fresh_ms: i64,
}

impl PreemptionRequest<'_> {
    /// No victim has this priority or a higher one.
    fn bound(&self) -> u32 {
        self.claim.map_or(0, |claim| claim.below).max(self.below)
    }
}

/// Who gives way by a plan so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evictions {
    tasks: BTreeMap<TaskId, Stand>,
    of_job: BTreeMap<JobId, u32>,
    /// Nodes on which tasks give way, in the order in which they began to: others may find room there too.
    pub log: Vec<u32>,
    nodes: BTreeSet<u32>,
    /// Tasks that were looked at for victims.
    pub examined: u64,
}

impl Evictions {
    /// How many give way.
    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Whether the plan makes so many give way that no more do.
    pub fn full(&self) -> bool {
        self.count() >= VICTIMS_MAX
    }

    /// Whether that is so, or the plan has looked at so many tasks that it begins no other search for room.
    pub fn spent(&self) -> bool {
        self.examined > TASKS_EXAMINED_MAX || self.full()
    }

    /// Whether a task gives way already.
    pub fn has(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task)
    }

    fn of_job(&self, job: JobId) -> u32 {
        self.of_job.get(&job).copied().unwrap_or(0)
    }

    /// Tasks of a node give way.
    pub fn added(&mut self, node: u32, victims: &[Victim]) {
        if !victims.is_empty() {
            self.log.push(node);
            self.nodes.insert(node);
        }
        for victim in victims {
            let stand = if victim.holds { Stand::Holds } else { Stand::Runs };
            if self.tasks.insert(victim.task, stand).is_none() {
                *self.of_job.entry(victim.task.job).or_default() += 1;
            }
        }
    }

    /// They do not after all.
    pub fn removed(&mut self, victims: &[Victim]) {
        let tasks: BTreeSet<TaskId> = victims.iter().map(|victim| victim.task).collect();
        for task in tasks.into_iter().filter(|task| self.tasks.remove(task).is_some()) {
            if let Some(count) = self.of_job.get_mut(&task.job) {
                *count = count.saturating_sub(1);
            }
        }
    }
}
