//! A queueing policy by its name, with the weights of users, and the queues of a cell.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use borough_model::Name;
use borough_model::queue::{QueueSpec, WEIGHT_MAX, queue_of_job};
use serde::{Deserialize, Serialize};

/// Which of several tasks of one priority is placed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueingPolicy {
    /// One task of each user, round and round.
    #[default]
    RoundRobin,
    /// The oldest submission first.
    Fifo,
    /// The user whose dominant share of the cell is smallest (dominant resource fairness).
    Drf,
    /// As `Drf`, with each user's share divided by its weight.
    FairShare,
    /// The queue that is furthest below its guarantee. If none is below, the one with the smallest share over its
    /// weight. Decided from the root of the hierarchy down.
    Hierarchical,
}

const POLICIES: [(&str, QueueingPolicy); 5] = [
    ("round-robin", QueueingPolicy::RoundRobin),
    ("fifo", QueueingPolicy::Fifo),
    ("drf", QueueingPolicy::Drf),
    ("fair-share", QueueingPolicy::FairShare),
    ("hierarchical", QueueingPolicy::Hierarchical),
];

impl QueueingPolicy {
    /// The policy's name in settings and tools.
    pub fn name(self) -> &'static str {
        POLICIES.iter().find(|&&(_, policy)| policy == self).map_or("", |&(name, _)| name)
    }

    /// Returns true if the policy goes by present shares.
    pub(crate) fn shares(self) -> bool {
        matches!(self, Self::Drf | Self::FairShare | Self::Hierarchical)
    }
}

/// How the tasks of one priority take turns.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queueing {
    /// The policy by its name.
    pub policy: QueueingPolicy,
    /// Weights of users under `fair-share`; the others have 1.
    pub weights: BTreeMap<Name, u32>,
    /// The queues under `hierarchical`, in the order of the settings.
    pub queues: Vec<QueueSpec>,
}

/// Why a text names no queueing policy. Each error lists the accepted values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueingError {
    /// Take one of the names that are listed.
    #[error("unknown queueing policy \"{name}\"; accepted: {}", POLICIES.map(|(name, _)| name).join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Leave the weights out, or take `fair-share`.
    #[error("queueing policy \"{policy}\" takes no weights; fair-share does, such as fair-share:ann=3,bob=1")]
    Weights {
        /// The policy by its name.
        policy: &'static str,
    },
    /// Give each user once, and a whole number as its weight.
    #[error(
        "\"{pair}\" is not the weight of a user; accepted: a user's name, each once, and a whole number from 1 to {WEIGHT_MAX}, such as ann=3"
    )]
    Weight {
        /// The pair of user and weight that was given.
        pair: String,
    },
}

impl FromStr for Queueing {
    type Err = QueueingError;

    fn from_str(text: &str) -> Result<Self, QueueingError> {
        let (name, weights) = match text.split_once(':') {
            Some((name, weights)) => (name, Some(weights)),
            None => (text, None),
        };
        let unknown = || QueueingError::Unknown { name: name.to_owned() };
        let &(name, policy) = POLICIES.iter().find(|&&(known, _)| known == name).ok_or_else(unknown)?;
        let mut queueing = Self { policy, ..Self::default() };
        let Some(weights) = weights else { return Ok(queueing) };
        if policy != QueueingPolicy::FairShare {
            return Err(QueueingError::Weights { policy: name });
        }
        for pair in weights.split(',') {
            let refused = || QueueingError::Weight { pair: pair.to_owned() };
            let (user, weight) = pair.split_once('=').ok_or_else(refused)?;
            let user = Name::new(user.trim()).map_err(|_| refused())?;
            let weight: u32 = weight.trim().parse().map_err(|_| refused())?;
            let fine = (1..=WEIGHT_MAX).contains(&weight);
            if !fine || queueing.weights.insert(user, weight).is_some() {
                return Err(refused());
            }
        }
        Ok(queueing)
    }
}

impl fmt::Display for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name())?;
        for (place, (user, weight)) in self.weights.iter().enumerate() {
            let sign = if place == 0 { ':' } else { ',' };
            write!(f, "{sign}{user}={weight}")?;
        }
        Ok(())
    }
}

/// The user or the queue that takes a turn; queue 0 stands for all jobs outside of every queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Turn {
    /// The number of a queue, from 1.
    pub queue: u32,
    pub user: Option<Name>,
}

impl Queueing {
    /// The queue of a number, from 1; `None` for the jobs outside of all queues.
    pub(crate) fn queue_numbered(&self, number: u32) -> Option<&QueueSpec> {
        self.queues.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The turn that a job takes, by its user and the queue that it names.
    pub(crate) fn turn_of(&self, user: &Name, queue: Option<&str>) -> Turn {
        match self.policy {
            QueueingPolicy::RoundRobin | QueueingPolicy::Drf | QueueingPolicy::FairShare => {
                Turn { queue: 0, user: Some(user.clone()) }
            }
            QueueingPolicy::Fifo => Turn::default(),
            QueueingPolicy::Hierarchical => {
                let place = queue_of_job(&self.queues, queue, user);
                Turn { queue: place.map_or(0, |place| u32::try_from(place + 1).unwrap_or(0)), user: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_as_it_is_read() {
        for (name, policy) in POLICIES {
            let queueing: Queueing = name.parse().unwrap();
            assert_eq!((queueing.policy, queueing.to_string()), (policy, name.to_owned()));
        }
        let weighed: Queueing = "fair-share:bob=2, ann=3".parse().unwrap();
        assert_eq!(weighed.to_string(), "fair-share:ann=3,bob=2");
        assert_eq!(weighed.to_string().parse(), Ok(weighed));
    }

    #[test]
    fn an_unknown_policy_is_refused_with_the_known_ones() {
        let refused = |text: &str| text.parse::<Queueing>().unwrap_err().to_string();
        assert!(refused("fair").contains("round-robin, fifo, drf, fair-share, hierarchical"));
        assert!(refused("drf:ann=1").contains("takes no weights"));
        for weight in ["ann", "ann=0", "ann=1001", "ann=1.5", "ann=NaN", "Ann=1", "ann=1,ann=2", ""] {
            assert!(refused(&format!("fair-share:{weight}")).contains("from 1 to 1000"), "{weight}");
        }
    }
}
