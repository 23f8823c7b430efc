//! The compared policies: those of the core, by their names.

use anyhow::Context as _;
use borough_scheduler_core::{CellSettings, ScoringProfile};

/// Every policy of the core, by name.
pub(super) fn policies() -> Vec<&'static str> {
    ScoringProfile::names()
}

/// The requested policies: `all`, or names separated by commas.
pub(super) fn policies_asked(asked: &str) -> anyhow::Result<Vec<&'static str>> {
    if asked == "all" {
        return Ok(policies());
    }
    let known = |name: &str| {
        let found = policies().into_iter().find(|known| *known == name.trim());
        found.with_context(|| format!("no policy is called {name:?}; there are {}", policies().join(", ")))
    };
    asked.split(',').map(known).collect()
}

/// The settings of a cell that a policy fills.
pub(super) fn settings(policy: &str) -> anyhow::Result<CellSettings> {
    let profile: ScoringProfile = policy.parse()?;
    Ok(CellSettings { profile, ..CellSettings::default() })
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
