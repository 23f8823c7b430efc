//! Decides whether a claim of a lease may succeed: a pure function of the stored rows and the claimant's observation.

use super::{LeaseBeat, LeaseRow};

/// Both rows of a lease, as read at one version; the defaults if they do not exist.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LeaseState {
    pub row: LeaseRow,
    pub beat: LeaseBeat,
}

impl LeaseState {
    /// Returns true if the lease has a holder in the store's `generation`.
    pub fn is_held(&self, generation: u64) -> bool {
        !self.row.holder.is_empty() && self.row.generation == generation
    }
}

/// A request to hold a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseClaim {
    /// Such as `scheduler`.
    pub role: String,
    /// From 0.
    pub shard: u32,
    /// Unique to the process and its start, never used again.
    pub holder: String,
    /// Milliseconds without a heartbeat after which others may take the lease.
    pub duration_ms: u64,
    /// The store's generation. An embedded directory that is opened again has the next one, which voids earlier leases.
    /// 0 on a store that outlives its clients.
    pub generation: u64,
    /// The state that the claimant saw unchanged for the whole of the holder's duration; `None` until then.
    pub expired: Option<LeaseState>,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseDecision {
    /// Take it: write this row, and the first heartbeat of its epoch.
    Take(LeaseRow),
    /// The claimant already holds it.
    Mine,
    /// Another one holds it: keep observing.
    Held,
}

/// Decides about a claim. A lease is free if it has no holder, or if it was given in another generation of the store.
/// It is also free if the claimant has seen it expire and nothing has changed since.
pub fn lease_claim_decide(stored: &LeaseState, claim: &LeaseClaim) -> LeaseDecision {
    let held = stored.is_held(claim.generation);
    if held && stored.row.holder == claim.holder {
        return LeaseDecision::Mine;
    }
    if held && claim.expired.as_ref() != Some(stored) {
        return LeaseDecision::Held;
    }
    LeaseDecision::Take(LeaseRow {
        epoch: stored.row.epoch.saturating_add(1),
        holder: claim.holder.clone(),
        generation: claim.generation,
        duration_ms: claim.duration_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(holder: &str, expired: Option<LeaseState>) -> LeaseClaim {
        let (role, holder) = ("scheduler".to_owned(), holder.to_owned());
        LeaseClaim { role, shard: 0, holder, duration_ms: 1_000, generation: 2, expired }
    }

    fn held(holder: &str, generation: u64) -> LeaseState {
        let row = LeaseRow { epoch: 4, holder: holder.to_owned(), generation, duration_ms: 1_000 };
        LeaseState { row, beat: LeaseBeat { epoch: 4, beat: 9 } }
    }

    #[test]
    fn only_what_is_free_void_or_expired_is_taken() {
        let take = |stored: &LeaseState, claim: &LeaseClaim| match lease_claim_decide(stored, claim) {
            LeaseDecision::Take(row) => Some(row.epoch),
            LeaseDecision::Mine | LeaseDecision::Held => None,
        };
        assert_eq!(take(&LeaseState::default(), &claim("b", None)), Some(1), "never held");
        assert_eq!(take(&held("", 2), &claim("b", None)), Some(5), "released");
        assert_eq!(take(&held("a", 1), &claim("b", None)), Some(5), "of an older generation");
        assert_eq!(take(&held("a", 2), &claim("b", None)), None);
        assert_eq!(take(&held("a", 2), &claim("b", Some(held("a", 2)))), Some(5), "seen to expire");
        let beaten = LeaseState { beat: LeaseBeat { epoch: 4, beat: 10 }, ..held("a", 2) };
        assert_eq!(take(&beaten, &claim("b", Some(held("a", 2)))), None, "beaten since");
        assert_eq!(lease_claim_decide(&held("a", 2), &claim("a", None)), LeaseDecision::Mine);
        assert_eq!(
            take(&held("a", 1), &claim("a", None)),
            Some(5),
            "a holder of before a restart is another one"
        );
    }
}
