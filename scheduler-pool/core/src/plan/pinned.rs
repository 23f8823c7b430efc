//! Places tasks of daemon jobs. Each is for one node, so nothing is searched: the plan asks that node alone.

use std::sync::Arc;

use super::refusal::Refusal;
use super::{PendingClass, PendingTask, PlannedPlacement, Planner, placement_on};
use crate::census::NodeCensus;
use crate::filter::{Requirement, fits};
use crate::preempt::{NodeAnswer, PreemptionRequest, offer_of};
use crate::tables::ShapeId;

impl Planner<'_, '_> {
    /// Returns true if a task is for one node.
    pub(super) fn is_pinned(&self, pending: PendingTask) -> bool {
        let class = self.input.class(pending);
        class.and_then(|class| self.input.tables.shapes.get(class.shape)).is_some_and(|shape| shape.daemon)
    }

    /// Places a task on the node that it is for, by evictions if it must and may. Returns true if it did.
    pub(super) fn pinned(&mut self, pending: PendingTask) -> bool {
        let tables = self.input.tables;
        let Some(&class) = self.input.class(pending) else { return false };
        let Some(requirement) = self.pinned_requirement(class.shape) else { return false };
        let slot = tables.jobs.get(&class.job).and_then(|entry| entry.task(pending.task.index));
        let node = slot.and_then(|slot| slot.node_served()).and_then(|node| tables.nodes.ordinal(node));
        let placed = node.and_then(|node| {
            self.pinned_alone(pending, &requirement, node)
                .or_else(|| self.pinned_preempted(pending, &requirement, node))
        });
        if let Some(placement) = placed {
            self.placements.push(placement);
            return true;
        }
        if !self.refusals.joined(pending) {
            let among: Vec<u32> = node.into_iter().collect();
            self.pinned_refused(pending, class, &requirement, &among);
        }
        false
    }

    /// Records that a task which only some nodes may have gets none of `among`.
    pub(super) fn pinned_refused(
        &mut self,
        pending: PendingTask,
        class: PendingClass,
        requirement: &Requirement,
        among: &[u32],
    ) {
        let (overlay, now_ms) = (&self.overlays.current, self.input.now_ms);
        let refusal = Refusal {
            census: Arc::new(NodeCensus::of_nodes(overlay, requirement, now_ms, among)),
            causes: Vec::new(),
            gang: false,
            never: false,
            no_victims: None,
            pinned: true,
        };
        self.refusals.refused(pending, class, refusal);
    }

    pub(super) fn pinned_requirement(&mut self, shape: ShapeId) -> Option<Arc<Requirement>> {
        if let Some(known) = self.pinned.get(&shape) {
            return Some(Arc::clone(known));
        }
        let asked = self.input.tables.shapes.get(shape)?;
        let requirement = Arc::new(Requirement::of(asked, self.input.tables));
        self.pinned.insert(shape, Arc::clone(&requirement));
        Some(requirement)
    }

    fn pinned_alone(
        &mut self,
        pending: PendingTask,
        requirement: &Requirement,
        node: u32,
    ) -> Option<PlannedPlacement> {
        if !fits(&self.overlays.current, requirement, node, self.input.now_ms) {
            return None;
        }
        let evictions = &self.preemptions.evictions;
        let (overlays, dependencies) = (&mut self.overlays, &mut self.dependencies);
        placement_on(self.input, overlays, dependencies, evictions, pending, requirement, node)
    }

    /// Places it by evictions. Once the plan has examined enough tasks for victims, the rest waits for the next plan.
    fn pinned_preempted(
        &mut self,
        pending: PendingTask,
        requirement: &Requirement,
        node: u32,
    ) -> Option<PlannedPlacement> {
        let tables = self.input.tables;
        let class = self.input.class(pending)?;
        let asked = &tables.shapes.get(class.shape)?.resources;
        let (scope, claim) = class.scope.resolved(&self.overlays.current, asked);
        if !scope.any() {
            return None;
        }
        if self.preemptions.evictions.spent() {
            self.preemption_cut = true;
            return None;
        }
        let ask = PreemptionRequest {
            requirement,
            below: scope.below,
            claim: claim.as_ref(),
            now_ms: self.input.now_ms,
            fresh_ms: tables.settings.fresh_start_ms(),
        };
        match offer_of(&mut self.overlays.current, &mut self.preemptions.evictions, &ask, node) {
            NodeAnswer::Offer(offer) => self.offer_taken(pending, requirement, &offer),
            NodeAnswer::Never | NodeAnswer::Protected => None,
        }
    }
}
