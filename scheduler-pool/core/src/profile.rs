//! A scoring policy by its name, with its weights. Cells, jobs and tools select a policy this way. The formulas are in
//! [`crate::scoring`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most weights that any policy takes.
const WEIGHTS_MAX: usize = 5;

/// The weights of a policy, in hundredths, in the order in which the policy names them.
pub(crate) type Weights = [u16; WEIGHTS_MAX];

/// The scoring policies, in the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyName {
    BestFit,
    BorgHybrid,
    DotProduct,
    DynamicWeight,
    Fahp,
    Fgd,
    Kubernetes,
    LoadAware,
    Random,
    SwarmBinpack,
    SwarmSpread,
    WorstFit,
}

/// The name, the description and the weights of a policy, as users see them.
struct PolicyFacts {
    /// Its name in settings, specs and tools.
    name: &'static str,
    /// Which node it prefers, in one sentence.
    about: &'static str,
    /// The weights that a profile may set, each with its default in hundredths.
    weights: &'static [(&'static str, u16)],
}

/// The weights of `kubernetes` in their order: `NodeResourcesFit` (least allocated), `NodeResourcesBalancedAllocation`,
/// `NodeAffinity`, `TaintToleration`, and `PodTopologySpread` with `InterPodAffinity`.
const KUBERNETES_WEIGHTS: [(&str, u16); 5] = [
    ("least_allocated", 100),
    ("balanced_allocation", 100),
    ("affinity", 200),
    ("taint", 300),
    ("spread", 200),
];

impl PolicyName {
    /// Every policy, in the order of their names.
    const ALL: [Self; 12] = [
        Self::BestFit,
        Self::BorgHybrid,
        Self::DotProduct,
        Self::DynamicWeight,
        Self::Fahp,
        Self::Fgd,
        Self::Kubernetes,
        Self::LoadAware,
        Self::Random,
        Self::SwarmBinpack,
        Self::SwarmSpread,
        Self::WorstFit,
    ];

    fn facts(self) -> PolicyFacts {
        let (name, about, weights): (_, _, &[_]) = match self {
            Self::BestFit => {
                ("best-fit", "The node on which the task leaves least: large tasks find empty nodes.", &[])
            }
            Self::BorgHybrid => (
                "borg-hybrid",
                "The node on which the task strands least of what the cell's tasks ask for, and leaves least.",
                &[],
            ),
            Self::DotProduct => (
                "dot-product",
                "The node whose free capacity is least aligned with what the task asks for.",
                &[],
            ),
            Self::DynamicWeight => (
                "dynamic-weight",
                "The node with most free of what is scarce in the cell for this task.",
                &[],
            ),
            Self::Fahp => (
                "fahp",
                "The idlest node, with resources weighed by the demand of the task (fuzzy analytic hierarchy process).",
                &[],
            ),
            Self::Fgd => (
                "fgd",
                "The node where the task makes least of the cards useless to others (fragmentation gradient descent).",
                &[],
            ),
            Self::Kubernetes => (
                "kubernetes",
                "Least and evenly allocated, with wishes, taints and spreading in one weighted sum (kube-scheduler's defaults).",
                &KUBERNETES_WEIGHTS,
            ),
            Self::LoadAware => (
                "load-aware",
                "The node with the least measured load, plus the requests of tasks that came since.",
                &[],
            ),
            Self::Random => ("random", "Any node that fits, by chance.", &[]),
            Self::SwarmBinpack => ("swarm-binpack", "The node with the most tasks that fits one more.", &[]),
            Self::SwarmSpread => ("swarm-spread", "The node with the fewest tasks.", &[]),
            Self::WorstFit => (
                "worst-fit",
                "The node with the smallest rise in cost. Cost grows exponentially with use, so load is even (E-PVM).",
                &[],
            ),
        };
        PolicyFacts { name, about, weights }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.facts().name == name)
    }
}

/// A scoring policy with its weights. Its text form is the name, or `name:key=weight,key=weight`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScoringProfile {
    pub(crate) policy: PolicyName,
    pub(crate) weights: Weights,
}

/// Why a text names no profile. Each error lists the accepted values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Take one of the names that are listed.
    #[error("unknown scoring profile \"{name}\"; accepted: {}", ScoringProfile::names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Take one of the listed keys. An empty list means that the profile takes no weights.
    #[error("scoring profile \"{profile}\" takes no weight \"{key}\"; {}", accepted(.profile))]
    Key {
        /// The profile that was named.
        profile: &'static str,
        /// The key of the weight.
        key: String,
    },
    /// Give each weight once.
    #[error("weight \"{key}\" stands twice; accepted: each weight once")]
    Twice {
        /// The key of the weight.
        key: String,
    },
    /// Give a number from 0 to 100 with at most two decimals.
    #[error("weight \"{key}\" is \"{value}\"; accepted: numbers from 0 to 100 with two decimals at most")]
    Weight {
        /// The key of the weight.
        key: String,
        /// What it was given.
        value: String,
    },
}

fn accepted(profile: &str) -> String {
    let weights = PolicyName::named(profile).map_or(&[] as &[_], |policy| policy.facts().weights);
    let keys: Vec<&str> = weights.iter().map(|&(key, _)| key).collect();
    if keys.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", keys.join(", ")) }
}

