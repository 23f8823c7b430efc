//! Which nodes tasks may and should run on: constraints, affinity, spread.

use std::cmp::Ordering;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A condition on a node attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Constraint {
    /// The attribute's or label's key; `node.name` is the node's name.
    #[n(0)]
    pub attribute: String,
    #[n(1)]
    pub operator: ConstraintOperator,
    /// The values to compare with. `Exists` and `Absent` take none, and the numeric operators take one.
    #[n(2)]
    pub values: Vec<String>,
    /// Absent: no task runs on a node that does not meet the constraint. Otherwise the weight (1–100) of a preference.
    #[n(3)]
    pub preference: Option<u32>,
}

/// How an attribute is compared. The numeric operators are false for a value that is no number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintOperator {
    /// The attribute has one of the values.
    #[n(0)]
    In,
    /// The attribute has none of the values, or is absent.
    #[n(1)]
    NotIn,
    #[n(2)]
    Exists,
    #[n(3)]
    Absent,
    /// The attribute is a number greater than the value.
    #[n(4)]
    GreaterThan,
    /// The attribute is a number less than the value.
    #[n(5)]
    LessThan,
}

impl Constraint {
    /// Returns true if a node with this value of the attribute meets it; `None`: the node has none. Whole numbers
    /// compare exactly, others as floating point.
    pub fn is_met_by(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|listed| listed == value);
        let compares = |wanted: Ordering| {
            let bound = self.values.first().map(String::as_str);
            value.zip(bound).and_then(|(value, bound)| numbers_compared(value, bound)) == Some(wanted)
        };
        match self.operator {
            ConstraintOperator::In => value.is_some_and(listed),
            ConstraintOperator::NotIn => !value.is_some_and(listed),
            ConstraintOperator::Exists => value.is_some(),
            ConstraintOperator::Absent => value.is_none(),
            ConstraintOperator::GreaterThan => compares(Ordering::Greater),
            ConstraintOperator::LessThan => compares(Ordering::Less),
        }
    }
}

/// `None` unless both are finite numbers.
fn numbers_compared(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (left.trim(), right.trim());
    let float = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let (left_float, right_float) = (float(left)?, float(right)?);
    match (left.parse::<i64>(), right.parse::<i64>()) {
        (Ok(left), Ok(right)) => Some(left.cmp(&right)),
        _ => left_float.partial_cmp(&right_float),
    }
}

/// Where tasks run relative to other tasks, of other jobs or of their own. The scheduler reads it only when it places a
/// task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Affinity {
    #[n(0)]
    pub kind: AffinityKind,
    /// Two nodes are near each other if they share the value of this attribute: `node.name`, `rack`, `zone` or any
    /// other. A node without it is near nothing and apart from everything, and no hard affinity is met on it.
    #[n(1)]
    pub attribute: String,
    /// Selects the jobs that are meant: all conditions must be true. They compare the labels of a job, `job.name` and
    /// `job.user`. If none compares `job.user`, only jobs of the same user are meant.
    #[n(2)]
    pub jobs: Vec<Constraint>,
    /// Absent: the rule is hard. Otherwise the weight (1–100) of a preference.
    #[n(3)]
    pub preference: Option<u32>,
}

/// Whether tasks run near each other or apart.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum AffinityKind {
    /// On nodes near one of the selected tasks. If none runs in the whole cell and the job selects itself, its first
    /// task may run anywhere.
    #[n(0)]
    Near,
    /// On nodes near none of the selected tasks. The rule holds both ways: while a task of this job runs, no selected
    /// task is placed near it.
    #[n(1)]
    Apart,
}

/// Spread over the values of a node attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Spread {
    /// The attribute that names the domain: `node.name`, `rack`, `power`, `zone` or any other.
    #[n(0)]
    pub attribute: String,
    /// Weight (1–100) of the preference for the emptiest domain.
    #[n(1)]
    pub weight: u32,
    /// A domain may have at most so many tasks more than the emptiest domain that could take one. Absent: the spread is
    /// a preference.
    #[n(2)]
    #[serde(default)]
    pub max_skew: Option<u32>,
    /// The most tasks of the job in one domain.
    #[n(3)]
    #[serde(default)]
    pub tasks_max: Option<u32>,
    /// The most tasks of the job in one domain, in per cent (1–100) of its desired tasks, rounded up to a whole task.
    #[n(4)]
    #[serde(default)]
    pub percent_max: Option<u32>,
}

impl Spread {
    /// A spread that is only a preference.
    pub fn preferred(attribute: String, weight: u32) -> Self {
        Self { attribute, weight, max_skew: None, tasks_max: None, percent_max: None }
    }

    /// The most tasks of the job in one domain, of so many desired; absent: no limit.
    pub fn cap(&self, count: u32) -> Option<u32> {
        let of_percent = self.percent_max.map(|percent| {
            let tasks = (u64::from(count) * u64::from(percent)).div_ceil(100);
            u32::try_from(tasks).unwrap_or(u32::MAX)
        });
        self.tasks_max.into_iter().chain(of_percent).min()
    }

    /// Returns true if it can refuse a node, so that it is more than a preference.
    pub fn is_hard(&self) -> bool {
        self.max_skew.is_some() || self.tasks_max.is_some() || self.percent_max.is_some()
    }
}
