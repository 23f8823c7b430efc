//! What the federation knows of a cell when it divides the tasks of a job.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::Name;
use crate::node::Taint;

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
