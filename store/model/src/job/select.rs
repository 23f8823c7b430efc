//! Selects the jobs that an affinity means.

use std::collections::BTreeMap;

use super::{Affinity, Constraint, ConstraintOperator, JobSpec};
use crate::id::Name;

/// The key by which a selector compares the name of a job.
pub const LABEL_JOB_NAME: &str = "job.name";
/// The key by which a selector compares the user of a job.
pub const LABEL_JOB_USER: &str = "job.user";

/// The parts of a job that a selector compares.
#[derive(Clone, Copy, Debug)]
pub struct JobIdentity<'a> {
    pub user: &'a Name,
    pub name: &'a Name,
    pub labels: &'a BTreeMap<String, String>,
}

impl<'a> JobIdentity<'a> {
    fn value(&self, key: &str) -> Option<&'a str> {
        match key {
            LABEL_JOB_NAME => Some(self.name.as_str()),
            LABEL_JOB_USER => Some(self.user.as_str()),
            _ => self.labels.get(key).map(String::as_str),
        }
    }
}

impl Affinity {
    /// The conditions for a job that it means, sorted and each once. If none compares the user, the result has the
    /// owner of the affinity as the user. Two affinities with the same meaning have equal conditions.
    pub fn selector(&self, owner: &Name) -> Vec<Constraint> {
        let mut selector = self.jobs.clone();
        for constraint in &mut selector {
            constraint.values.sort_unstable();
            constraint.values.dedup();
        }
        if !selector.iter().any(|constraint| constraint.attribute == LABEL_JOB_USER) {
            selector.push(Constraint {
                attribute: LABEL_JOB_USER.to_owned(),
                operator: ConstraintOperator::In,
                values: vec![owner.to_string()],
                preference: None,
            });
        }
        selector.sort_unstable();
        selector.dedup();
        selector
    }
}

impl JobSpec {
    /// Returns true if the job has all of these labels.
    pub fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }
}

/// Returns true if a selector means the job.
pub fn job_selected(selector: &[Constraint], job: JobIdentity<'_>) -> bool {
    selector.iter().all(|constraint| {
        let value = job.value(&constraint.attribute);
        let listed = |value: &str| constraint.values.iter().any(|listed| listed == value);
        match constraint.operator {
            ConstraintOperator::In => value.is_some_and(listed),
            ConstraintOperator::NotIn => !value.is_some_and(listed),
            ConstraintOperator::Exists => value.is_some(),
            ConstraintOperator::Absent => value.is_none(),
            ConstraintOperator::GreaterThan => {
                compared(constraint, value).is_some_and(|(have, bound)| have > bound)
            }
            ConstraintOperator::LessThan => {
                compared(constraint, value).is_some_and(|(have, bound)| have < bound)
            }
        }
    })
}

fn compared(constraint: &Constraint, value: Option<&str>) -> Option<(f64, f64)> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    Some((number(value?)?, number(constraint.values.first()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::AffinityKind;

    fn constraint(attribute: &str, operator: ConstraintOperator, values: &[&str]) -> Constraint {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Constraint { attribute: attribute.to_owned(), operator, values, preference: None }
    }

    fn selected(jobs: Vec<Constraint>, owner: &str, user: &str, labels: &[(&str, &str)]) -> bool {
        let affinity =
            Affinity { kind: AffinityKind::Near, attribute: "rack".to_owned(), jobs, preference: None };
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (user, name) = (Name::new(user).unwrap(), Name::new("web").unwrap());
        let selector = affinity.selector(&Name::new(owner).unwrap());
        job_selected(&selector, JobIdentity { user: &user, name: &name, labels: &labels })
    }

    #[test]
    fn only_the_owners_jobs_are_meant_unless_users_are_named() {
        use ConstraintOperator::{Exists, GreaterThan, In};
        let app = || constraint("app", In, &["cache", "web"]);
        assert!(selected(vec![app()], "ann", "ann", &[("app", "web")]));
        assert!(!selected(vec![app()], "ann", "bob", &[("app", "web")]));
        assert!(selected(vec![app(), constraint("job.user", Exists, &[])], "ann", "bob", &[("app", "web")]));
        assert!(!selected(vec![app()], "ann", "ann", &[]));
        assert!(selected(vec![constraint("job.name", In, &["web"])], "ann", "ann", &[]));
        assert!(selected(vec![constraint("tier", GreaterThan, &["2"])], "ann", "ann", &[("tier", "3")]));
        assert!(!selected(vec![constraint("tier", GreaterThan, &["2"])], "ann", "ann", &[("tier", "nan")]));
    }
}
