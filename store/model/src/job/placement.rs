//! Where tasks may and should run: constraints, affinity, spread.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A condition on a node attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Constraint {
    /// The attribute's or label's key; `node.name` is the node's name.
    #[n(0)]
    pub attribute: String,
    /// How it is compared.
    #[n(1)]
    pub operator: ConstraintOperator,
    /// With what. `Exists` and `Absent` take none; the numeric ones take one.
    #[n(2)]
    pub values: Vec<String>,
    /// Absent: hard, a node that does not meet it is not used. Otherwise the weight (1–100) of a preference.
    #[n(3)]
    pub preference: Option<u32>,
}

/// How an attribute is compared.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintOperator {
    /// Its value is one of the values.
    #[n(0)]
    In,
    /// Its value is none of the values, or it is absent.
    #[n(1)]
    NotIn,
    /// It is there.
    #[n(2)]
    Exists,
    /// It is not there.
    #[n(3)]
    Absent,
    /// It is a number greater than the value.
    #[n(4)]
    GreaterThan,
    /// It is a number less than the value.
    #[n(5)]
    LessThan,
}

/// Where tasks run with regard to the tasks of other jobs, or of their own: only looked at when a task is placed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Affinity {
    /// Near them or apart from them.
    #[n(0)]
    pub kind: AffinityKind,
    /// The attribute whose value two nodes share where they are near: `node.name`, `rack`, `zone` or any other. A node
    /// without it is near nothing and apart from everything; no hard affinity is met there.
    #[n(1)]
    pub attribute: String,
    /// Whose tasks: jobs of which all of these are true. They speak of a job's labels, of `job.name` and of `job.user`;
    /// where none speaks of `job.user`, only jobs of the same user are meant.
    #[n(2)]
    pub jobs: Vec<Constraint>,
    /// Absent: hard. Otherwise the weight (1–100) of a preference.
    #[n(3)]
    pub preference: Option<u32>,
}

/// Near or apart.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum AffinityKind {
    /// Where at least one of those tasks runs. Where there is none in the whole cell, and the job's own tasks are meant
    /// too, its first task may run anywhere.
    #[n(0)]
    Near,
    /// Where none of those tasks runs. It holds both ways: while a task of this job runs, none of those tasks is placed
    /// near it.
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
    /// By how many tasks a domain may have more than the emptiest one that could take a task. Absent: the spread is a
    /// preference.
    #[n(2)]
    #[serde(default)]
    pub max_skew: Option<u32>,
    /// How many of the job's tasks a domain may have.
    #[n(3)]
    #[serde(default)]
    pub tasks_max: Option<u32>,
    /// How many per cent (1–100) of the job's desired tasks a domain may have, rounded up to a whole task.
    #[n(4)]
    #[serde(default)]
    pub percent_max: Option<u32>,
}

impl Spread {
    /// A preference alone.
    pub fn preferred(attribute: String, weight: u32) -> Self {
        Self { attribute, weight, max_skew: None, tasks_max: None, percent_max: None }
    }

    /// How many of the job's tasks a domain may have, of so many desired; absent where there is no cap.
    pub fn cap(&self, count: u32) -> Option<u32> {
        let of_percent = self.percent_max.map(|percent| {
            let tasks = (u64::from(count) * u64::from(percent)).div_ceil(100);
            u32::try_from(tasks).unwrap_or(u32::MAX)
        });
        self.tasks_max.into_iter().chain(of_percent).min()
    }

    /// Whether it refuses any node, and is more than a preference.
    pub fn is_hard(&self) -> bool {
        self.max_skew.is_some() || self.tasks_max.is_some() || self.percent_max.is_some()
    }
}
