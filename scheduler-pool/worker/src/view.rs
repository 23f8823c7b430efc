//! A worker's view of its cell: the core's snapshot, and the rows that a conflict needs in full.

use std::collections::BTreeMap;

use borough_model::task::{GangRow, GangState};
use borough_model::{Delta, GangId, JobId, JobRow, JournalEntry, NodeId, TaskId, TaskState};
use borough_scheduler_core::{CellSettings, OpenQueue, PlanCache, ShardDivision, Snapshot};
use borough_store::placement::{PlacementNode, SurvivorView};

/// The cell as of one position of its journal.
#[derive(Debug)]
pub struct CellView {
    pub snapshot: Snapshot,
    /// Search results of plans over it.
    pub cache: PlanCache,
    /// Gangs that were not committed.
    gangs: BTreeMap<GangId, GangRow>,
    /// Tasks that are held for a gang.
    held: BTreeMap<TaskId, Hold>,
}

/// A task that is held for a gang.
#[derive(Clone, Copy, Debug)]
struct Hold {
    gang: GangId,
    epoch: u64,
    /// Whether it waits for victims.
    promised: bool,
}

/// The action for a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangStep {
    /// It no longer gathers, or waits and has lost a member: the holds at this epoch must be released.
    GiveUp(u64),
    /// Each of its members has its share: they start together.
    Commit(u64),
    /// It was decided: its holds are placements, or void.
    Settle,
}

impl CellView {
    /// An empty cell whose jobs are divided among shards.
    pub fn new(settings: CellSettings, division: ShardDivision) -> Self {
        let snapshot = Snapshot::divided(settings, division);
        Self { snapshot, cache: PlanCache::default(), gangs: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// Applies one entry.
    pub fn apply(&mut self, entry: &JournalEntry) {
        entry.deltas.iter().for_each(|delta| self.apply_delta(delta));
    }

    /// Applies one delta; an older one changes nothing.
    pub fn apply_delta(&mut self, delta: &Delta) {
        self.gangs_follow(delta);
        self.snapshot.apply(delta);
    }

    fn gangs_follow(&mut self, delta: &Delta) {
        match delta {
            Delta::Gang { row } if row.state == GangState::Committed => drop(self.gangs.remove(&row.id)),
            Delta::Gang { row } => drop(self.gangs.insert(row.id, row.clone())),
            Delta::Task { row } => match row.gang.filter(|_| row.state == TaskState::Held) {
                Some(gang) => {
                    let hold = Hold { gang, epoch: row.gang_epoch, promised: row.promised };
                    self.held.insert(row.id, hold);
                }
                None => drop(self.held.remove(&row.id)),
            },
            Delta::TaskRemoved { task, .. } => drop(self.held.remove(task)),
            Delta::JobRemoved { job, .. } => {
                self.gangs.retain(|_, gang| gang.job != *job);
                self.held.retain(|task, _| task.job != *job);
            }
            _ => {}
        }
    }

    /// The actions for gangs of a queue's jobs.
    pub fn gang_steps(&self, queue: &OpenQueue) -> Vec<(GangId, GangStep)> {
        // For each gang that waits: members that hold, and members that wait for victims.
        let mut waiting: BTreeMap<GangId, (u32, u32)> = BTreeMap::new();
        let mut steps: BTreeMap<GangId, (JobId, GangStep)> = BTreeMap::new();
        for (task, hold) in &self.held {
            match self.gangs.get(&hold.gang) {
                Some(gang) if gang.state == GangState::Waiting && gang.epoch == hold.epoch => {
                    let (held, promised) = waiting.entry(gang.id).or_default();
                    *held += 1;
                    *promised += u32::from(hold.promised);
                }
                // The promises of a committed gang are its tasks' own by now.
                None if hold.promised => {}
                _ => drop(steps.insert(hold.gang, (task.job, GangStep::Settle))),
            }
        }
        for gang in self.gangs.values() {
            let (held, promised) = waiting.get(&gang.id).copied().unwrap_or_default();
            let step = match gang.state {
                GangState::Gathering => GangStep::GiveUp(gang.epoch),
                // Others may have left since it began to gather, as while its cell was closed.
                GangState::Waiting if held < gang.min_member.max(self.snapshot.gang_need(gang.job)) => {
                    GangStep::GiveUp(gang.epoch)
                }
                GangState::Waiting if promised == 0 => GangStep::Commit(gang.epoch),
                GangState::Waiting | GangState::Committed | GangState::Released => continue,
            };
            steps.insert(gang.id, (gang.job, step));
        }
        let own = steps.into_iter().filter(|(_, (job, _))| self.snapshot.queue_of(*job) == *queue);
        own.map(|(gang, (_, step))| (gang, step)).collect()
    }

    /// Removes a gang that does not exist.
    pub fn gang_forget(&mut self, gang: GangId) {
        self.gangs.remove(&gang);
        self.held.retain(|_, hold| hold.gang != gang);
    }

    /// A node as a placement needs it: its capacity is what may be promised of it, overcommit included.
    pub fn placement_node(&self, node: NodeId) -> Option<PlacementNode> {
        let seen = self.snapshot.tables().node(node)?;
        Some(PlacementNode { revision: seen.revision, capacity: seen.limits, alloc: seen.alloc })
    }
}

impl SurvivorView for CellView {
    fn node(&self, node: NodeId) -> Option<PlacementNode> {
        self.placement_node(node)
    }

    fn task_revision(&self, task: TaskId) -> u64 {
        self.snapshot.tables().task(task).map_or(0, |task| task.revision)
    }

    fn job(&self, job: JobId) -> Option<&JobRow> {
        self.snapshot.tables().job(job)
    }
}
