//! Swarm's `binpack`: the node with the most tasks that fits one more.

use super::{Policy, ScoringContext};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct SwarmBinpack;

impl Policy for SwarmBinpack {
    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        context.tasks()
    }
}
