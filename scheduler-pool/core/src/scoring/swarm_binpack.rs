//! Swarm's `binpack`: the node with the most tasks that still has room.

use super::{Policy, ScoringContext};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct SwarmBinpack;

impl Policy for SwarmBinpack {
    fn name(&self) -> &'static str {
        "swarm-binpack"
    }

    fn about(&self) -> &'static str {
        "The node with the most tasks that still has room."
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        context.tasks()
    }
}
