//! The policies that are compared: those of the core, by their names.

use anyhow::{Context as _, bail};
use borough_scheduler_core::{CellSettings, ScoringProfile};

/// Names that the core may know.
const NAMES: [&str; 13] = [
    "borg-hybrid",
    "best-fit",
    "worst-fit",
    "spread",
    "kubernetes",
    "swarm-spread",
    "swarm-binpack",
    "random",
    "dynamic-weight",
    "fahp",
    "load-aware",
    "fgd",
    "dot-product",
];

/// Every policy of the core.
pub fn policies() -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| ScoringProfile::named(name).is_some()).collect()
}

/// Those that were asked for: `all`, or names with commas between them.
pub fn policies_asked(asked: &str) -> anyhow::Result<Vec<&'static str>> {
    if asked == "all" {
        return Ok(policies());
    }
    let known = |name: &str| {
        let found = policies().into_iter().find(|known| *known == name.trim());
        found.with_context(|| format!("no policy is called {name:?}; there are {}", policies().join(", ")))
    };
    asked.split(',').map(known).collect()
}

/// The settings of a cell that is filled by a policy.
pub fn settings(policy: &str) -> anyhow::Result<CellSettings> {
    if ScoringProfile::named(policy).is_none() {
        bail!("no policy is called {policy:?}");
    }
    Ok(CellSettings::of_cell(Vec::new(), policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_those_of_the_core() {
        assert!(policies().contains(&"best-fit") && policies().contains(&"worst-fit"));
        assert_eq!(policies_asked("all").unwrap(), policies());
        assert_eq!(policies_asked("worst-fit, best-fit").unwrap(), ["worst-fit", "best-fit"]);
        assert!(policies_asked("fastest").unwrap_err().to_string().contains("best-fit"));
        for policy in policies() {
            settings(policy).unwrap();
        }
    }
}
