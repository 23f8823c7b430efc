//! Random: any node that fits, each as likely as the others. A baseline for comparisons.

use super::{Policy, ScoringContext, Start};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct Random;

impl Policy for Random {
    fn start(&self) -> Start {
        Start::After(1)
    }

    fn fit(&self, _context: &ScoringContext<'_, '_>) -> u32 {
        0
    }

    fn draws(&self) -> bool {
        true
    }
}
