//! What the federation knows of a cell when it divides the tasks of a job.

use std::collections::{BTreeMap, BTreeSet};

use super::part::FederatedPart;
use crate::id::Name;
use crate::member::{MemberRow, MemberSeen};
use crate::node::Taint;
use crate::resource::Resources;

/// What the federation knows of one member cell, for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellFacts {
    pub name: Name,
    /// Such as `region`, `zone`, `provider`, `tier` and `hardware`.
    pub labels: BTreeMap<String, String>,
    /// Taints with `no_schedule` keep new tasks away, those with `no_execute` all tasks. Other effects do nothing.
    pub taints: Vec<Taint>,
    pub intake: CellIntake,
    /// Since when the federation has not heard of the cell, wall time in milliseconds since 1970; absent: it has.
    pub silent_since_ms: Option<i64>,
    /// The failover of the cell is decided for this job: its tasks are promised to others, until what it still runs is
    /// settled.
    pub failed_over: bool,
    /// How many more tasks of this job the cell's own scheduler would place now. Those that were promised to it and
    /// have not arrived are taken off. Absent: nobody could ask the cell.
    pub room: Option<u32>,
    /// How many tasks of this job the federation has promised to the cell.
    pub has: u32,
    /// How many of these run.
    pub running: u32,
    /// The federated jobs of the same user that have tasks in the cell.
    pub jobs: BTreeSet<Name>,
}

/// Whether a cell takes new tasks of federated jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum CellIntake {
    #[default]
    Open,
    /// No new tasks. Those that it has stay.
    Cordoned,
    /// No new tasks, and those that it has go to other cells, as far as those have room.
    Leaving,
    /// No tasks: it has a job of the name that is no part of this one.
    NameTaken,
}

/// What a cell answers to the question how many more tasks of a job it would place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellRoom {
    Tasks(u32),
    /// None: it has a job of the name that is no part of the asking one.
    NameTaken,
}

impl CellRoom {
    fn tasks(self) -> u32 {
        match self {
            Self::Tasks(tasks) => tasks,
            Self::NameTaken => 0,
        }
    }
}

impl CellFacts {
    /// An open cell without labels, room or tasks.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            intake: CellIntake::Open,
            silent_since_ms: None,
            failed_over: false,
            room: Some(0),
            has: 0,
            running: 0,
            jobs: BTreeSet::new(),
        }
    }
}

/// What is known of a member for a job that has `part` there. `room`: how many more tasks it would place; absent:
/// nobody could ask it. `jobs`: the federated jobs of the same user that have tasks there.
pub fn cell_facts(
    member: &MemberRow,
    seen: Option<&MemberSeen>,
    part: Option<&FederatedPart>,
    room: Option<CellRoom>,
    jobs: BTreeSet<Name>,
) -> CellFacts {
    let problem = seen.and_then(|seen| seen.problem.as_ref());
    let failed_over = part.is_some_and(|part| part.failed_over_ms.is_some());
    // What it is about to give up is not its any more.
    let has = part.map_or(0, |part| if failed_over { part.count } else { part.target });
    let is_finished = part.is_some_and(FederatedPart::is_finished);
    let running = part.and_then(|part| part.seen.as_ref()).map_or(0, |seen| seen.running);
    // What has ended by itself waits for no room, and is not to be run again elsewhere.
    let running = if is_finished { has } else { running };
    CellFacts {
        name: member.cell.clone(),
        labels: member.labels.clone(),
        taints: Vec::new(),
        intake: if is_finished {
            CellIntake::Cordoned
        } else if member.draining {
            CellIntake::Leaving
        } else if member.cordoned {
            CellIntake::Cordoned
        } else if room == Some(CellRoom::NameTaken) {
            CellIntake::NameTaken
        } else {
            CellIntake::Open
        },
        silent_since_ms: problem.filter(|_| !is_finished).map(|problem| problem.since_ms),
        failed_over,
        room: room.map(CellRoom::tasks),
        has,
        running: running.min(has),
        jobs,
    }
}

/// How many tasks with `amounts` the room of a cell still has after others. `promised`: tasks that were promised to the
/// cell and have not arrived, each amounts with a number of tasks. The dimension that they take most of decides.
pub fn room_deducted<'a>(
    room: u32,
    amounts: &Resources,
    promised: impl Iterator<Item = (&'a Resources, u32)>,
) -> u32 {
    let mut taken = (0_u64, 0_u64);
    for (of, count) in promised {
        let count = u64::from(count);
        taken.0 = taken.0.saturating_add(of.cpu_millis.saturating_mul(count));
        taken.1 = taken.1.saturating_add(of.memory_bytes.saturating_mul(count));
    }
    let tasks = |taken: u64, each: u64| if each == 0 { 0 } else { taken.div_ceil(each) };
    let less = tasks(taken.0, amounts.cpu_millis).max(tasks(taken.1, amounts.memory_bytes));
    room.saturating_sub(u32::try_from(less).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_promised_to_others_is_taken_off_by_its_larger_dimension() {
        let amounts =
            |cpu_millis, memory_bytes| Resources { cpu_millis, memory_bytes, ..Resources::default() };
        let (small, large) = (amounts(100, 10), amounts(250, 10));
        assert_eq!(room_deducted(9, &small, std::iter::empty()), 9);
        assert_eq!(room_deducted(9, &small, [(&large, 2)].into_iter()), 4, "500 of processor time");
        assert_eq!(
            room_deducted(9, &small, [(&large, 1), (&amounts(0, 45), 1)].into_iter()),
            3,
            "55 of memory"
        );
        assert_eq!(room_deducted(9, &small, [(&large, u32::MAX)].into_iter()), 0);
        assert_eq!(room_deducted(9, &amounts(0, 0), [(&large, 5)].into_iter()), 9);
    }
}
