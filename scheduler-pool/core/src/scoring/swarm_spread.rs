//! Swarm's `spread`: the node with the fewest tasks, however large they are.

use super::{Policy, ScoringContext, SearchStart};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct SwarmSpread;

impl Policy for SwarmSpread {
    fn start(&self) -> SearchStart {
        SearchStart::After(512)
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        u32::MAX - context.tasks()
    }
}
