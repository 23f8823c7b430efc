//! Which cells may get tasks of a job, and which keep those that they have.

use std::collections::BTreeMap;

use super::SplitMode;
use super::portion::{Portion, Preference};
use super::verdict::CellReason;
use crate::federation::facts::{CellFacts, CellIntake};
use crate::federation::spec::{FederationSpec, SPREAD_BY_CELL, SplitPolicy};
use crate::id::Name;
use crate::job::taint_tolerated;
use crate::merged::LabelCondition;
use crate::node::{Taint, TaintEffect};

/// The places of names in the lists of a spec.
pub(super) struct SpecIndex<'s> {
    cells: BTreeMap<&'s Name, usize>,
    groups: Vec<BTreeMap<&'s Name, usize>>,
}

impl<'s> SpecIndex<'s> {
    pub(super) fn of(spec: &'s FederationSpec) -> Self {
        let places = |cells: &'s [Name]| cells.iter().enumerate().map(|(at, cell)| (cell, at)).collect();
        Self {
            cells: places(&spec.cells),
            groups: spec.groups.iter().map(|group| places(&group.cells)).collect(),
        }
    }

    /// Where `split: order` has a cell: by its place in its group if that names it, else in the list of the job.
    fn place(&self, group: usize, cell: &Name) -> u64 {
        let in_group = self.groups.get(group).and_then(|cells| cells.get(cell));
        let place = in_group.or_else(|| self.cells.get(cell));
        place.and_then(|place| u64::try_from(*place).ok()).unwrap_or(u64::MAX)
    }
}

/// What becomes of the tasks that a cell has, if it gets no new ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Present {
    Stay,
    /// They go to other cells, as far as those have room.
    Move,
    /// The job does not have them here any more.
    Leave,
}

/// Whether what runs stays where it is.
fn keeps(spec: &FederationSpec, mode: SplitMode) -> bool {
    match mode {
        SplitMode::Again => spec.avoid_disruption,
        SplitMode::Rebalance => false,
        SplitMode::RebalanceStuck => true,
    }
}

/// Whether tasks that cannot run go elsewhere.
fn moves_stuck(spec: &FederationSpec, mode: SplitMode) -> bool {
    mode == SplitMode::RebalanceStuck || !keeps(spec, mode)
}

/// What a cell may have of a job.
pub(super) fn standing<'c>(
    spec: &FederationSpec,
    index: &SpecIndex<'_>,
    mode: SplitMode,
    at: usize,
    facts: &'c CellFacts,
) -> Portion<'c> {
    let (group, refusal) = match candidate(spec, index, facts) {
        Ok(group) => (Some(group), refusal(spec, facts)),
        Err(reason) => (None, Some((reason, Present::Leave))),
    };
    // Nobody can take tasks from a silent cell, and only a failover gives them to others.
    let silent = facts.silent_since_ms.filter(|_| facts.has > 0 && !facts.failed_over);
    let refusal = match silent {
        Some(since_ms) => Some((CellReason::Silent { since_ms }, Present::Stay)),
        None => refusal,
    };
    let max = spec.max_of(&facts.name).unwrap_or(u32::MAX);
    let bound = if silent.is_some() { facts.has } else { facts.has.min(max) };
    let present = refusal.as_ref().map(|(_, present)| *present);
    let moves = present == Some(Present::Move);
    let (kept, floor, ceiling) = match present {
        Some(Present::Stay) => (bound, bound, bound),
        // A duplicate has no other place.
        Some(Present::Move) if spec.split != SplitPolicy::Duplicate => (bound, 0, 0),
        Some(Present::Move | Present::Leave) => (0, 0, 0),
        None => {
            let ceiling = facts.has.saturating_add(facts.room.unwrap_or(0)).min(max);
            (bound, if keeps(spec, mode) { bound } else { 0 }, ceiling)
        }
    };
    let mut portion = Portion {
        at,
        facts,
        group,
        preference: Preference::default(),
        weight: 1,
        // Those that wait for room elsewhere stay, however few they are.
        min: if moves { 1 } else { spec.min_of(&facts.name) },
        max,
        kept,
        stays: kept > 0 && !moves && keeps(spec, mode),
        stuck: if moves { kept } else { 0 },
        floor,
        ceiling,
        given: 0,
        reason: refusal.map(|(reason, _)| reason),
    };
    part_stuck(spec, mode, &mut portion);
    weigh(spec, index, &mut portion);
    portion
}

