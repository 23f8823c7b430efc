//! When and where: jobs waited for, constraints, spread.

use std::collections::BTreeSet;

use super::AFTER_MAX;
use super::field::Fields;
use crate::job::{Constraint, ConstraintOperator, JobSpec, Spread};

const CONSTRAINTS_MAX: usize = 32;
const VALUES_MAX: usize = 64;
const SPREAD_MAX: usize = 8;

pub(super) fn after_check(fields: &mut Fields, spec: &JobSpec) {
    fields.require(
        spec.after.len() <= AFTER_MAX,
        "after",
        format!("{} jobs", spec.after.len()),
        format!("at most {AFTER_MAX}"),
    );
    let mut seen = BTreeSet::new();
    for (at, after) in spec.after.iter().enumerate() {
        let path = format!("after[{at}].job");
        fields.require(after.job != spec.name, &path, &after.job, "another job: none can wait for itself");
        fields.require(seen.insert(&after.job), &path, &after.job, "each job once");
    }
}

pub(super) fn constraints_check(fields: &mut Fields, constraints: &[Constraint]) {
    fields.require(
        constraints.len() <= CONSTRAINTS_MAX,
        "constraints",
        format!("{} constraints", constraints.len()),
        format!("at most {CONSTRAINTS_MAX}"),
    );
    for (at, constraint) in constraints.iter().enumerate() {
        constraint_check(fields, &format!("constraints[{at}]"), constraint);
    }
}

fn constraint_check(fields: &mut Fields, path: &str, constraint: &Constraint) {
    let values = &constraint.values;
    let values_path = format!("{path}.values");
    fields.key(&format!("{path}.attribute"), &constraint.attribute);
    let given = format!("{} values", values.len());
    match constraint.operator {
        ConstraintOperator::In | ConstraintOperator::NotIn => {
            let accepted = format!("1 to {VALUES_MAX} values");
            fields.require((1..=VALUES_MAX).contains(&values.len()), &values_path, given, accepted);
        }
        ConstraintOperator::Exists | ConstraintOperator::Absent => {
            fields.require(values.is_empty(), &values_path, given, "no values with exists and absent");
        }
        ConstraintOperator::GreaterThan | ConstraintOperator::LessThan => {
            let numeric = |value: &String| value.parse::<f64>().is_ok_and(f64::is_finite);
            let fine = values.len() == 1 && values.iter().all(numeric);
            fields.require(fine, &values_path, format!("{values:?}"), "one finite number");
        }
    }
    for (at, value) in values.iter().enumerate() {
        fields.line(&format!("{values_path}[{at}]"), value);
    }
    if let Some(preference) = constraint.preference {
        let path = format!("{path}.preference");
        fields.require((1..=100).contains(&preference), &path, preference, "a weight of 1 to 100");
    }
}

pub(super) fn spread_check(fields: &mut Fields, spread: &[Spread]) {
    fields.require(
        spread.len() <= SPREAD_MAX,
        "spread",
        format!("{} domains", spread.len()),
        format!("at most {SPREAD_MAX}"),
    );
    let mut seen = BTreeSet::new();
    for (at, domain) in spread.iter().enumerate() {
        let path = format!("spread[{at}].attribute");
        fields.key(&path, &domain.attribute);
        fields.require(seen.insert(&domain.attribute), &path, &domain.attribute, "each attribute once");
        let path = format!("spread[{at}].weight");
        fields.require((1..=100).contains(&domain.weight), &path, domain.weight, "1 to 100");
    }
}
