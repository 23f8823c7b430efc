//! Checked arithmetic over every dimension. Nothing saturates: what does not fit is said, with its dimension.

use super::{Dimension, Resources};

/// An amount that arithmetic cannot give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// The sum or product is more than a number holds. The amounts come from input that must be refused.
    #[error("{dimension}: {left} and {right} together are more than can be counted")]
    Overflow {
        /// Where.
        dimension: Dimension,
        /// One amount.
        left: u64,
        /// The other, or the factor.
        right: u64,
    },
    /// More is taken away than there is. The books are wrong: do not go on with them.
    #[error("{dimension}: {right} cannot be taken from {left}")]
    Underflow {
        /// Where.
        dimension: Dimension,
        /// What there is.
        left: u64,
        /// What was to be taken.
        right: u64,
    },
}

/// The sum in every dimension.
pub fn resources_add(left: &Resources, right: &Resources) -> Result<Resources, ResourceError> {
    resources_zip(left, right, |dimension, left, right| {
        left.checked_add(right).ok_or(ResourceError::Overflow { dimension, left, right })
    })
}

/// The difference in every dimension.
pub fn resources_sub(left: &Resources, right: &Resources) -> Result<Resources, ResourceError> {
    resources_zip(left, right, |dimension, left, right| {
        left.checked_sub(right).ok_or(ResourceError::Underflow { dimension, left, right })
    })
}

/// `resources` so many times.
pub fn resources_multiply(resources: &Resources, factor: u32) -> Result<Resources, ResourceError> {
    let factor = u64::from(factor);
    resources_zip(resources, &Resources::default(), |dimension, left, _| {
        left.checked_mul(factor).ok_or(ResourceError::Overflow { dimension, left, right: factor })
    })
}

fn resources_zip(
    left: &Resources,
    right: &Resources,
    combine: impl Fn(Dimension, u64, u64) -> Result<u64, ResourceError>,
) -> Result<Resources, ResourceError> {
    let mut result = Resources::default();
    for dimension in left.dimensions_with(right) {
        let amount = combine(dimension.clone(), left.amount(&dimension), right.amount(&dimension))?;
        result.amount_set(&dimension, amount);
    }
    Ok(result)
}

/// Whether `need` fits into `free` in every dimension.
pub fn fits_in(need: &Resources, free: &Resources) -> bool {
    Dimension::FIXED.iter().all(|dimension| need.amount(dimension) <= free.amount(dimension))
        && need
            .device_millis
            .iter()
            .all(|(kind, &amount)| amount <= free.device_millis.get(kind).copied().unwrap_or(0))
}

/// What is missing in one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Where.
    pub dimension: Dimension,
    /// What is needed, in the dimension's unit.
    pub needed: u64,
    /// What there is.
    pub free: u64,
}

impl Shortfall {
    /// What is missing: always more than 0.
    pub fn missing(&self) -> u64 {
        self.needed.saturating_sub(self.free)
    }
}

impl std::fmt::Display for Shortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let needed = self.dimension.amount_display(self.needed);
        let free = self.dimension.amount_display(self.free);
        write!(f, "{}: {needed} needed, {free} free", self.dimension)
    }
}

/// The dimensions in which `need` does not fit into `free`, in order; empty exactly where [`fits_in`] holds.
pub fn shortfall(need: &Resources, free: &Resources) -> Vec<Shortfall> {
    let all = need.amounts().into_iter().map(|(dimension, needed)| {
        let free = free.amount(&dimension);
        Shortfall { dimension, needed, free }
    });
    all.filter(|short| short.needed > short.free).collect()
}
