//! Gangs under a plan: as many members as are needed, or none of them.

use std::collections::BTreeMap;

use borough_model::JobId;
use smallvec::SmallVec;

use super::charge::charge_demand;
use super::recheck::task_wanted;
use super::{Placement, Planner, Unplaced};
use crate::filter::Requirement;
use crate::pending::{PendingGang, PendingTask};

impl Planner<'_, '_> {
    /// Places as many members of a gang as it needs, or none of them.
    pub(super) fn gang(&mut self, members: &[PendingTask]) -> bool {
        let gang = members.first().and_then(|member| self.queue.gangs.get(member.gang? as usize));
        let Some(&PendingGang { job, need }) = gang else { return false };
        if !members.iter().all(|member| task_wanted(self.snapshot, member.task)) {
            return false;
        }
        let mut placed = Vec::new();
        let mut failed = None;
        for member in self.smallest_first(members) {
            if placed.len() >= need as usize {
                break;
            }
            match self.placed(member) {
                Some(placement) => placed.push((member, placement)),
                None => failed = failed.or(Some(member)),
            }
        }
        if placed.len() >= need as usize {
            self.out.placements.extend(placed.into_iter().map(|(_, placement)| placement));
            return true;
        }
        let fitted = u32::try_from(placed.len()).unwrap_or(u32::MAX);
        if let Some(failed) = failed {
            self.gang_unplaced(job, members, failed, (need, fitted));
        }
        for (member, placement) in placed.iter().rev() {
            self.returned(*member, placement);
        }
        if fitted > 0 {
            self.work.generation += 1;
            self.exhausted.clear();
            self.bases.retain(|_, base| !base.ruled());
        }
        false
    }

    /// The possible members of a gang in the order in which they are tried: those that ask for least first, so that as
    /// many as can be fit. What they ask for is measured by the one of them that asks for most.
    fn smallest_first(&self, members: &[PendingTask]) -> Vec<PendingTask> {
        let demand = |member: &PendingTask| -> SmallVec<[(usize, u64); 6]> {
            let class = self.queue.classes.get(member.class as usize);
            let shape = class.and_then(|class| self.snapshot.shapes.get(class.shape));
            shape
                .map(|shape| Requirement::of_resources(&shape.resources, &self.snapshot.nodes).demand)
                .unwrap_or_default()
        };
        let mut most: BTreeMap<usize, u64> = BTreeMap::new();
        for (dimension, amount) in members.iter().flat_map(demand) {
            let most = most.entry(dimension).or_default();
            *most = amount.max(*most);
        }
        let size = |member: &PendingTask| -> u128 {
            let share = |(dimension, amount): (usize, u64)| {
                let most = most.get(&dimension).copied().unwrap_or(1).max(1);
                u128::from(amount) * 1_000_000 / u128::from(most)
            };
            demand(member).into_iter().map(share).sum()
        };
        let mut ordered = members.to_vec();
        ordered.sort_by_cached_key(size);
        ordered
    }

    fn gang_unplaced(
        &mut self,
        job: JobId,
        members: &[PendingTask],
        failed: PendingTask,
        (need, fitted): (u32, u32),
    ) {
        let Some(reason) = self.reason(failed.class) else { return };
        let Some(class) = self.queue.classes.get(failed.class as usize) else { return };
        self.out.unplaced.push(Unplaced {
            job,
            tasks: members.iter().map(|member| member.task.index).collect(),
            gang: fitted > 0,
            reason: reason.of_gang(need, fitted),
            shape: class.shape,
        });
    }

    /// Gives back what a member was given: its gang did not fit.
    fn returned(&mut self, pending: PendingTask, placement: &Placement) {
        let Some(node) = self.snapshot.nodes.ordinal(placement.node) else { return };
        let numbers: Vec<u16> = placement.ports.iter().map(|port| port.number).collect();
        let plan_of = self.plan_of.get(pending.class as usize);
        if let Some(Some(plan)) = plan_of.and_then(|plan_of| self.plans.get(plan_of.number)) {
            let demand = charge_demand(&self.work, &plan.requirement, &placement.charge);
            self.work.returned(node, &demand, &numbers);
            self.work.counted(placement.task.job, node, false);
        }
        if let Some(job) = plan_of.and_then(|plan_of| self.jobs.get_mut(&plan_of.job)) {
            let domains = job.domains(&self.snapshot.nodes, node);
            job.counted(&domains, |count| count.saturating_sub(1));
        }
    }
}
