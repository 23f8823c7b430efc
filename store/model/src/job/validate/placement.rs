//! Checks when and where tasks run: dependencies, constraints, tolerations, affinities, spread.

use std::collections::BTreeSet;

use super::contradiction::contradiction;
use super::{AFTER_MAX, tally};
use crate::field_error::{FieldErrors, delay_text};
use crate::job::{Affinity, Constraint, ConstraintOperator, JobSpec, Toleration, TolerationOperator};
use crate::node::TaintEffect;

const CONSTRAINTS_MAX: usize = 32;
const VALUES_MAX: usize = 64;
const SPREAD_MAX: usize = 8;
const AFFINITY_MAX: usize = 16;
const SELECTOR_MAX: usize = 16;
const TOLERATIONS_MAX: usize = 32;
/// The longest tolerated time on a node with a `NoExecute` taint: a week, in milliseconds.
pub(in crate::job) const EVICT_AFTER_MS_MAX: u64 = 604_800_000;

pub(in crate::job) fn after_check(fields: &mut FieldErrors, _: &str, spec: &JobSpec) {
    fields.require(
        spec.after.len() <= AFTER_MAX,
        "after",
        format!("{} jobs", spec.after.len()),
        format!("at most {AFTER_MAX}"),
    );
    let mut seen = BTreeSet::new();
    for (at, after) in spec.after.iter().enumerate() {
        let path = format!("after[{at}].job");
        fields.related(&["name"]).require(
            after.job != spec.name,
            &path,
            format!("{:?}", after.job.as_str()),
            "another job: none can wait for itself",
        );
        fields.require(seen.insert(&after.job), &path, format!("{:?}", after.job.as_str()), "each job once");
    }
}

pub(in crate::job) fn constraints_check(fields: &mut FieldErrors, _: &str, spec: &JobSpec) {
    let constraints = &spec.constraints;
    fields.require(
        constraints.len() <= CONSTRAINTS_MAX,
        "constraints",
        format!("{} constraints", constraints.len()),
        format!("at most {CONSTRAINTS_MAX}"),
    );
    for (at, constraint) in constraints.iter().enumerate() {
        constraint_check(fields, &format!("constraints[{at}]"), constraint);
    }
    contradiction_check(fields, "constraints", "node", constraints);
}

pub(in crate::job) fn tolerations_check(fields: &mut FieldErrors, path: &str, spec: &JobSpec) {
    toleration_list_check(fields, path, &spec.tolerations);
}

/// Checks the tolerations of a list at `list`.
pub(crate) fn toleration_list_check(fields: &mut FieldErrors, list: &str, tolerations: &[Toleration]) {
    let given = format!("{} tolerations", tolerations.len());
    let accepted = format!("at most {TOLERATIONS_MAX}");
    fields.require(tolerations.len() <= TOLERATIONS_MAX, list, given, accepted);
    for (at, toleration) in tolerations.iter().enumerate() {
        let path = |field: &str| format!("{list}[{at}].{field}");
        let exists = toleration.operator == TolerationOperator::Exists;
        if !(exists && toleration.key.is_empty()) {
            fields.key(&path("key"), &toleration.key);
        }
        let value = format!("{:?}", toleration.value);
        let accepted = "no value with exists; equal compares one";
        fields.related(&[path("operator")]).require(
            !exists || toleration.value.is_empty(),
            &path("value"),
            value,
            accepted,
        );
        fields.line(&path("value"), &toleration.value);
        let Some(evict_after_ms) = toleration.evict_after_ms else { continue };
        let fine = toleration.effect == Some(TaintEffect::NoExecute);
        let accepted = "none, or the effect no_execute: only such taints drive tasks away";
        fields.related(&[path("effect")]).require(
            fine,
            &path("evict_after"),
            delay_text(evict_after_ms),
            accepted,
        );
        let accepted = format!("0s to {}, a week; none: for ever", delay_text(EVICT_AFTER_MS_MAX));
        fields.require(
            evict_after_ms <= EVICT_AFTER_MS_MAX,
            &path("evict_after_ms"),
            evict_after_ms,
            accepted,
        );
    }
}

