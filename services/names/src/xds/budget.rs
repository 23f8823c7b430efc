//! How many names all streams of xDS keep together. Each stream keeps what its client has asked for and heard of.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The names of all streams together.
#[derive(Clone, Debug)]
pub(super) struct NamesBudget {
    most: usize,
    held: Arc<AtomicUsize>,
}

/// All streams together would keep too many names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all streams together follow {most} names: ask another name service, or for fewer names")]
pub(super) struct BudgetSpent {
    most: usize,
}

impl NamesBudget {
    /// A budget of `most` names.
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: Arc::default() }
    }

    /// What a stream holds of it: nothing yet.
    pub(super) fn lease(&self) -> NamesLease {
        NamesLease { budget: self.clone(), held: 0 }
    }
}

/// The part of the budget that one stream holds. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct NamesLease {
    budget: NamesBudget,
    held: usize,
}

impl NamesLease {
    /// Holds `names` in all.
    ///
    /// # Errors
    /// The budget has no room for more. The lease then holds what it held.
    pub(super) fn hold(&mut self, names: usize) -> Result<(), BudgetSpent> {
        let Some(more) = names.checked_sub(self.held) else {
            self.budget.held.fetch_sub(self.held - names, Ordering::Relaxed);
            self.held = names;
            return Ok(());
        };
        let before = self.budget.held.fetch_add(more, Ordering::Relaxed);
        if more > 0 && before.saturating_add(more) > self.budget.most {
            self.budget.held.fetch_sub(more, Ordering::Relaxed);
            return Err(BudgetSpent { most: self.budget.most });
        }
        self.held = names;
        Ok(())
    }
}

impl Drop for NamesLease {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_a_budget_and_give_back_what_they_held() {
        let budget = NamesBudget::new(10);
        let (mut one, mut other) = (budget.lease(), budget.lease());
        assert_eq!(one.hold(6), Ok(()));
        assert_eq!(other.hold(5), Err(BudgetSpent { most: 10 }));
        assert_eq!(other.hold(4), Ok(()));
        assert_eq!(one.hold(6), Ok(()), "no more than it holds");
        assert_eq!(one.hold(2), Ok(()));
        assert_eq!(other.hold(8), Ok(()));
        drop(other);
        assert_eq!(one.hold(10), Ok(()));
        drop(one);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}
