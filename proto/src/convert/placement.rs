//! Where tasks may and should run: constraints, spread, affinity.

use borough_model::job::{Affinity, AffinityKind, Constraint, ConstraintOperator, Spread};

use super::FieldRefused;
use crate::v1;

pub(super) fn spread_to_message(spread: &Spread) -> v1::Spread {
    v1::Spread {
        attribute: spread.attribute.clone(),
        weight: spread.weight,
        max_skew: spread.max_skew,
        tasks_max: spread.tasks_max,
        percent_max: spread.percent_max,
    }
}

pub(super) fn spread_from_message(message: &v1::Spread) -> Spread {
    Spread {
        attribute: message.attribute.clone(),
        weight: message.weight,
        max_skew: message.max_skew,
        tasks_max: message.tasks_max,
        percent_max: message.percent_max,
    }
}

pub(super) fn affinity_to_message(affinity: &Affinity) -> v1::Affinity {
    let kind = match affinity.kind {
        AffinityKind::Near => v1::affinity::Kind::Near,
        AffinityKind::Apart => v1::affinity::Kind::Apart,
    };
    v1::Affinity {
        kind: kind.into(),
        attribute: affinity.attribute.clone(),
        jobs: affinity.jobs.iter().map(constraint_to_message).collect(),
        preference: affinity.preference,
    }
}

pub(super) fn affinity_from_message(
    (index, message): (usize, &v1::Affinity),
) -> Result<Affinity, FieldRefused> {
    let path = format!("affinity[{index}]");
    let kind = match v1::affinity::Kind::try_from(message.kind) {
        Ok(v1::affinity::Kind::Near) => AffinityKind::Near,
        Ok(v1::affinity::Kind::Apart) => AffinityKind::Apart,
        Ok(v1::affinity::Kind::Unspecified) | Err(_) => {
            return Err(FieldRefused::new(format!("{path}.kind"), message.kind.to_string(), "near or apart"));
        }
    };
    let jobs = message
        .jobs
        .iter()
        .enumerate()
        .map(|(at, message)| constraint_from_message(&format!("{path}.jobs[{at}]"), message));
    Ok(Affinity {
        kind,
        attribute: message.attribute.clone(),
        jobs: jobs.collect::<Result<_, _>>()?,
        preference: message.preference,
    })
}

pub(super) fn constraint_to_message(constraint: &Constraint) -> v1::Constraint {
    let operator = match constraint.operator {
        ConstraintOperator::In => v1::constraint::Operator::In,
        ConstraintOperator::NotIn => v1::constraint::Operator::NotIn,
        ConstraintOperator::Exists => v1::constraint::Operator::Exists,
        ConstraintOperator::Absent => v1::constraint::Operator::Absent,
        ConstraintOperator::GreaterThan => v1::constraint::Operator::GreaterThan,
        ConstraintOperator::LessThan => v1::constraint::Operator::LessThan,
    };
    v1::Constraint {
        attribute: constraint.attribute.clone(),
        operator: operator.into(),
        values: constraint.values.clone(),
        preference: constraint.preference,
    }
}

pub(super) fn constraint_from_message(
    path: &str,
    message: &v1::Constraint,
) -> Result<Constraint, FieldRefused> {
    let operator = match v1::constraint::Operator::try_from(message.operator) {
        Ok(v1::constraint::Operator::In) => ConstraintOperator::In,
        Ok(v1::constraint::Operator::NotIn) => ConstraintOperator::NotIn,
        Ok(v1::constraint::Operator::Exists) => ConstraintOperator::Exists,
        Ok(v1::constraint::Operator::Absent) => ConstraintOperator::Absent,
        Ok(v1::constraint::Operator::GreaterThan) => ConstraintOperator::GreaterThan,
        Ok(v1::constraint::Operator::LessThan) => ConstraintOperator::LessThan,
        Ok(v1::constraint::Operator::Unspecified) | Err(_) => {
            let field = format!("{path}.operator");
            let accepted = "in, not_in, exists, absent, greater_than or less_than";
            return Err(FieldRefused::new(field, message.operator.to_string(), accepted));
        }
    };
    Ok(Constraint {
        attribute: message.attribute.clone(),
        operator,
        values: message.values.clone(),
        preference: message.preference,
    })
}
