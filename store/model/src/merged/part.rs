//! Divides the traffic of a merged service among its jobs, and the part of each job among its endpoints.

use super::SHARE_WHOLE;
use crate::task::Health;

/// The whole traffic, in the unit of [`TrafficParts::part`].
pub const PART_WHOLE: u32 = 1_000_000;
/// The largest weight of an endpoint.
const WEIGHT_MAX: u64 = 255;
/// Bits behind the point of the fixed-point numbers here.
const FRACTION_BITS: u32 = 32;
/// The golden ratio as a fraction of 2^64. Multiples of it are spread evenly, however many there are.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The weights of some endpoints of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WeightSum {
    pub sum: u64,
    /// The largest of them.
    pub max: u32,
}

impl WeightSum {
    /// Adds so many endpoints of one weight.
    pub fn add(&mut self, weight: u32, endpoints: u64) {
        if endpoints > 0 {
            self.sum = self.sum.saturating_add(u64::from(weight).saturating_mul(endpoints));
            self.max = self.max.max(weight);
        }
    }
}

/// What the part of a job depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MergedMember {
    /// Its share in per cent; `None`: it divides what is left with the others.
    pub share: Option<u32>,
    /// Its healthy endpoints.
    pub healthy: WeightSum,
    /// All of its published endpoints.
    pub published: WeightSum,
}

impl MergedMember {
    fn usable(&self, usable: UsableHealth) -> WeightSum {
        match usable {
            _ if self.share == Some(0) => WeightSum::default(),
            UsableHealth::Healthy => self.healthy,
            UsableHealth::Any => self.published,
        }
    }
}

/// Which endpoints of a merged service take traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum UsableHealth {
    Healthy,
    /// None of any job is healthy: the nodes of all are lost, and it is better to try them than to serve nobody.
    #[default]
    Any,
}

/// The parts of the jobs of a merged service, in the order of the members.
///
/// A job with a share gets it. The jobs without a share divide what is left, by the sums of their weights. A job
/// without a usable endpoint gets nothing, and the others get its part: first those without a share. If each usable job
/// has a share, they divide the whole by their shares.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TrafficParts {
    usable: UsableHealth,
    parts: Vec<u32>,
    /// Per job, what an endpoint of weight 1 gets.
    units: Vec<u64>,
    /// What the endpoint with the most gets.
    largest: u64,
}

impl TrafficParts {
    /// Divides the traffic.
    pub fn of(members: &[MergedMember]) -> Self {
        let any_healthy = members.iter().any(|member| member.usable(UsableHealth::Healthy).sum > 0);
        let usable = if any_healthy { UsableHealth::Healthy } else { UsableHealth::Any };
        let weights: Vec<WeightSum> = members.iter().map(|member| member.usable(usable)).collect();
        let served = || members.iter().zip(&weights).filter(|(_, weight)| weight.sum > 0);
        let shared: u64 = served().filter_map(|(member, _)| member.share).map(u64::from).sum();
        let others: u64 =
            served().filter(|(member, _)| member.share.is_none()).map(|(_, weight)| weight.sum).sum();
        let part = |(member, weight): (&MergedMember, &WeightSum)| {
            if weight.sum == 0 {
                return 0;
            }
            let (numerator, denominator) = match member.share {
                // Nobody else takes what is left.
                Some(share) if others == 0 => (u128::from(share), u128::from(shared)),
                Some(share) => (u128::from(share), u128::from(SHARE_WHOLE)),
                None => {
                    let left = u128::from(u64::from(SHARE_WHOLE).saturating_sub(shared));
                    (left * u128::from(weight.sum), u128::from(SHARE_WHOLE) * u128::from(others))
                }
            };
            let part = (u128::from(PART_WHOLE) * numerator).checked_div(denominator).unwrap_or_default();
            // Of very many jobs, each that may serve does.
            let least = u128::from(numerator > 0);
            u32::try_from(part.max(least)).unwrap_or(PART_WHOLE)
        };
        let parts: Vec<u32> = members.iter().zip(&weights).map(part).collect();
        let unit = |(weight, part): (&WeightSum, &u32)| {
            (u64::from(*part) << FRACTION_BITS).checked_div(weight.sum).unwrap_or_default()
        };
        let units: Vec<u64> = weights.iter().zip(&parts).map(unit).collect();
        let most = weights.iter().zip(&units);
        let most = most.map(|(weight, unit)| unit.saturating_mul(u64::from(weight.max)));
        Self { usable, largest: most.max().unwrap_or_default(), parts, units }
    }

