//! A policy by its name, with the weights it was given.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::best_fit::BestFit;
use super::swarm_spread::SwarmSpread;
use super::worst_fit::WorstFit;
use super::{POLICIES, Policy, WEIGHTS_MAX, Weights};

/// Which of the nodes that fit is best: a policy, and the weights of one that takes weights. Written as the name, or as
/// `name:key=weight,key=weight`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScoringProfile {
    pub(crate) policy: &'static dyn Policy,
    pub(crate) weights: Weights,
}

/// Why a text names no profile: each says what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Take one of the names that are listed.
    #[error("there is no scoring profile \"{name}\"; there are {}", ScoringProfile::names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Take one of the keys that are listed, each once; where none are, the profile takes no weights.
    #[error("scoring profile \"{profile}\" takes no weight \"{key}\", or not twice; {}", accepted(.profile))]
    Key {
        /// The profile.
        profile: &'static str,
        /// The key.
        key: String,
    },
    /// Give a number from 0 to 100 with at most two decimals.
    #[error("weight \"{key}\" is \"{value}\"; accepted are numbers from 0 to 100 with two decimals at most")]
    Weight {
        /// The key.
        key: String,
        /// What it was given.
        value: String,
    },
}

fn accepted(profile: &str) -> String {
    let policy = POLICIES.iter().find(|policy| policy.name() == profile);
    let keys: Vec<&str> =
        policy.into_iter().flat_map(|policy| policy.weights()).map(|&(key, _)| key).collect();
    if keys.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", keys.join(", ")) }
}

impl ScoringProfile {
    /// The fullest node: large tasks keep finding room.
    pub const BEST_FIT: Self = Self { policy: &BestFit, weights: [0; WEIGHTS_MAX] };
    /// The emptiest: load is even.
    pub const WORST_FIT: Self = Self { policy: &WorstFit, weights: [0; WEIGHTS_MAX] };
    /// The one with the fewest tasks.
    pub const SWARM_SPREAD: Self = Self { policy: &SwarmSpread, weights: [0; WEIGHTS_MAX] };

    /// Every profile, with its own weights, by name.
    pub fn all() -> Vec<Self> {
        POLICIES.iter().map(|&policy| Self::of(policy)).collect()
    }

    /// The names of all profiles.
    pub fn names() -> Vec<&'static str> {
        POLICIES.iter().map(|policy| policy.name()).collect()
    }

    fn of(policy: &'static dyn Policy) -> Self {
        let mut weights = [0; WEIGHTS_MAX];
        for (weight, &(_, known)) in weights.iter_mut().zip(policy.weights()) {
            *weight = known;
        }
        Self { policy, weights }
    }

    /// The name of its policy.
    pub fn name(&self) -> &'static str {
        self.policy.name()
    }

    /// What it prefers, in one sentence.
    pub fn about(&self) -> &'static str {
        self.policy.about()
    }

    fn weights_set(&mut self, text: &str) -> Result<(), ProfileError> {
        let keys = self.policy.weights();
        let mut given = [false; WEIGHTS_MAX];
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim());
            let refused = || ProfileError::Key { profile: self.policy.name(), key: key.to_owned() };
            let place = keys.iter().position(|&(known, _)| known == key).ok_or_else(refused)?;
            let given = given.get_mut(place).ok_or_else(refused)?;
            if std::mem::replace(given, true) {
                return Err(refused());
            }
            let weight = weight_parsed(value)
                .ok_or_else(|| ProfileError::Weight { key: key.to_owned(), value: value.to_owned() })?;
            if let Some(entry) = self.weights.get_mut(place) {
                *entry = weight;
            }
        }
        Ok(())
    }
}

/// A weight in hundredths. What is no finite number from 0 to 100, or finer than a hundredth, is none.
fn weight_parsed(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 2 {
        return None;
    }
    let part: u16 = format!("{part:0<2}").parse().ok()?;
    let weight = whole.parse::<u16>().ok()?.checked_mul(100)?.checked_add(part)?;
    (weight <= 10_000).then_some(weight)
}

impl FromStr for ScoringProfile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let (name, weights) = match text.split_once(':') {
            Some((name, weights)) => (name, Some(weights)),
            None => (text, None),
        };
        let unknown = || ProfileError::Unknown { name: name.to_owned() };
        let policy = POLICIES.iter().find(|policy| policy.name() == name).ok_or_else(unknown)?;
        let mut profile = Self::of(*policy);
        weights.map_or(Ok(()), |weights| profile.weights_set(weights))?;
        Ok(profile)
    }
}

impl fmt::Display for ScoringProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let weights = self.policy.weights().iter().zip(self.weights);
        let other = weights.filter(|&(&(_, known), weight)| weight != known);
        for (place, (&(key, _), weight)) in other.enumerate() {
            let sign = if place == 0 { ':' } else { ',' };
            write!(f, "{sign}{key}={}.{:02}", weight / 100, weight % 100)?;
        }
        Ok(())
    }
}

impl Default for ScoringProfile {
    fn default() -> Self {
        Self::BEST_FIT
    }
}

impl PartialEq for ScoringProfile {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ScoringProfile {}

impl PartialOrd for ScoringProfile {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScoringProfile {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.name(), self.weights).cmp(&(other.name(), other.weights))
    }
}

impl TryFrom<String> for ScoringProfile {
    type Error = ProfileError;

    fn try_from(text: String) -> Result<Self, ProfileError> {
        text.parse()
    }
}

impl From<ScoringProfile> for String {
    fn from(profile: ScoringProfile) -> Self {
        profile.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_known_by_its_name_and_written_as_it_is_read() {
        let names = ScoringProfile::names();
        assert!(names.is_sorted(), "{names:?}");
        for name in names {
            let profile: ScoringProfile = name.parse().unwrap();
            assert_eq!((profile.name(), profile.to_string()), (name, name.to_owned()));
            assert!(!profile.about().is_empty());
        }
        assert_eq!(ScoringProfile::default().name(), "best-fit");
        let weighted: ScoringProfile = "kubernetes:least_allocated=0.5,spread=0".parse().unwrap();
        assert_eq!(weighted.to_string(), "kubernetes:least_allocated=0.50,spread=0.00");
        assert_eq!(weighted.to_string().parse(), Ok(weighted));
        assert_ne!("kubernetes".parse(), Ok(weighted));
    }

    #[test]
    fn what_is_no_profile_is_refused_with_what_would_be() {
        let refused = |text: &str| text.parse::<ScoringProfile>().unwrap_err().to_string();
        assert!(refused("bestfit").contains("there are best-fit, borg-hybrid,"), "{}", refused("bestfit"));
        assert!(refused("").contains("no scoring profile \"\""));
        assert!(refused("best-fit:cpu=1").contains("it takes none"), "{}", refused("best-fit:cpu=1"));
        let keys = refused("kubernetes:cpu=1");
        assert!(keys.contains("it takes least_allocated, balanced_allocation"), "{keys}");
        assert!(refused("kubernetes:spread=1,spread=1").contains("not twice"));
        for value in ["", "NaN", "inf", "-1", "1e3", "100.01", "0.123", "1.", "+1", "65536", "1.-1"] {
            let refusal = refused(&format!("kubernetes:spread={value}"));
            assert!(refusal.contains("from 0 to 100"), "{value}: {refusal}");
        }
        assert!("kubernetes:spread=100,taint=0.07".parse::<ScoringProfile>().is_ok());
    }
}
