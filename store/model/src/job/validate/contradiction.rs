//! Finds constraints that contradict each other.

use std::collections::BTreeSet;

use crate::job::{Constraint, ConstraintOperator, LABEL_JOB_NAME, LABEL_JOB_USER};

/// The keys that every node, or every job, has.
const ALWAYS: [&str; 3] = ["node.name", LABEL_JOB_NAME, LABEL_JOB_USER];

/// The index of the first hard constraint that contradicts those before it; `None` if all can be met together. Only
/// those that were `read` count.
pub(super) fn contradiction(constraints: &[Constraint], read: impl Fn(usize) -> bool) -> Option<usize> {
    let counts = |(at, constraint): &(usize, &Constraint)| constraint.preference.is_none() && read(*at);
    let hard: Vec<(usize, &Constraint)> = constraints.iter().enumerate().filter(counts).collect();
    let contradicts = |&(at, last): &(usize, &Constraint)| {
        let before = hard.iter().filter(|(other, one)| *other <= at && one.attribute == last.attribute);
        let together: Vec<&Constraint> = before.map(|(_, one)| *one).collect();
        (!may_be_met(&last.attribute, &together)).then_some(at)
    };
    hard.iter().find_map(contradicts)
}

/// Returns true if some value of the attribute, or its absence, meets all of these constraints on it.
fn may_be_met(attribute: &str, constraints: &[&Constraint]) -> bool {
    use ConstraintOperator::{Absent, GreaterThan, In, LessThan, NotIn};
    let absent_meets = constraints.iter().all(|one| matches!(one.operator, NotIn | Absent));
    if absent_meets && !ALWAYS.contains(&attribute) {
        return true;
    }
    if constraints.iter().any(|one| one.operator == Absent) {
        return false;
    }
    let bounds = |operator| {
        constraints.iter().filter(move |one| one.operator == operator).filter_map(|one| bound(one))
    };
    let lower = bounds(GreaterThan).fold(f64::NEG_INFINITY, f64::max);
    let upper = bounds(LessThan).fold(f64::INFINITY, f64::min);
    if lower >= upper {
        return false;
    }
    let numeric = constraints.iter().any(|one| matches!(one.operator, GreaterThan | LessThan));
    let within =
        |value: &str| !numeric || number(value).is_some_and(|number| number > lower && number < upper);
    let mut listed: Option<BTreeSet<&str>> = None;
    for one in constraints.iter().filter(|one| one.operator == In && !one.values.is_empty()) {
        let values: BTreeSet<&str> = one.values.iter().map(String::as_str).collect();
        listed = Some(match listed {
            Some(before) => before.intersection(&values).copied().collect(),
            None => values,
        });
    }
    let excluded = |value: &str| {
        let excluding = constraints.iter().filter(|one| one.operator == NotIn);
        excluding.flat_map(|one| &one.values).any(|excluded| excluded == value)
    };
    // A value that no list names always exists.
    listed.is_none_or(|values| values.into_iter().any(|value| within(value) && !excluded(value)))
}

fn bound(constraint: &Constraint) -> Option<f64> {
    number(constraint.values.first()?)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(attribute: &str, operator: ConstraintOperator, values: &[&str]) -> Constraint {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Constraint { attribute: attribute.to_owned(), operator, values, preference: None }
    }

    #[test]
    fn what_nothing_can_meet_is_found_and_nothing_else() {
        use ConstraintOperator::{Absent, Exists, GreaterThan, In, LessThan, NotIn};
        let a = |operator, values: &[&str]| one("a", operator, values);
        let wish = Constraint { preference: Some(1), ..a(In, &["z"]) };
        let cases: [(&[Constraint], Option<usize>); 15] = [
            (&[a(In, &["x", "y"]), a(In, &["y", "z"])], None),
            (&[a(In, &["x"]), one("b", In, &["y"]), a(In, &["y"])], Some(2)),
            (&[a(In, &["x"]), wish], None),
            (&[a(In, &["x"]), a(NotIn, &["x"])], Some(1)),
            (&[a(NotIn, &["x"]), a(In, &["x", "y"])], None),
            (&[a(Exists, &[]), a(Absent, &[])], Some(1)),
            (&[a(Absent, &[]), a(NotIn, &["x"])], None),
            (&[a(Absent, &[]), a(GreaterThan, &["1"])], Some(1)),
            (&[a(GreaterThan, &["4"]), a(LessThan, &["4"])], Some(1)),
            (&[a(GreaterThan, &["3.5"]), a(LessThan, &["4"])], None),
            (&[a(In, &["2", "many"]), a(GreaterThan, &["2"])], Some(1)),
            (&[a(In, &["2", "3"]), a(GreaterThan, &["2"])], None),
            (&[one("node.name", Absent, &[])], Some(0)),
            (&[one("node.name", NotIn, &["n1"])], None),
            (&[], None),
        ];
        for (number, (constraints, found)) in cases.into_iter().enumerate() {
            assert_eq!(contradiction(constraints, |_| true), found, "case {number}");
        }
    }
}
