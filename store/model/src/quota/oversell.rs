//! How much of a cell the quotas of a band may grant together, and whether one more fits.
//!
//! Only quotas without a parent count: those below a group share what the group has. A quota grants the amounts that it
//! names. What may be borrowed is room of a parent, which counts already.

use std::collections::BTreeSet;
use std::ops::Range;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::QuotaLimit;
use crate::job::Band;
use crate::resource::{Dimension, Resources};

/// Production never gets more than what is there.
pub const OVERSELL_WHOLE: u32 = 100;
/// The largest factor of batch, in percent.
pub const OVERSELL_PERCENT_MAX: u32 = 10_000;

/// Bands whose quotas are counted together against the capacity of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrantPool {
    /// Production, and monitoring above it: both take what is there.
    Production,
    Batch,
}

impl GrantPool {
    /// All pools.
    pub const ALL: [Self; 2] = [Self::Production, Self::Batch];

    /// The pool of a band. Best effort has no quotas.
    pub fn of(band: Band) -> Option<Self> {
        match band {
            Band::BestEffort => None,
            Band::Batch => Some(Self::Batch),
            Band::Production | Band::Monitoring => Some(Self::Production),
        }
    }

    /// The bands whose grants are summed.
    pub fn bands(self) -> &'static [Band] {
        match self {
            Self::Production => &[Band::Production, Band::Monitoring],
            Self::Batch => &[Band::Batch],
        }
    }
}

impl std::fmt::Display for GrantPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Production => "production and monitoring",
            Self::Batch => "batch",
        })
    }
}

/// The factors of a cell, in percent of its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct OversellFactors {
    /// Absent: [`OVERSELL_WHOLE`], which is the most as well.
    #[n(0)]
    pub production_percent: Option<u32>,
    /// Absent: nobody checks.
    #[n(1)]
    pub batch_percent: Option<u32>,
}

impl OversellFactors {
    /// The factor of a pool, in percent; `None`: nobody checks.
    pub fn percent(&self, pool: GrantPool) -> Option<u32> {
        match pool {
            GrantPool::Production => {
                Some(self.production_percent.unwrap_or(OVERSELL_WHOLE).min(OVERSELL_WHOLE))
            }
            GrantPool::Batch => self.batch_percent,
        }
    }
}

/// What one quota grants, and when.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct QuotaGrant {
    /// An amount of 0 is none that counts.
    #[n(0)]
    pub resources: Resources,
    /// The window, wall time, milliseconds since 1970; absent: without a beginning or an end.
    #[n(1)]
    pub from_ms: Option<i64>,
    #[n(2)]
    pub until_ms: Option<i64>,
}

impl From<&QuotaLimit> for QuotaGrant {
    fn from(limit: &QuotaLimit) -> Self {
        let QuotaLimit { resources, from_ms, until_ms, .. } = limit;
        Self { resources: resources.clone(), from_ms: *from_ms, until_ms: *until_ms }
    }
}

impl QuotaGrant {
    /// From when on it holds, and up to when, at or after `now_ms`; `None`: it is over.
    fn span(&self, now_ms: i64) -> Option<Range<i64>> {
        let span = self.from_ms.unwrap_or(i64::MIN).max(now_ms)..self.until_ms.unwrap_or(i64::MAX);
        (!span.is_empty()).then_some(span)
    }

    /// Returns true if it grants at least `amount` whenever `other` holds, from `now_ms` on.
    fn covers(&self, other: &Self, dimension: &Dimension, amount: u64, now_ms: i64) -> bool {
        let Some(span) = other.span(now_ms) else { return true };
        self.resources.amount(dimension) >= amount
            && self.span(now_ms).is_some_and(|own| own.start <= span.start && span.end <= own.end)
    }
}

/// What quotas may grant together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantBound<'a> {
    /// The sum over the nodes that are ready.
    pub capacity: &'a Resources,
    pub percent: u32,
}

impl GrantBound<'_> {
    fn allowed(&self, dimension: &Dimension) -> u64 {
        let product = u128::from(self.capacity.amount(dimension)).saturating_mul(u128::from(self.percent));
        u64::try_from(product / 100).unwrap_or(u64::MAX)
    }

    fn excess(&self, dimension: Dimension, granted: u64) -> Option<GrantExcess> {
        let allowed = self.allowed(&dimension);
        let (capacity, percent) = (self.capacity.amount(&dimension), self.percent);
        (granted > allowed).then_some(GrantExcess { dimension, granted, allowed, capacity, percent })
    }
}

/// An amount of which quotas grant more than they may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantExcess {
    pub dimension: Dimension,
    /// What they grant at one moment, at most, from now on.
    pub granted: u64,
    /// The capacity by the factor.
    pub allowed: u64,
    pub capacity: u64,
    pub percent: u32,
}

