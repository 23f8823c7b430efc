//! The turns within a plan. If an item fits nowhere, the next item of the same user or queue takes its turn. So the
//! plan is the same whether the queue leaves out unschedulable tasks or not.

use std::collections::{BTreeMap, VecDeque};

use borough_model::JobId;

use super::{PendingTask, Planner};
use crate::queueing::{Shares, Turn};
use crate::seed::turn_chance;

/// An item of the queue: a task or a gang.
#[derive(Clone, Copy)]
struct TurnItem<'a> {
    tasks: &'a [PendingTask],
    lane: u32,
    priority: u32,
    job: JobId,
}

impl Planner<'_, '_> {
    /// Goes through the queue item by item.
    pub(super) fn items(&mut self) {
        let same_item =
            |left: &PendingTask, right: &PendingTask| left.gang.is_some() && left.gang == right.gang;
        let queue = self.input.queue;
        let item = |tasks: &'_ [PendingTask]| {
            let class = queue.classes.get(tasks.first()?.class as usize)?;
            let row = self.input.tables.jobs.get(&class.job)?.row.as_ref()?;
            Some((class.lane, row.priority, class.job))
        };
        let items: Vec<TurnItem<'_>> = queue
            .tasks
            .chunk_by(same_item)
            .filter_map(|tasks| {
                item(tasks).map(|(lane, priority, job)| TurnItem { tasks, lane, priority, job })
            })
            .collect();
        if self.input.tables.settings.queueing.policy.shares() {
            self.items_by_share(&items);
        } else {
            self.items_in_order(&items);
        }
    }

    fn items_in_order(&mut self, items: &[TurnItem<'_>]) {
        let mut lanes: BTreeMap<u32, VecDeque<TurnItem<'_>>> = BTreeMap::new();
        for &item in items {
            lanes.entry(item.lane).or_default().push_back(item);
        }
        for item in items {
            let Some(lane) = lanes.get_mut(&item.lane) else { continue };
            while let Some(item) = lane.pop_front() {
                if self.item(item.tasks) {
                    break;
                }
            }
        }
    }

    fn shares<T: Default>(&mut self, ask: impl FnOnce(&mut Shares) -> T) -> T {
        self.overlays.current.shares.as_mut().map(ask).unwrap_or_default()
    }

    /// Priority by priority, plans the next item of the user or queue with the smallest share. Only placed tasks count
    /// for a share.
    fn items_by_share(&mut self, items: &[TurnItem<'_>]) {
        let tables = self.input.tables;
        let queueing = &tables.settings.queueing;
        let chance = |turn: &Turn| turn_chance(tables.closed_total, turn);
        self.overlays.current.shares_known();
        self.overlays.without_placements.shares.clone_from(&self.overlays.current.shares);
        for of_priority in items.chunk_by(|left, right| left.priority == right.priority) {
            // By turn and not by lane, because a job that has waited longest has a lane of its own.
            let mut by_turn: BTreeMap<Turn, VecDeque<TurnItem<'_>>> = BTreeMap::new();
            for &item in of_priority {
                let turn = tables.jobs.get(&item.job).and_then(|entry| entry.turn.clone());
                by_turn.entry(turn.unwrap_or_default()).or_default().push_back(item);
            }
            let mut lanes: Vec<(Turn, VecDeque<TurnItem<'_>>)> = by_turn.into_iter().collect();
            for (number, (turn, _)) in lanes.iter().enumerate() {
                self.shares(|shares| shares.lane_put(queueing, turn, number, chance));
            }
            while let Some(number) = self.shares(|shares| shares.next()) {
                let Some((turn, lane)) = lanes.get_mut(number) else { break };
                match lane.pop_front() {
                    Some(item) => drop(self.item(item.tasks)),
                    None => self.shares(|shares| shares.lane_done(turn)),
                }
            }
        }
    }
}
