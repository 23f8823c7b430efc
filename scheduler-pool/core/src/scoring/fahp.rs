//! Weights by fuzzy analytic hierarchy process (MRWS, Tsinghua). The score is the idle part of processor, memory, disk,
//! network and task slots. Each is weighed by how much the task presses on it in this cell. The weights come from the
//! usual complementary fuzzy judgement matrix: f_ij = d_i / (d_i + d_j), made consistent by its row sums. They are not
//! negative and sum to one.

use super::basis::Basis;
use super::context::FULL;
use super::{CellStats, Policy, ScoringContext, SearchStart};
use crate::filter::Requirement;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct Fahp;

/// The criteria: processor, memory, disk, network, and slots for tasks.
const CRITERIA: usize = 5;
/// The dimension of each criterion except the last.
const DIMENSIONS: [usize; CRITERIA - 1] = [0, 1, 2, 4];
/// The assumed number of task slots of a node: the default of Kubernetes.
const SLOTS: u32 = 110;
/// A weight of one.
const ONE: f64 = 65_536.0;

impl Policy for Fahp {
    fn start(&self) -> SearchStart {
        SearchStart::After(512)
    }

    fn basis(&self, stats: &CellStats<'_>, requirement: &Requirement) -> Basis {
        let mut demands = [0.0; CRITERIA];
        for (demand, &dimension) in demands.iter_mut().zip(&DIMENSIONS) {
            *demand = requirement.amount(dimension) as f64 / stats.free_mean(dimension).max(1) as f64;
        }
        let slots = u64::from(SLOTS).saturating_sub(stats.tasks_mean()).max(1);
        demands[CRITERIA - 1] = 1.0 / slots as f64;
        let fixed_point = |weight: f64| (weight * ONE).round() as u64;
        Basis { amounts: weights(demands).map(fixed_point).into_iter().collect(), ..Basis::default() }
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let idle = DIMENSIONS.iter().map(|&dimension| context.free(dimension));
        let slots = SLOTS.saturating_sub(context.tasks()) * FULL / SLOTS;
        let weighed = idle.chain([slots]).zip(&context.basis.amounts);
        let sum: u64 = weighed.map(|(idle, &weight)| u64::from(idle).saturating_mul(weight)).sum();
        u32::try_from(sum).unwrap_or(u32::MAX)
    }
}

/// The weights of demands. None is negative, and they sum to one.
fn weights(demands: [f64; CRITERIA]) -> [f64; CRITERIA] {
    let n = CRITERIA as f64;
    let compared = |left: f64, right: f64| if left + right > 0.0 { left / (left + right) } else { 0.5 };
    let row = |demand: f64| demands.iter().map(|&other| compared(demand, other)).sum::<f64>();
    let rows = demands.map(row);
    let scale = (n - 1.0) / 2.0;
    rows.map(|row| {
        let consistent: f64 = rows.iter().map(|other| (row - other) / (2.0 * n) + 0.5).sum();
        (1.0 / n - 1.0 / (2.0 * scale) + consistent / (n * scale)).max(0.0)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn weights_are_not_negative_sum_to_one_and_follow_the_demands(
            demands in prop::array::uniform5(prop_oneof![Just(0.0), 0.0..2.0f64]),
        ) {
            let weights = weights(demands);
            prop_assert!(weights.iter().all(|&weight| weight >= 0.0), "{weights:?}");
            prop_assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{weights:?}");
            for (left, right) in (0..CRITERIA).flat_map(|left| (0..CRITERIA).map(move |right| (left, right))) {
                if demands[left] > demands[right] {
                    prop_assert!(weights[left] >= weights[right], "{demands:?} {weights:?}");
                }
            }
        }
    }

    #[test]
    fn criteria_without_demand_weigh_the_same() {
        assert!(weights([0.0; CRITERIA]).iter().all(|weight| (weight - 0.2).abs() < 1e-12));
        // A single demand: f = 1 against the four others, which are even among themselves.
        let alone = weights([1.0, 0.0, 0.0, 0.0, 0.0]);
        assert!((alone[0] - 0.3).abs() < 1e-12 && (alone[1] - 0.175).abs() < 1e-12, "{alone:?}");
    }
}