impl std::fmt::Display for GrantExcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { dimension, percent, .. } = self;
        let show = |amount: u64| dimension.amount_display(amount);
        let (granted, allowed, capacity) = (show(self.granted), show(self.allowed), show(self.capacity));
        let missing = show(self.granted.saturating_sub(self.allowed));
        write!(f, "{dimension}: {granted} granted at once of {allowed} ({percent}% of {capacity}), ")?;
        write!(f, "{missing} too many")
    }
}

/// An amount of a quota that does not fit beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantShort {
    /// With this quota.
    pub excess: GrantExcess,
    /// What this quota could have.
    pub room: u64,
}

impl std::fmt::Display for GrantShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} would fit)", self.excess, self.excess.dimension.amount_display(self.room))
    }
}

/// A change of what one quota grants.
#[derive(Clone, Copy, Debug)]
pub struct GrantStep<'a> {
    /// Absent: it granted nothing, or had a parent.
    pub before: Option<&'a QuotaGrant>,
    pub after: &'a QuotaGrant,
}

/// What a change would grant too much of, from `now_ms` on (wall time, milliseconds since 1970), beside the `others`
/// of the pool. A change that grants no more than before at any time always fits, whatever the cell has lost meanwhile.
pub fn grant_check(
    bound: GrantBound<'_>,
    others: &[QuotaGrant],
    step: GrantStep<'_>,
    now_ms: i64,
) -> Vec<GrantShort> {
    let Some(span) = step.after.span(now_ms) else { return Vec::new() };
    let mut short = Vec::new();
    for (dimension, amount) in step.after.resources.amounts().into_iter().filter(|(_, amount)| *amount > 0) {
        if step.before.is_some_and(|before| before.covers(step.after, &dimension, amount, now_ms)) {
            continue;
        }
        let taken = peak(others, &dimension, span.clone());
        let room = bound.allowed(&dimension).saturating_sub(taken);
        let excess = bound.excess(dimension, taken.saturating_add(amount));
        short.extend(excess.map(|excess| GrantShort { excess, room }));
    }
    short
}

/// What the quotas of a pool grant together at one moment, at most, from `now_ms` on.
pub fn grants_peak(grants: &[QuotaGrant], now_ms: i64) -> Resources {
    let mut sum = Resources::default();
    for dimension in dimensions(grants) {
        let most = peak(grants, &dimension, now_ms..i64::MAX);
        sum.amount_set(&dimension, most);
    }
    sum
}

/// What the quotas of a pool grant too much of, from `now_ms` on.
pub fn grants_excess(bound: GrantBound<'_>, grants: &[QuotaGrant], now_ms: i64) -> Vec<GrantExcess> {
    let most = grants_peak(grants, now_ms).amounts().into_iter();
    most.filter_map(|(dimension, granted)| bound.excess(dimension, granted)).collect()
}

fn dimensions(grants: &[QuotaGrant]) -> BTreeSet<Dimension> {
    let amounts = grants.iter().flat_map(|grant| grant.resources.amounts());
    amounts.filter(|(_, amount)| *amount > 0).map(|(dimension, _)| dimension).collect()
}

