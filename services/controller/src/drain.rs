//! Decides which attempts leave drained nodes: those that the scheduler would place elsewhere, by its own code.
//!
//! It takes a snapshot of the cell. A large cell's takes seconds to build. So the check goes on a little with each step
//! of the controller, and holds the mirror's lock for one part at a time. It takes at most a tenth of the time in all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use borough_kv::env::Clock;
use borough_model::task::StopReason;
use borough_model::{Delta, JobId, JournalEntry, NodeId, TaskId};
use borough_scheduler::{SnapshotBuild, settings_of_meta};
use borough_scheduler_core::Relocation;
use borough_store::cell::CellMeta;
use borough_store::journal::Cursor;
use borough_store::mirror::{MirrorState, RowsPosition};
use borough_store::task::TaskMoves;

use crate::decide::{ControllerAction, Departures, departures_now, drain_departures, leaving};

/// The pause between two checks, in multiples of a check's duration.
const PAUSE: u32 = 9;
/// Tasks on the nodes that are visited under one hold of the lock. A single node may have more.
const PART_TASKS: usize = 2_048;
/// What looking up a node costs, in tasks.
const NODE_WEIGHT: usize = 64;
/// What a task costs whose job's spec is decoded.
const SPEC_WEIGHT: usize = 16;

/// What a check reads of the mirror, each time under one short hold of its lock.
pub(crate) trait DrainSource {
    /// Calls `look` with the state.
    fn read<T>(&self, look: impl FnOnce(&MirrorState) -> T) -> T;
}

/// The check of drained nodes.
#[derive(Default)]
pub(crate) struct DrainCheck {
    /// Nodes with attempts that may leave, for the next check.
    wanted: BTreeSet<NodeId>,
    phase: DrainPhase,
    /// The position of the last entry of the journal that the controller has seen.
    at: Cursor,
    spent: Duration,
    /// No check begins before this time.
    due_at: Duration,
}

#[derive(Default)]
enum DrainPhase {
    #[default]
    Idle,
    /// The snapshot is built.
    Build(Box<SnapshotBuild>),
    /// Node after node is decided.
    Decide(Box<DrainRound>),
}

/// What is left of a check whose snapshot is built.
struct DrainRound {
    relocation: Relocation,
    nodes: BTreeSet<NodeId>,
    /// Healthy attempts of each job that this check moves. The mirror may not show them yet.
    moved: BTreeMap<JobId, usize>,
}

/// What the check needs besides the mirror.
pub(crate) struct DrainContext<'a> {
    pub meta: &'a CellMeta,
    pub clock: &'a dyn Clock,
    /// Nodes that are emptied or drive attempts away.
    pub emptied: &'a BTreeSet<NodeId>,
}

impl DrainCheck {
    /// A check of a controller that has seen everything up to `at`.
    pub(crate) fn begin(at: Cursor) -> Self {
        Self { at, ..Self::default() }
    }

    /// Takes out of `actions` the drained nodes, for the next check.
    pub(crate) fn nodes_take(&mut self, actions: Vec<ControllerAction>) -> Vec<ControllerAction> {
        let mut others = Vec::with_capacity(actions.len());
        for action in actions {
            match action {
                ControllerAction::NodeDrain(node) => drop(self.wanted.insert(node)),
                other => others.push(other),
            }
        }
        others
    }

    /// Follows the journal. A snapshot keeps the settings that it was made with, so a change of them needs a new one.
    pub(crate) fn note(&mut self, cursor: Cursor, entry: &JournalEntry) {
        self.at = cursor;
        if entry.deltas.iter().any(|delta| matches!(delta, Delta::CellSettings { .. })) {
            self.abandon();
        }
        if let DrainPhase::Build(build) = &mut self.phase {
            build.apply(cursor, entry);
        }
    }

    fn abandon(&mut self) {
        if let DrainPhase::Decide(round) = std::mem::take(&mut self.phase) {
            self.wanted.extend(round.nodes);
        }
    }

    /// Returns true if a check is under way: [`DrainCheck::advance`] has something to do at once.
    pub(crate) fn is_under_way(&self) -> bool {
        !matches!(self.phase, DrainPhase::Idle)
    }

