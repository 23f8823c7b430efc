//! Random: any node that fits, each as likely as the others. A baseline for comparisons.

use super::{Policy, ScoringContext, SearchStart};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct Random;

impl Policy for Random {
    fn start(&self) -> SearchStart {
        SearchStart::After(1)
    }

    fn fit(&self, _context: &ScoringContext<'_, '_>) -> u32 {
        0
    }

    fn draws(&self) -> bool {
        true
    }
}