impl ScoringProfile {
    /// The node on which least is left. Empty nodes stay free for large tasks.
    pub const BEST_FIT: Self = Self { policy: PolicyName::BestFit, weights: [0; WEIGHTS_MAX] };
    /// The node on which least is stranded, and least is left. The default of a cell.
    pub const BORG_HYBRID: Self = Self { policy: PolicyName::BorgHybrid, weights: [0; WEIGHTS_MAX] };
    /// The emptiest node, so that load is even.
    pub const WORST_FIT: Self = Self { policy: PolicyName::WorstFit, weights: [0; WEIGHTS_MAX] };
    /// The node with the fewest tasks.
    pub const SWARM_SPREAD: Self = Self { policy: PolicyName::SwarmSpread, weights: [0; WEIGHTS_MAX] };

    /// Every profile with its default weights, ordered by name.
    pub fn all() -> Vec<Self> {
        PolicyName::ALL.into_iter().map(Self::of).collect()
    }

    /// The names of all profiles.
    pub fn names() -> Vec<&'static str> {
        PolicyName::ALL.map(|policy| policy.facts().name).to_vec()
    }

    fn of(policy: PolicyName) -> Self {
        let mut weights = [0; WEIGHTS_MAX];
        for (weight, &(_, default)) in weights.iter_mut().zip(policy.facts().weights) {
            *weight = default;
        }
        Self { policy, weights }
    }

    /// The name of its policy.
    pub fn name(&self) -> &'static str {
        self.policy.facts().name
    }

    /// Returns true if its scores depend on the measured load of nodes.
    pub fn reads_load(&self) -> bool {
        match self.policy {
            PolicyName::LoadAware => true,
            PolicyName::BestFit
            | PolicyName::BorgHybrid
            | PolicyName::DotProduct
            | PolicyName::DynamicWeight
            | PolicyName::Fahp
            | PolicyName::Fgd
            | PolicyName::Kubernetes
            | PolicyName::Random
            | PolicyName::SwarmBinpack
            | PolicyName::SwarmSpread
            | PolicyName::WorstFit => false,
        }
    }

    /// Which node it prefers, in one sentence.
    pub fn about(&self) -> &'static str {
        self.policy.facts().about
    }

    fn weights_set(&mut self, text: &str) -> Result<(), ProfileError> {
        let keys = self.policy.facts().weights;
        let mut given = [false; WEIGHTS_MAX];
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim());
            let refused = || ProfileError::Key { profile: self.name(), key: key.to_owned() };
            let place = keys.iter().position(|&(known, _)| known == key).ok_or_else(refused)?;
            let given = given.get_mut(place).ok_or_else(refused)?;
            if std::mem::replace(given, true) {
                return Err(ProfileError::Twice { key: key.to_owned() });
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

/// A weight in hundredths. `None` for anything but a number from 0 to 100 with at most two decimals.
fn weight_parsed(text: &str) -> Option<u16> {
    let (integer, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(integer) || !digits(part) || part.len() > 2 {
        return None;
    }
    let part: u16 = format!("{part:0<2}").parse().ok()?;
    let weight = integer.parse::<u16>().ok()?.checked_mul(100)?.checked_add(part)?;
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
        let mut profile = Self::of(PolicyName::named(name).ok_or_else(unknown)?);
        weights.map_or(Ok(()), |weights| profile.weights_set(weights))?;
        Ok(profile)
    }
}

impl fmt::Display for ScoringProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let weights = self.policy.facts().weights.iter().zip(self.weights);
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
        Self::BORG_HYBRID
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
        assert_eq!(ScoringProfile::default().name(), "borg-hybrid");
        let weighted: ScoringProfile = "kubernetes:least_allocated=0.5,spread=0".parse().unwrap();
        assert_eq!(weighted.to_string(), "kubernetes:least_allocated=0.50,spread=0.00");
        assert_eq!(weighted.to_string().parse(), Ok(weighted));
        assert_ne!("kubernetes".parse(), Ok(weighted));
    }

    #[test]
    fn an_unknown_profile_is_refused_with_the_known_ones() {
        let refused = |text: &str| text.parse::<ScoringProfile>().unwrap_err().to_string();
        assert!(refused("bestfit").contains("accepted: best-fit, borg-hybrid,"), "{}", refused("bestfit"));
        assert!(refused("").contains("unknown scoring profile \"\""));
        assert!(refused("best-fit:cpu=1").contains("it takes none"), "{}", refused("best-fit:cpu=1"));
        let keys = refused("kubernetes:cpu=1");
        assert!(keys.contains("it takes least_allocated, balanced_allocation"), "{keys}");
        assert!(refused("kubernetes:spread=1,spread=1").contains("stands twice"));
        for value in ["", "NaN", "inf", "-1", "1e3", "100.01", "0.123", "1.", "+1", "65536", "1.-1"] {
            let refusal = refused(&format!("kubernetes:spread={value}"));
            assert!(refusal.contains("from 0 to 100"), "{value}: {refusal}");
        }
        assert!("kubernetes:spread=100,taint=0.07".parse::<ScoringProfile>().is_ok());
    }
}
