//! Who would give way to a task, and why they: asked of the code that decides it.

use std::fmt;

use borough_model::{Name, TaskId};
use serde::{Deserialize, Serialize};

use crate::filter::Requirement;
use crate::plan::{Placement, Vantage, Work};
use crate::preempt::{Ask, Evictions, Hunt, Victim};
use crate::snapshot::{Shape, Snapshot, Stand};

/// What evictions can do for a task that fits nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EvictionsTold {
    /// It takes the place of others, or of what leaves anyway where there are none.
    Help {
        /// The node where that costs least.
        node: Name,
        /// Who gives way there.
        victims: Vec<VictimTold>,
        /// Evictions beyond the disruption budgets of their jobs.
        violations: u32,
    },
    /// They will, once those who would give way have not only just started.
    FreshStart,
    /// They do not: nowhere is room even without everything of lower priority.
    Useless,
    /// Its job evicts nobody, or there is no lower priority.
    Never,
}

/// A task that gives way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VictimTold {
    /// Whose it is.
    pub user: Name,
    /// Its job.
    pub job: Name,
    /// Its index.
    pub index: u32,
    /// Its priority.
    pub priority: u32,
    /// Whether it only waits for its place there.
    pub holds: bool,
}

impl fmt::Display for VictimTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{} (priority {})", self.user, self.job, self.index, self.priority)
    }
}

impl fmt::Display for EvictionsTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Help { node, victims, .. } if victims.is_empty() => {
                write!(f, "takes what is on its way out on node {node}")
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
            Self::FreshStart => f.write_str("waits for tasks of lower priority that have only just started"),
            Self::Useless => f.write_str("evicting tasks of lower priority would not help"),
            Self::Never => f.write_str("evicts nobody"),
        }
    }
}

fn victim_told(snapshot: &Snapshot, task: TaskId, priority: u32, holds: bool) -> Option<VictimTold> {
    let job = snapshot.job(task.job)?;
    let (user, name) = (job.user.clone(), job.name.clone());
    Some(VictimTold { user, job: name, index: task.index, priority, holds })
}

/// The victims of a placement by name.
pub(crate) fn victims_told(snapshot: &Snapshot, placement: &Placement) -> Vec<VictimTold> {
    let told = |victim: &Victim| victim_told(snapshot, victim.task, victim.priority, victim.holds);
    placement.victims.iter().filter_map(told).collect()
}

/// What evictions below a priority can do for a shape, as the cell is.
pub(super) fn evictions_told(snapshot: &Snapshot, shape: &Shape, below: u32, now_ms: i64) -> EvictionsTold {
    if below == 0 {
        return EvictionsTold::Never;
    }
    let requirement = Requirement::of(shape, snapshot);
    let (mut work, mut evictions) = (Work::new(snapshot), Evictions::default());
    let mut best = |fresh_ms: i64| {
        let ask = Ask { requirement: &requirement, below, now_ms, fresh_ms };
        let mut hunt = Hunt::new(snapshot, Vantage::whole(0), 0, 1, 0);
        (hunt.best(&mut work, &mut evictions, &ask), hunt.protected)
    };
    let offer = match best(snapshot.settings.fresh_start_ms()) {
        (Some(offer), _) => offer,
        (None, protected) if protected && best(0).0.is_some() => return EvictionsTold::FreshStart,
        _ => return EvictionsTold::Useless,
    };
    let Some(node) = snapshot.nodes.name(offer.node).cloned() else { return EvictionsTold::Useless };
    let told = |lift: &crate::preempt::Lift| {
        let standing = lift.standing;
        victim_told(snapshot, lift.task, u32::from(standing.priority), standing.stand == Stand::Holds)
    };
    let victims = offer.victims.iter().filter_map(told).collect();
    EvictionsTold::Help { node, victims, violations: offer.cost.violations }
}
