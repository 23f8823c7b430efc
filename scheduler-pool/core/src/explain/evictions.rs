//! Which tasks would be evicted for a task. The answer comes from the code that decides it.

use std::fmt;

use borough_model::{Name, TaskId};
use serde::{Deserialize, Serialize};

use crate::filter::Requirement;
use crate::node_order::StartOffset;
use crate::overlay::PlanOverlay;
use crate::plan::PlannedPlacement;
use crate::preempt::{Evictions, PreemptionRequest, PreemptionScope, Victim, VictimSearch};
use crate::queueing::Guaranteed;
use crate::tables::{CellTables, ResidentState, Shape};

/// Tells whether evictions help a task that fits nowhere, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EvictionReport {
    /// Evictions help, or waiting for leaving tasks if there are no victims.
    Help {
        /// The node where that costs least.
        node: Name,
        /// The victims there. Empty if the task only waits for leaving tasks.
        victims: Vec<VictimReport>,
        /// Evictions beyond the disruption budgets of their jobs.
        violations: u32,
    },
    /// They will help once the victims are no longer fresh.
    FreshStart,
    /// They do not help, and its queue reclaims nothing for it.
    Guarantee {
        /// The path of the queue.
        queue: String,
        /// Its share, in thousandths of the cell.
        share_per_mille: u32,
        /// Its guarantee, in thousandths of the cell.
        guaranteed_per_mille: u32,
        /// True if the queue is below its guarantee. Then no node has enough that other queues hold above theirs.
        lacks: bool,
    },
    /// They do not help: the task fits no node even without everything of lower priority.
    Useless,
    /// Its job evicts nobody, or no task has a lower priority.
    Never,
}

/// A task that would be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VictimReport {
    /// The owner of its job.
    pub user: Name,
    /// The name of its job.
    pub job: Name,
    /// Its index in the job.
    pub index: u32,
    /// The priority of its job.
    pub priority: u32,
    /// True if it only waits for its place there.
    pub holds: bool,
    /// The queue above its guarantee that it is claimed from. `None` if it is evicted for a higher priority.
    pub reclaimed_from: Option<String>,
}

impl fmt::Display for VictimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{} (priority {}", self.user, self.job, self.index, self.priority)?;
        if let Some(queue) = &self.reclaimed_from {
            write!(f, ", beyond what queue {queue} is guaranteed")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for EvictionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Help { node, victims, .. } if victims.is_empty() => {
                write!(f, "waits for leaving tasks on node {node}")
            }
            Self::Help { node, victims, violations } => {
                write!(f, "takes the place of ")?;
                for (number, victim) in victims.iter().enumerate() {
                    write!(f, "{}{victim}", if number > 0 { ", " } else { "" })?;
                }
                write!(f, " on node {node}")?;
                if *violations > 0 {
                    write!(f, ", {violations} beyond their jobs' disruption budgets")?;
                }
                Ok(())
            }
            Self::Guarantee { queue, share_per_mille, guaranteed_per_mille, lacks } => {
                let percent = |per_mille: &u32| f64::from(*per_mille) / 10.0;
                let (share, guaranteed) = (percent(share_per_mille), percent(guaranteed_per_mille));
                write!(f, "queue {queue} has {share}% of the cell and is guaranteed {guaranteed}%")?;
                if *lacks {
                    f.write_str(", but no node has enough that others hold above their guarantees")
                } else {
                    f.write_str(": it takes no more back")
                }
            }
            Self::FreshStart => f.write_str("waits for tasks of lower priority that have only just started"),
            Self::Useless => f.write_str("evicting tasks of lower priority would not help"),
            Self::Never => f.write_str("evicts nobody"),
        }
    }
}

/// What a report says of a victim besides names.
struct VictimFacts {
    task: TaskId,
    priority: u32,
    holds: bool,
    reclaimed: bool,
}

fn victim_report(tables: &CellTables, facts: &VictimFacts) -> Option<VictimReport> {
    let &VictimFacts { task, priority, holds, reclaimed } = facts;
    let job = tables.job(task.job)?;
    let (user, name) = (job.user.clone(), job.name.clone());
    let turn = tables.jobs.get(&task.job).and_then(|entry| entry.turn.as_ref()).filter(|_| reclaimed);
    let reclaimed_from = turn.map(|turn| {
        let queue = tables.settings.queueing.queue_numbered(turn.queue);
        queue.map_or("outside of all", |queue| queue.path.as_str()).to_owned()
    });
    Some(VictimReport { user, job: name, index: task.index, priority, holds, reclaimed_from })
}

fn guarantee_report(tables: &CellTables, guaranteed: Guaranteed) -> Option<EvictionReport> {
    let queue = tables.settings.queueing.queue_numbered(guaranteed.queue)?;
    Some(EvictionReport::Guarantee {
        queue: queue.path.clone(),
        share_per_mille: u32::try_from(guaranteed.share / 1_000).unwrap_or(u32::MAX),
        guaranteed_per_mille: queue.guaranteed_per_mille,
        lacks: guaranteed.lacks,
    })
}

/// The victims of a placement, by name.
pub(crate) fn victim_reports(tables: &CellTables, placement: &PlannedPlacement) -> Vec<VictimReport> {
    let report = |victim: &Victim| {
        let &Victim { task, priority, holds, reclaimed, .. } = victim;
        victim_report(tables, &VictimFacts { task, priority, holds, reclaimed })
    };
    placement.victims.iter().filter_map(report).collect()
}

/// Reports what evictions can do for a shape, with the cell as it is.
pub(super) fn eviction_report(
    tables: &CellTables,
    shape: &Shape,
    scope: PreemptionScope,
    now_ms: i64,
) -> EvictionReport {
    if !scope.any() {
        return EvictionReport::Never;
    }
    let requirement = Requirement::of(shape, tables);
    let (mut overlay, mut evictions) = (PlanOverlay::new(tables), Evictions::default());
    if scope.queue > 0 {
        overlay.shares_known();
    }
    let guarantee = scope.guarantee(&overlay, &shape.resources);
    let useless =
        || guarantee.and_then(|known| guarantee_report(tables, known)).unwrap_or(EvictionReport::Useless);
    let (scope, claim) = scope.resolved(&overlay, &shape.resources);
    if !scope.any() {
        return useless();
    }
    let mut best = |fresh_ms: i64| {
        let (below, claim) = (scope.below, claim.as_ref());
        let ask = PreemptionRequest { requirement: &requirement, below, claim, now_ms, fresh_ms };
        let mut victim_search = VictimSearch::new(tables, StartOffset::undivided(0), 0, 1, 0);
        (victim_search.best(&mut overlay, &mut evictions, &ask), victim_search.protected)
    };
    let offer = match best(tables.settings.fresh_start_ms()) {
        (Some(offer), _) => offer,
        (None, protected) if protected && best(0).0.is_some() => return EvictionReport::FreshStart,
        _ => return useless(),
    };
    let Some(node) = tables.nodes.name(offer.node).cloned() else { return EvictionReport::Useless };
    let report = |removal: &crate::preempt::HypotheticalRemoval| {
        let resident = removal.resident;
        let facts = VictimFacts {
            task: removal.task,
            priority: u32::from(resident.priority),
            holds: resident.state == ResidentState::Held,
            reclaimed: removal.claimed.is_some(),
        };
        victim_report(tables, &facts)
    };
    let victims = offer.victims.iter().filter_map(report).collect();
    EvictionReport::Help { node, victims, violations: offer.cost.violations }
}