/// Leaves out tasks that do not run where their cell would place no more: they have no room there, and may go where
/// there is some. A duplicate has no other place.
fn part_stuck(spec: &FederationSpec, mode: SplitMode, portion: &mut Portion<'_>) {
    let facts = portion.facts;
    let waiting = portion.kept.saturating_sub(facts.running);
    let movable = portion.reason.is_none() && facts.room == Some(0) && waiting > 0;
    if !movable || !moves_stuck(spec, mode) || spec.split == SplitPolicy::Duplicate {
        return;
    }
    portion.stuck = waiting;
    portion.ceiling = portion.kept.saturating_sub(waiting);
    portion.floor = portion.floor.min(portion.ceiling);
    if mode == SplitMode::RebalanceStuck {
        // What runs stays, however few are left.
        portion.min = 1;
    }
}

/// Sets the weight of a cell, and its place among the others of its group.
fn weigh(spec: &FederationSpec, index: &SpecIndex<'_>, portion: &mut Portion<'_>) {
    let most_first = |amount: u64| u64::MAX.saturating_sub(amount);
    let ceiling = u64::from(portion.ceiling);
    match spec.split {
        SplitPolicy::Weight => {
            portion.weight = u64::from(spec.weight_of(&portion.facts.name)).max(1);
            portion.preference.place = most_first(portion.weight);
        }
        SplitPolicy::Free | SplitPolicy::Duplicate => {
            portion.weight = ceiling.max(1);
            portion.preference.place = most_first(ceiling);
        }
        SplitPolicy::Pack => {
            portion.preference.empty = portion.floor == 0;
            portion.preference.place = most_first(ceiling);
        }
        SplitPolicy::Order => {
            let group = portion.group.unwrap_or(usize::MAX);
            portion.preference.place = index.place(group, &portion.facts.name);
        }
    }
}

/// The group of a cell, or why the job does not have it.
fn candidate(spec: &FederationSpec, index: &SpecIndex<'_>, facts: &CellFacts) -> Result<usize, CellReason> {
    if !spec.cells.is_empty() && !index.cells.contains_key(&facts.name) {
        return Err(CellReason::NotNamed);
    }
    let unmet = |conditions: &[LabelCondition]| {
        conditions.iter().find(|condition| !condition.is_met(&facts.labels)).cloned()
    };
    if let Some(condition) = unmet(&spec.conditions) {
        let value = facts.labels.get(&condition.key).cloned();
        return Err(CellReason::ConditionNotMet { condition, value });
    }
    if spec.groups.is_empty() {
        return Ok(0);
    }
    let has = |at: usize| {
        let group = spec.groups.get(at)?;
        let named = group.cells.is_empty() || index.groups.get(at)?.contains_key(&facts.name);
        (named && unmet(&group.conditions).is_none()).then_some(at)
    };
    (0..spec.groups.len()).find_map(has).ok_or(CellReason::NoGroup)
}

/// Why a candidate gets no new tasks, and what becomes of those that it has.
fn refusal(spec: &FederationSpec, facts: &CellFacts) -> Option<(CellReason, Present)> {
    use Present::{Leave, Move, Stay};
    if facts.failed_over {
        return Some((CellReason::FailedOver, Leave));
    }
    if let Some(since_ms) = facts.silent_since_ms {
        return Some((CellReason::Silent { since_ms }, Stay));
    }
    if facts.intake == CellIntake::Leaving {
        return Some((CellReason::Leaving, Move));
    }
    let tainted = |effect: TaintEffect| {
        let refuses = |taint: &&Taint| taint.effect == effect && !taint_tolerated(&spec.tolerations, taint);
        facts.taints.iter().filter(refuses).min()
    };
    if let Some(taint) = tainted(TaintEffect::NoExecute) {
        return Some((CellReason::Tainted { taint: taint.clone() }, Move));
    }
    if facts.intake == CellIntake::Cordoned {
        return Some((CellReason::Cordoned, Stay));
    }
    if facts.intake == CellIntake::NameTaken {
        return Some((CellReason::NameTaken, Stay));
    }
    if let Some(taint) = tainted(TaintEffect::NoSchedule) {
        return Some((CellReason::Tainted { taint: taint.clone() }, Stay));
    }
    if let Some(job) = spec.away_from.iter().filter(|job| facts.jobs.contains(*job)).min() {
        return Some((CellReason::AwayFrom { job: job.clone() }, Stay));
    }
    let labels = spec.spread.iter().map(|rule| &rule.by).filter(|by| *by != SPREAD_BY_CELL);
    if let Some(key) = labels.into_iter().find(|key| !facts.labels.contains_key(*key)) {
        return Some((CellReason::SpreadLabelMissing { key: key.clone() }, Stay));
    }
    match facts.room {
        None => Some((CellReason::RoomUnknown, Stay)),
        Some(_) => None,
    }
}