pub(in crate::job) fn affinities_check(fields: &mut FieldErrors, _: &str, spec: &JobSpec) {
    let affinity = &spec.affinity;
    let given = format!("{} affinities", affinity.len());
    fields.require(affinity.len() <= AFFINITY_MAX, "affinity", given, format!("at most {AFFINITY_MAX}"));
    for (at, one) in affinity.iter().enumerate() {
        let path = format!("affinity[{at}]");
        fields.key(&format!("{path}.attribute"), &one.attribute);
        let given = tally(one.jobs.len(), "requirement");
        let accepted = format!("1 to {SELECTOR_MAX} requirements on labels, job.name or job.user");
        fields.require(
            (1..=SELECTOR_MAX).contains(&one.jobs.len()),
            &format!("{path}.jobs"),
            given,
            accepted,
        );
        for (at, requirement) in one.jobs.iter().enumerate() {
            let path = format!("{path}.jobs[{at}]");
            constraint_check(fields, &path, requirement);
            let hard = requirement.preference.is_none();
            fields.require(hard, &path, "a preference", "requirements; the affinity itself has a preference");
        }
        contradiction_check(fields, &format!("{path}.jobs"), "job", &one.jobs);
        if let Some(preference) = one.preference {
            let path = format!("{path}.preference");
            fields.require((1..=100).contains(&preference), &path, preference, "a weight of 1 to 100");
        }
    }
    for (at, one) in affinity.iter().enumerate().filter(|(_, one)| one.preference.is_none()) {
        let contrary = |other: &&Affinity| {
            other.preference.is_none()
                && (&other.attribute, &other.jobs) == (&one.attribute, &one.jobs)
                && other.kind != one.kind
        };
        let unread = fields.unread().touches(&format!("affinity[{at}]"));
        if !unread && affinity.iter().take(at).any(|other| contrary(&other)) {
            fields.refuse(
                &format!("affinity[{at}]"),
                "the contrary of an earlier one",
                "near or apart, not both",
            );
        }
    }
}

/// Refuses constraints that no node, or no job, can ever meet together.
fn contradiction_check(fields: &mut FieldErrors, path: &str, whose: &str, constraints: &[Constraint]) {
    let read = |at: usize| !fields.unread().touches(&format!("{path}[{at}]"));
    let Some(at) = contradiction(constraints, read) else { return };
    let Some(constraint) = constraints.get(at) else { return };
    let given = format!("contradicts what stands before it on {}", constraint.attribute);
    let accepted = format!("constraints that one {whose} can meet together");
    fields.refuse(&format!("{path}[{at}]"), given, accepted);
}

fn constraint_check(fields: &mut FieldErrors, path: &str, constraint: &Constraint) {
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

pub(in crate::job) fn spread_check(fields: &mut FieldErrors, _: &str, spec: &JobSpec) {
    let spread = &spec.spread;
    fields.require(
        spread.len() <= SPREAD_MAX,
        "spread",
        tally(spread.len(), "domain"),
        format!("at most {SPREAD_MAX}"),
    );
    let mut seen = BTreeSet::new();
    for (at, domain) in spread.iter().enumerate() {
        let path = format!("spread[{at}].attribute");
        fields.key(&path, &domain.attribute);
        fields.require(
            seen.insert(&domain.attribute),
            &path,
            format!("{:?}", domain.attribute),
            "each attribute once",
        );
        let path = format!("spread[{at}].weight");
        fields.require((1..=100).contains(&domain.weight), &path, domain.weight, "1 to 100");
        let limits = [
            ("max_skew", domain.max_skew, u32::MAX, "at least 1 task more than the emptiest domain"),
            ("tasks_max", domain.tasks_max, u32::MAX, "at least 1 task per domain"),
            ("percent_max", domain.percent_max, 100, "1 to 100 per cent of the tasks"),
        ];
        for (name, limit, most, accepted) in limits {
            if let Some(limit) = limit {
                let path = format!("spread[{at}].{name}");
                fields.require((1..=most).contains(&limit), &path, limit, accepted);
            }
        }
    }
}