    /// Goes on a little. Returns the moves that were decided.
    pub(crate) fn advance(
        &mut self,
        source: &impl DrainSource,
        context: &DrainContext<'_>,
    ) -> Vec<ControllerAction> {
        let (begun, was_under_way) = (context.clock.monotonic(), self.is_under_way());
        let moves = match std::mem::take(&mut self.phase) {
            DrainPhase::Idle => {
                if begun >= self.due_at && self.is_wanted(source, context.clock.wall_ms()) {
                    self.spent = Duration::ZERO;
                    let build = SnapshotBuild::begin(settings_of_meta(context.meta), self.at);
                    self.phase = DrainPhase::Build(Box::new(build));
                }
                Vec::new()
            }
            DrainPhase::Build(build) if build.is_whole() => {
                let leaving = emptied_leaving(source, context.emptied);
                let relocation = Relocation::new(build.snapshot(), leaving, context.clock.wall_ms());
                let nodes = std::mem::take(&mut self.wanted);
                self.phase =
                    DrainPhase::Decide(Box::new(DrainRound { relocation, nodes, moved: BTreeMap::new() }));
                Vec::new()
            }
            DrainPhase::Build(mut build) => {
                if build.position() != RowsPosition::Over {
                    let position = build.position();
                    build.add(source.read(|state| state.rows_part(position, RowsPosition::PART_ROWS)));
                }
                self.phase = DrainPhase::Build(build);
                Vec::new()
            }
            DrainPhase::Decide(mut round) => {
                let moves = round.part(source, context.clock.wall_ms());
                if !round.nodes.is_empty() {
                    self.phase = DrainPhase::Decide(round);
                }
                moves
            }
        };
        let ended = context.clock.monotonic();
        self.spent = self.spent.saturating_add(ended.saturating_sub(begun));
        if was_under_way && !self.is_under_way() {
            self.due_at = ended.saturating_add(self.spent.saturating_mul(PAUSE));
        }
        moves
    }

    /// Returns true if some node still has attempts that may leave. Drops those before it that have none.
    fn is_wanted(&mut self, source: &impl DrainSource, now_ms: i64) -> bool {
        while !self.wanted.is_empty() {
            let wanted = &mut self.wanted;
            let found = source.read(|state| {
                let mut part = nodes_part(state, wanted, SPEC_WEIGHT).into_iter();
                let found = part.by_ref().find(|node| !drain_departures(state, *node, now_ms).is_empty());
                wanted.extend(found.into_iter().chain(part));
                found
            });
            if found.is_some() {
                return true;
            }
        }
        false
    }
}

impl DrainRound {
    /// Decides some nodes: which of their attempts leave now.
    fn part(&mut self, source: &impl DrainSource, now_ms: i64) -> Vec<ControllerAction> {
        let nodes = &mut self.nodes;
        let mut departures: Vec<Departures> = source.read(|state| {
            let part = nodes_part(state, nodes, SPEC_WEIGHT);
            part.into_iter().flat_map(|node| drain_departures(state, node, now_ms)).collect()
        });
        let (mut moves, mut actions) = (Vec::new(), Vec::new());
        for of_job in &mut departures {
            // A further task asks for what the one that leaves does.
            if let Some(begin) = of_job.surge_begin()
                && of_job.healthy.iter().any(|(task, _)| self.relocation.fits(*task))
            {
                actions.push(begin);
                of_job.at_once = 0;
            }
            let moved = self.moved.entry(of_job.job).or_default();
            of_job.at_once = of_job.at_once.saturating_sub(*moved);
            // The room that it would have may be what the one that stands in for it has taken.
            let mut stand_ins = of_job.stand_ins;
            let mut is_replaced = || {
                let is_left = stand_ins > 0;
                stand_ins = stand_ins.saturating_sub(1);
                is_left
            };
            let leave = departures_now(std::slice::from_ref(of_job), |task| {
                self.relocation.fits(task) || is_replaced()
            });
            let healthy = |moves: &TaskMoves| {
                moves.attempts.iter().filter(|attempt| of_job.healthy.contains(attempt)).count()
            };
            *moved = moved.saturating_add(leave.iter().map(healthy).sum());
            moves.extend(leave);
        }
        actions
            .extend((!moves.is_empty()).then_some(ControllerAction::TasksMove(StopReason::Drained, moves)));
        actions
    }
}

/// Takes some nodes out of `left`, by the number of their tasks and what each of these costs.
fn nodes_part(state: &MirrorState, left: &mut BTreeSet<NodeId>, each: usize) -> Vec<NodeId> {
    let (mut part, mut tasks) = (Vec::new(), 0_usize);
    while tasks < PART_TASKS {
        let Some(node) = left.pop_first() else { break };
        let of_node = state.node_tasks_count(node).saturating_mul(each).saturating_add(NODE_WEIGHT);
        tasks = tasks.saturating_add(of_node);
        if tasks > PART_TASKS && !part.is_empty() {
            left.insert(node);
            break;
        }
        part.push(node);
    }
    part
}

/// The tasks that are on their way from the emptied nodes.
fn emptied_leaving(source: &impl DrainSource, emptied: &BTreeSet<NodeId>) -> Vec<TaskId> {
    let (mut left, mut tasks) = (emptied.clone(), Vec::new());
    while !left.is_empty() {
        source.read(|state| {
            let part = nodes_part(state, &mut left, 1);
            tasks.extend(part.into_iter().flat_map(|node| leaving(state, node)));
        });
    }
    tasks
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
