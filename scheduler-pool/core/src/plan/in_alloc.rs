//! Places tasks into allocs. Only the allocs of the job's set are asked: each has its node, and amounts that are left.

use std::ops::ControlFlow;

use borough_model::resource::fits_in;
use borough_model::task::InAlloc;
use borough_model::{JobId, Resources, TaskId};

use super::{PendingTask, PlannedPlacement, Planner, placement_on};
use crate::filter::{Requirement, refusals_moving};
use crate::overlay::PlanOverlay;
use crate::tables::{AllocPlace, AllocsGiven, CellTables};

impl Planner<'_, '_> {
    /// The alloc set whose allocs a task goes into.
    pub(super) fn alloc_set(&self, pending: PendingTask) -> Option<JobId> {
        self.input.tables.jobs.get(&pending.task.job)?.row.as_ref()?.alloc_set()
    }

    /// Places a task into an alloc of its set. Returns true if it did. A task comes back to the alloc that it was in,
    /// and waits for that one while it has no node.
    pub(super) fn in_alloc(&mut self, pending: PendingTask, set: JobId) -> bool {
        if let Some(placement) = self.alloc_placed(pending, set) {
            self.placements.push(placement);
            return true;
        }
        if !self.refusals.joined(pending)
            && let Some(&class) = self.input.class(pending)
            && let Some(requirement) = self.pinned_requirement(class.shape)
        {
            self.pinned_refused(pending, class, &requirement, &[]);
        }
        false
    }

    fn alloc_placed(&mut self, pending: PendingTask, set: JobId) -> Option<PlannedPlacement> {
        let tables = self.input.tables;
        let entry = tables.jobs.get(&pending.task.job)?;
        let asked = entry.spec_of_task(pending.task.index)?.alloc_resources_for(pending.task.index)?;
        let requirement = self.pinned_requirement(self.input.class(pending)?.shape)?;
        let places = tables.alloc_places(set, pending.task, &self.in_allocs);
        let place = places.into_iter().find(|place| self.alloc_takes(place, asked, &requirement))?;
        self.alloc_taken(pending, &place, asked, &requirement)
    }

    fn alloc_takes(&self, place: &AllocPlace, asked: &Resources, requirement: &Requirement) -> bool {
        fits_in(asked, &place.free)
            && !self.preemptions.evictions.has(place.alloc)
            && node_takes(&self.overlays.current, requirement, place, self.input.now_ms)
    }

    fn alloc_taken(
        &mut self,
        pending: PendingTask,
        place: &AllocPlace,
        asked: &Resources,
        requirement: &Requirement,
    ) -> Option<PlannedPlacement> {
        let node = self.input.tables.nodes.ordinal(place.node)?;
        let evictions = &self.preemptions.evictions;
        let (overlays, dependencies) = (&mut self.overlays, &mut self.dependencies);
        let placement =
            placement_on(self.input, overlays, dependencies, evictions, pending, requirement, node)?;
        self.in_allocs.entry(place.alloc).or_default().insert(pending.task, asked.clone());
        let alloc = InAlloc { alloc: place.alloc, attempt: place.attempt, resources: asked.clone() };
        Some(in_alloc_of(placement, alloc))
    }
}

/// Returns true if the node of an alloc has what a task asks for besides the amounts of the alloc. It is open, or only
/// cordoned, has the ports, and breaks no rule between tasks.
fn node_takes(overlay: &PlanOverlay<'_>, requirement: &Requirement, place: &AllocPlace, now_ms: i64) -> bool {
    overlay.nodes.ordinal(place.node).is_some_and(|node| {
        requirement.admits(overlay.nodes.gate(node))
            && refusals_moving(overlay, requirement, node, now_ms, ControlFlow::Break).is_continue()
    })
}

impl CellTables {
    /// Returns true if an alloc of a set takes a task now.
    pub(crate) fn alloc_found(
        &self,
        overlay: &PlanOverlay<'_>,
        requirement: &Requirement,
        task: TaskId,
        set: JobId,
        now_ms: i64,
    ) -> bool {
        let spec = self.jobs.get(&task.job).and_then(|entry| entry.spec_of_task(task.index));
        let Some(asked) = spec.and_then(|spec| spec.alloc_resources_for(task.index)) else { return false };
        let takes = |place: &AllocPlace| {
            fits_in(asked, &place.free) && node_takes(overlay, requirement, place, now_ms)
        };
        self.alloc_places(set, task, &AllocsGiven::new()).iter().any(takes)
    }
}

/// The placement of a task into an alloc. It is valid only while the row of the alloc is the same. Whoever puts a task
/// into the alloc changes the commitment of its node, so two never take the same room. After a conflict only a new plan
/// knows what is left.
fn in_alloc_of(placement: PlannedPlacement, alloc: InAlloc) -> PlannedPlacement {
    let mut dependencies: Vec<TaskId> = placement.dependencies;
    dependencies.push(alloc.alloc);
    dependencies.sort_unstable();
    dependencies.dedup();
    PlannedPlacement { dependencies, constrained: true, alloc: Some(Box::new(alloc)), ..placement }
}
