//! The tasks that a plan did not place, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{GangCause, PendingClass, PendingTask, PlanInput, Unplaced, UnplacedCause};
use crate::census::NodeCensus;
use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::preempt::PreemptionScope;
use crate::tables::ShapeId;

/// The tasks that a plan did not place.
#[derive(Default)]
pub(super) struct Refusals {
    pub unplaced: Vec<Unplaced>,
    /// Shapes that fit nowhere any more, with their census.
    exhausted: BTreeMap<ShapeId, Arc<NodeCensus>>,
    /// The index into `unplaced` of each class.
    of_class: BTreeMap<u32, usize>,
}

impl Refusals {
    /// Returns true if a shape fits nowhere any more.
    pub(super) fn exhausted(&self, shape: ShapeId) -> bool {
        self.exhausted.contains_key(&shape)
    }

    /// Forgets which shapes fit nowhere, because capacity was given back.
    pub(super) fn void(&mut self) {
        self.exhausted.clear();
    }

    /// The census of a shape's next task, as the plan has left the nodes.
    pub(super) fn census(
        &mut self,
        input: PlanInput<'_>,
        overlay: &PlanOverlay<'_>,
        shape: ShapeId,
    ) -> Option<Arc<NodeCensus>> {
        if let Some(known) = self.exhausted.get(&shape) {
            return Some(Arc::clone(known));
        }
        let asked = input.tables.shapes.get(shape)?;
        let requirement = Requirement::of(asked, input.tables);
        let census = Arc::new(NodeCensus::of(overlay, &requirement, input.now_ms));
        // With rules between tasks, a later placement may let the shape in.
        if asked.job.is_none() && census.fit == 0 {
            self.exhausted.insert(shape, Arc::clone(&census));
        }
        Some(census)
    }

    /// Adds a task to its class's entry. Returns false if the class has none yet.
    pub(super) fn joined(&mut self, pending: PendingTask) -> bool {
        let position = self.of_class.get(&pending.class);
        let known = position.and_then(|position| self.unplaced.get_mut(*position));
        let Some(unplaced) = known else { return false };
        unplaced.tasks.push(pending.task.index);
        true
    }

    /// Records the first refused task of a class.
    pub(super) fn refused(&mut self, pending: PendingTask, class: PendingClass, refusal: Refusal) {
        self.of_class.insert(pending.class, self.unplaced.len());
        self.added(class, vec![pending.task.index], refusal);
    }

    /// Records refused tasks of a class.
    pub(super) fn added(&mut self, class: PendingClass, tasks: Vec<u32>, refusal: Refusal) {
        let Refusal { census, causes, gang, never, no_victims, pinned } = refusal;
        self.unplaced.push(Unplaced {
            job: class.job,
            tasks,
            gang,
            never,
            cause: UnplacedCause { census, gang: causes },
            shape: class.shape,
            no_victims,
            pinned,
        });
    }
}

/// Why tasks are refused.
pub(super) struct Refusal {
    pub census: Arc<NodeCensus>,
    pub causes: Vec<GangCause>,
    /// See [`Unplaced::gang`].
    pub gang: bool,
    /// See [`Unplaced::never`].
    pub never: bool,
    /// See [`Unplaced::no_victims`].
    pub no_victims: Option<PreemptionScope>,
    /// See [`Unplaced::pinned`].
    pub pinned: bool,
}
