//! Checked arithmetic over every dimension. Nothing saturates: an overflow is an error that names the dimension.

use super::{Dimension, Resources};

/// An overflow of the arithmetic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// The sum or product overflows. The amounts come from input that must be refused.
    #[error("{dimension}: {left} and {right} together are more than can be counted")]
    Overflow {
        dimension: Dimension,
        left: u64,
        /// The other, or the factor.
        right: u64,
    },
    /// More is subtracted than there is. The sums are wrong: do not continue with them.
    #[error("{dimension}: {right} cannot be taken from {left}")]
    Underflow { dimension: Dimension, left: u64, right: u64 },
}

/// The sum in every dimension.
pub fn resources_add(left: &Resources, right: &Resources) -> Result<Resources, ResourceError> {
    let overflow = |dimension, left, right| ResourceError::Overflow { dimension, left, right };
    resources_zip(left, right, u64::checked_add, overflow)
}

/// The difference in every dimension.
pub fn resources_sub(left: &Resources, right: &Resources) -> Result<Resources, ResourceError> {
    let underflow = |dimension, left, right| ResourceError::Underflow { dimension, left, right };
    resources_zip(left, right, u64::checked_sub, underflow)
}

/// The rest of `left` in every dimension; 0 if `right` is more.
pub fn resources_less(left: &Resources, right: &Resources) -> Resources {
    let mut result = left.clone();
    for dimension in Dimension::FIXED {
        result.amount_set(&dimension, left.amount(&dimension).saturating_sub(right.amount(&dimension)));
    }
    for (kind, taken) in &right.device_millis {
        if let Some(amount) = result.device_millis.get_mut(kind) {
            *amount = amount.saturating_sub(*taken);
        }
    }
    result.device_millis.retain(|_, amount| *amount > 0);
    result
}

/// The larger amount in every dimension.
pub fn resources_most(left: &Resources, right: &Resources) -> Resources {
    let mut result = left.clone();
    for (dimension, amount) in right.amounts() {
        result.amount_set(&dimension, left.amount(&dimension).max(amount));
    }
    result
}

/// `resources` times `factor`.
pub fn resources_multiply(resources: &Resources, factor: u32) -> Result<Resources, ResourceError> {
    let factor = u64::from(factor);
    let times = |amount: u64, _| amount.checked_mul(factor);
    let overflow = |dimension, left, _| ResourceError::Overflow { dimension, left, right: factor };
    resources_zip(resources, &Resources::default(), times, overflow)
}

/// Every row and every placement uses this: only the kinds of devices of the result are allocated.
fn resources_zip(
    left: &Resources,
    right: &Resources,
    combine: impl Fn(u64, u64) -> Option<u64>,
    failed: impl Fn(Dimension, u64, u64) -> ResourceError,
) -> Result<Resources, ResourceError> {
    let mut result = Resources { device_millis: left.device_millis.clone(), ..Resources::default() };
    for dimension in Dimension::FIXED {
        let (left, right) = (left.amount(&dimension), right.amount(&dimension));
        let amount = combine(left, right).ok_or_else(|| failed(dimension.clone(), left, right))?;
        result.amount_set(&dimension, amount);
    }
    let of_kind = |kind: &String, left: u64, right: u64| {
        combine(left, right).ok_or_else(|| failed(Dimension::Device(kind.clone()), left, right))
    };
    for (kind, amount) in &mut result.device_millis {
        *amount = of_kind(kind, *amount, right.device_millis.get(kind).copied().unwrap_or(0))?;
    }
    for (kind, &amount) in &right.device_millis {
        if !left.device_millis.contains_key(kind) {
            result.device_millis.insert(kind.clone(), of_kind(kind, 0, amount)?);
        }
    }
    result.device_millis.retain(|_, amount| *amount > 0);
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

/// The shortfall in one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub dimension: Dimension,
    /// What is needed, in the dimension's unit.
    pub needed: u64,
    pub free: u64,
}

impl Shortfall {
    /// The missing amount: always more than 0.
    pub fn missing(&self) -> u64 {
        self.needed.saturating_sub(self.free)
    }
}

impl std::fmt::Display for Shortfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (needed, free) =
            (self.dimension.amount_rounded(self.needed), self.dimension.amount_rounded(self.free));
        // Rounded alike, they would say that it fits.
        let (needed, free) = if needed == free {
            (self.dimension.amount_display(self.needed), self.dimension.amount_display(self.free))
        } else {
            (needed, free)
        };
        write!(f, "{}: {needed} needed, {free} free", self.dimension)
    }
}

/// The dimensions in which `need` does not fit into `free`, in order; empty exactly if [`fits_in`] returns true.
pub fn shortfall(need: &Resources, free: &Resources) -> Vec<Shortfall> {
    if fits_in(need, free) {
        return Vec::new();
    }
    let all = need.amounts().into_iter().map(|(dimension, needed)| {
        let free = free.amount(&dimension);
        Shortfall { dimension, needed, free }
    });
    all.filter(|short| short.needed > short.free).collect()
}
