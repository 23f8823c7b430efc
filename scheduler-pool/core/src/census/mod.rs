//! A census asks the filters about every node of the cell for one requirement, and counts the answers. A plan returns
//! it as the cause of an unplaced task, and an explanation turns it into text.

mod nearest;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use smallvec::SmallVec;

use crate::filter::{FilterReason, Requirement, large_enough, passes_with_time, refusals};
use crate::overlay::PlanOverlay;
use nearest::NearestSearch;
pub(crate) use nearest::{NearMiss, Obstacle};

/// How many nodes would take a task, and why the others would not.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct NodeCensus {
    /// The number of nodes.
    pub nodes: u32,
    /// Nodes that fit now.
    pub fit: u32,
    /// Nodes that do not fit now, but will once tasks there or elsewhere have ended.
    pub fit_later: u32,
    /// Nodes that are large enough when they are empty.
    pub large: u32,
    /// The other nodes, each counted at the first filter that refuses it.
    pub refused: BTreeMap<FilterReason, u32>,
    /// Small changes of the request that would let nodes in. The one that lets in most comes first.
    pub nearest: Vec<NearMiss>,
}

impl NodeCensus {
    /// Checks a requirement against every node, as a plan has left the nodes.
    pub(crate) fn of(overlay: &PlanOverlay<'_>, requirement: &Requirement, now_ms: i64) -> Self {
        Self::of_nodes(overlay, requirement, now_ms, &overlay.nodes.order)
    }

    /// The same for some nodes.
    pub(crate) fn of_nodes(
        overlay: &PlanOverlay<'_>,
        requirement: &Requirement,
        now_ms: i64,
        among: &[u32],
    ) -> Self {
        let nodes = u32::try_from(among.len()).unwrap_or(u32::MAX);
        let mut census = Self { nodes, ..Self::default() };
        let mut nearest = NearestSearch::new(requirement);
        for &node in among {
            let mut refused: SmallVec<[FilterReason; 8]> = SmallVec::new();
            let _ = refusals(overlay, requirement, node, now_ms, |reason| -> ControlFlow<()> {
                refused.push(reason);
                ControlFlow::Continue(())
            });
            match refused.first() {
                Some(first) => *census.refused.entry(*first).or_default() += 1,
                None => census.fit += 1,
            }
            if large_enough(overlay, requirement, node) {
                census.large += 1;
                let later = !refused.is_empty() && refused.iter().all(|reason| passes_with_time(*reason));
                census.fit_later += u32::from(later);
            }
            nearest.node_refused(overlay, requirement, node, now_ms, &refused);
        }
        census.nearest = nearest.found();
        census
    }

    /// The filter that refused most nodes.
    pub(crate) fn refused_most(&self) -> Option<FilterReason> {
        self.refused.iter().max_by_key(|&(_, nodes)| nodes).map(|(reason, _)| *reason)
    }
}