/// The largest sum at any moment of `within`.
fn peak(grants: &[QuotaGrant], dimension: &Dimension, within: Range<i64>) -> u64 {
    let mut steps: Vec<(i64, i128)> = Vec::new();
    for grant in grants {
        let amount = i128::from(grant.resources.amount(dimension));
        let span = grant.span(within.start).filter(|span| span.start < within.end && amount > 0);
        let Some(span) = span else { continue };
        steps.push((span.start, amount));
        steps.push((span.end, amount.saturating_neg()));
    }
    // At one time, what ends comes before what begins.
    steps.sort_unstable();
    let (mut sum, mut most) = (0_i128, 0_i128);
    for (_, step) in steps {
        sum = sum.saturating_add(step);
        most = most.max(sum);
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpu(cpu_millis: u64) -> Resources {
        Resources { cpu_millis, ..Resources::default() }
    }

    fn grant(cpu_millis: u64, from_ms: Option<i64>, until_ms: Option<i64>) -> QuotaGrant {
        QuotaGrant { resources: cpu(cpu_millis), from_ms, until_ms }
    }

    fn always(cpu_millis: u64) -> QuotaGrant {
        grant(cpu_millis, None, None)
    }

    fn check(others: &[QuotaGrant], before: Option<&QuotaGrant>, after: &QuotaGrant) -> Vec<String> {
        let bound = GrantBound { capacity: &cpu(16_000), percent: 100 };
        let short = grant_check(bound, others, GrantStep { before, after }, 1_000);
        short.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_quota_fits_beside_the_others_or_says_what_would() {
        assert_eq!(check(&[always(10_000)], None, &always(6_000)), [""; 0]);
        assert_eq!(
            check(&[always(10_000)], None, &always(8_000)),
            ["cpu: 18 granted at once of 16 (100% of 16), 2 too many (6 would fit)"]
        );
        let gpu = Resources { device_millis: [("gpu".to_owned(), 1_000)].into(), ..Resources::default() };
        let gpu = QuotaGrant { resources: gpu, ..QuotaGrant::default() };
        assert_eq!(check(&[], None, &gpu).len(), 1, "the cell has none");
        let batch = GrantBound { capacity: &cpu(16_000), percent: 150 };
        let after = always(14_001);
        let short = grant_check(batch, &[always(10_000)], GrantStep { before: None, after: &after }, 0);
        assert_eq!((short[0].excess.allowed, short[0].room), (24_000, 14_000));
    }

    #[test]
    fn only_what_holds_at_the_same_time_is_summed() {
        let (early, late) = (grant(16_000, None, Some(2_000)), grant(16_000, Some(2_000), None));
        assert_eq!(check(std::slice::from_ref(&early), None, &late), [""; 0]);
        assert_eq!(check(std::slice::from_ref(&early), None, &grant(1, Some(1_999), None)).len(), 1);
        assert_eq!(check(&[grant(16_000, None, Some(1_000))], None, &always(16_000)), [""; 0], "it is over");
        assert_eq!(check(&[always(16_000)], None, &grant(1, None, Some(1_000))), [""; 0], "it is over");
        assert_eq!(grants_peak(&[early, late], 0), cpu(16_000));
    }

    #[test]
    fn what_grants_no_more_than_before_fits_a_cell_that_has_become_small() {
        let others = [always(20_000)];
        let before = grant(8_000, Some(0), Some(9_000));
        assert_eq!(check(&others, Some(&before), &grant(7_000, Some(1), Some(9_000))), [""; 0]);
        for wider in [grant(8_001, Some(0), Some(9_000)), grant(8_000, Some(0), Some(9_001))] {
            assert_eq!(check(&others, Some(&before), &wider).len(), 1, "{wider:?}");
        }
        let bound = GrantBound { capacity: &cpu(16_000), percent: 100 };
        let excess = grants_excess(bound, &others, 0);
        let text = "cpu: 20 granted at once of 16 (100% of 16), 4 too many";
        assert_eq!(excess.iter().map(ToString::to_string).collect::<Vec<_>>(), [text]);
    }

    #[test]
    fn production_never_has_more_than_everything() {
        let factors = OversellFactors { production_percent: Some(250), batch_percent: Some(250) };
        assert_eq!(GrantPool::ALL.map(|pool| factors.percent(pool)), [Some(100), Some(250)]);
        assert_eq!(GrantPool::ALL.map(|pool| OversellFactors::default().percent(pool)), [Some(100), None]);
    }

    fn some_grant() -> impl Strategy<Value = QuotaGrant> {
        let time = || proptest::option::of(0..30_i64);
        (0..20_u64, time(), time()).prop_map(|(amount, from, until)| grant(amount, from, until))
    }

    proptest! {
        #[test]
        fn the_peak_is_the_largest_sum_of_any_moment(
            grants in proptest::collection::vec(some_grant(), 0..8),
            now in 0..20_i64,
        ) {
            let at = |moment: i64| {
                let holds = |grant: &&QuotaGrant| {
                    grant.from_ms.is_none_or(|from| from <= moment) && grant.until_ms.is_none_or(|until| moment < until)
                };
                grants.iter().filter(holds).map(|grant| grant.resources.cpu_millis).sum::<u64>()
            };
            let most = (now..40).map(at).max().unwrap();
            prop_assert_eq!(grants_peak(&grants, now).cpu_millis, most);
        }

        #[test]
        fn a_change_that_fits_never_makes_a_new_excess(
            others in proptest::collection::vec(some_grant(), 0..6),
            before in proptest::option::of(some_grant()),
            after in some_grant(),
        ) {
            let capacity = cpu(40);
            let bound = GrantBound { capacity: &capacity, percent: 100 };
            let with = |own: Option<&QuotaGrant>| {
                let all: Vec<QuotaGrant> = others.iter().chain(own).cloned().collect();
                grants_peak(&all, 0).cpu_millis
            };
            let fits = grant_check(bound, &others, GrantStep { before: before.as_ref(), after: &after }, 0).is_empty();
            if fits && with(before.as_ref()) <= 40 {
                prop_assert!(with(Some(&after)) <= 40);
            }
            if !fits {
                prop_assert!(with(Some(&after)) > 40);
            }
        }
    }
}