    /// Returns true if an endpoint of this health takes traffic, if its job does.
    pub fn uses(&self, health: Health) -> bool {
        self.usable == UsableHealth::Any || health == Health::Healthy
    }

    /// The part of the job at this place, of [`PART_WHOLE`].
    pub fn part(&self, member: usize) -> u32 {
        self.parts.get(member).copied().unwrap_or_default()
    }

    /// The weight, 1 to 255, of an endpoint of the job at this place; `None` if the job gets nothing. `weight` is the
    /// endpoint's own weight and `index` that of its task.
    ///
    /// An endpoint rounds up or down by its index, so that the sum of a job is right to one unit or two, however many
    /// endpoints it has. An endpoint that would get less than half a unit gets 1.
    pub fn weight(&self, member: usize, weight: u32, index: u32) -> Option<u32> {
        let unit = self.units.get(member).copied().filter(|_| self.part(member) > 0)?;
        let most = u128::from(self.largest.max(1));
        let exact =
            ((u128::from(unit) * u128::from(weight) * u128::from(WEIGHT_MAX)) << FRACTION_BITS) / most;
        let fraction = exact & ((1 << FRACTION_BITS) - 1);
        // From the middle, so that the first task rounds to the nearest.
        let place = (1 << 63_u32) + u128::from(u64::from(index).wrapping_mul(GOLDEN));
        let threshold = (place & u128::from(u64::MAX)) >> (64 - FRACTION_BITS);
        let whole = (exact >> FRACTION_BITS) + u128::from(threshold < fraction);
        u32::try_from(whole.clamp(1, u128::from(WEIGHT_MAX))).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(share: Option<u32>, endpoints: u64) -> MergedMember {
        let mut healthy = WeightSum::default();
        healthy.add(1, endpoints);
        MergedMember { share, healthy, published: healthy }
    }

    fn parts(members: &[MergedMember]) -> Vec<u32> {
        let parts = TrafficParts::of(members);
        (0..members.len()).map(|at| parts.part(at)).collect()
    }

    #[test]
    fn a_canary_gets_its_share_however_many_tasks_the_others_have() {
        for others in [1, 9, 900] {
            assert_eq!(parts(&[member(None, others), member(Some(5), 1)]), [950_000, 50_000]);
        }
        assert_eq!(
            parts(&[member(None, 30), member(None, 10), member(Some(20), 7)]),
            [600_000, 200_000, 200_000]
        );
    }

    #[test]
    fn a_job_without_a_usable_endpoint_gives_its_part_to_the_others() {
        assert_eq!(parts(&[member(None, 9), member(Some(5), 0)]), [PART_WHOLE, 0]);
        assert_eq!(parts(&[member(None, 0), member(Some(5), 1)]), [0, PART_WHOLE]);
        assert_eq!(
            parts(&[member(Some(30), 1), member(Some(10), 1), member(None, 0)]),
            [750_000, 250_000, 0]
        );
        assert_eq!(
            parts(&[member(Some(30), 0), member(Some(10), 1), member(None, 1)]),
            [0, 100_000, 900_000]
        );
        assert_eq!(parts(&[]), [0; 0]);
    }

    #[test]
    fn a_share_of_nothing_gets_nothing_even_if_nobody_else_serves() {
        assert_eq!(parts(&[member(None, 9), member(Some(0), 5)]), [PART_WHOLE, 0]);
        assert_eq!(parts(&[member(None, 0), member(Some(0), 5)]), [0, 0]);
        assert_eq!(parts(&[member(Some(100), 1), member(None, 5)]), [PART_WHOLE, 0]);
        let parts = TrafficParts::of(&[member(Some(0), 5)]);
        assert_eq!(parts.weight(0, 1, 0), None);
    }

    #[test]
    fn healthy_endpoints_take_the_traffic_and_without_any_all_do() {
        let lost =
            |share, endpoints| MergedMember { healthy: WeightSum::default(), ..member(share, endpoints) };
        let of = TrafficParts::of(&[member(None, 9), lost(Some(5), 1)]);
        assert_eq!((of.part(0), of.part(1), of.uses(Health::Unknown)), (PART_WHOLE, 0, false));
        let of = TrafficParts::of(&[lost(None, 9), lost(Some(5), 1)]);
        assert_eq!((of.part(0), of.part(1), of.uses(Health::Unknown)), (950_000, 50_000, true));
        // A healthy job that may get nothing helps nobody.
        let of = TrafficParts::of(&[lost(None, 9), member(Some(0), 1)]);
        assert_eq!((of.part(0), of.part(1), of.uses(Health::Unknown)), (PART_WHOLE, 0, true));
    }

    #[test]
    fn the_weights_of_nine_tasks_and_a_canary() {
        let parts = TrafficParts::of(&[member(None, 9), member(Some(5), 1)]);
        assert!((0..9).all(|index| parts.weight(0, 1, index) == Some(255)));
        assert_eq!(parts.weight(1, 1, 0), Some(121), "5 of 100, to the nearest unit: 121 / (9 * 255 + 121)");
    }

    fn some_job() -> impl Strategy<Value = (Option<u32>, u32, u32)> {
        (prop::option::of(0..=25_u32), 0..400_u32, 1..=255_u32)
    }

    proptest! {
        #[test]
        fn the_weights_of_endpoints_add_up_to_the_parts_of_jobs(jobs in prop::collection::vec(some_job(), 1..5)) {
            let members: Vec<MergedMember> = jobs.iter().map(|&(share, count, weight)| {
                let mut healthy = WeightSum::default();
                healthy.add(weight, u64::from(count));
                MergedMember { share, healthy, published: healthy }
            }).collect();
            let parts = TrafficParts::of(&members);
            let whole: u64 = (0..members.len()).map(|at| u64::from(parts.part(at))).sum();
            let serves = jobs.iter().any(|&(share, count, _)| count > 0 && share != Some(0));
            let missing = if serves { i64::from(PART_WHOLE) - i64::try_from(whole).unwrap() } else { 0 };
            prop_assert!(missing.abs() < 5 && serves == (whole > 0), "{whole} of the whole");
            // The exact weight of an endpoint of each job, if the one with the most gets 255.
            let exact = |at: usize| f64::from(parts.part(at)) / f64::from(jobs[at].1.max(1));
            let most = (0..jobs.len()).map(exact).fold(0.0, f64::max);
            for (at, &(_, count, weight)) in jobs.iter().enumerate() {
                let weights: Vec<u32> = (0..count).filter_map(|index| parts.weight(at, weight, index)).collect();
                prop_assert_eq!(weights.is_empty(), parts.part(at) == 0);
                prop_assert!(weights.iter().all(|weight| (1..=255).contains(weight)));
                let exact = exact(at) / most * 255.0;
                // Below one unit nothing can be right: the least weight is 1.
                if weights.is_empty() || exact < 1.0 {
                    continue;
                }
                let sum: f64 = weights.iter().copied().map(f64::from).sum();
                let error = (sum - exact * f64::from(count)).abs();
                prop_assert!(error <= 2.0 + f64::from(count) * 0.001, "{error} of {sum} in {count}");
            }
        }
    }
}
