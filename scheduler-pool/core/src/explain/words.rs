//! Refusals in words that stand without the snapshot.

use borough_model::resource::Dimension;

use super::FilterStep;
use crate::filter::{CardAsk, FilterReason, Requirement};
use crate::snapshot::{HardRule, NodeTable, Shape, Snapshot};

/// The dimension of a column.
pub(super) fn dimension(nodes: &NodeTable, number: u16) -> Dimension {
    let device = || Dimension::Device(nodes.kind(usize::from(number)).unwrap_or_default().to_owned());
    Dimension::FIXED.get(usize::from(number)).cloned().unwrap_or_else(device)
}

/// A refusal in words that stand without the snapshot.
pub(super) fn filter(
    refusal: FilterReason,
    requirement: &Requirement,
    shape: &Shape,
    snapshot: &Snapshot,
) -> FilterStep {
    let nodes = &snapshot.nodes;
    match refusal {
        FilterReason::Recovering => FilterStep::Recovering,
        FilterReason::Lost => FilterStep::Lost,
        FilterReason::Cordoned => FilterStep::Cordoned,
        FilterReason::Draining => FilterStep::Draining,
        FilterReason::Taint(number) => nodes.taints.get(number).map_or(FilterStep::Lost, |taint| {
            FilterStep::Taint { key: taint.key.clone(), value: taint.value.clone(), effect: taint.effect }
        }),
        FilterReason::Constraint(number) => {
            let ready = requirement.hard.get(usize::from(number));
            let constraint = ready.and_then(|ready| shape.constraints.get(ready.position));
            constraint.map_or(FilterStep::Lost, |constraint| FilterStep::Constraint {
                constraint: constraint.clone(),
            })
        }
        FilterReason::Rule(number) => {
            let rule = requirement.rules.rules.get(usize::from(number)).copied();
            rule.and_then(|rule| filter_of_rule(rule, requirement, snapshot)).unwrap_or(FilterStep::Lost)
        }
        FilterReason::PortFixed(number) => FilterStep::PortFixed { number },
        FilterReason::PortsDynamic => FilterStep::PortsDynamic { asked: requirement.ports_dynamic },
        FilterReason::Capacity(number) => FilterStep::Capacity {
            dimension: dimension(nodes, number),
            asked: requirement.amount(usize::from(number)),
        },
        FilterReason::Missing(number) => {
            let missing = requirement.missing.get(usize::from(number)).cloned().unwrap_or_default();
            FilterStep::Capacity { dimension: Dimension::Device(missing.0), asked: missing.1 }
        }
        FilterReason::CardSelector(_) | FilterReason::CardNever(_) | FilterReason::CardBusy(_) => {
            filter_of_card(refusal, requirement, shape, nodes).unwrap_or(FilterStep::Lost)
        }
        FilterReason::Within => {
            let exclusive_cores = shape.exclusive_cores;
            shape.within.map_or(FilterStep::Lost, |within| FilterStep::Within { within, exclusive_cores })
        }
        FilterReason::Free(number) => FilterStep::Free {
            dimension: dimension(nodes, number),
            asked: requirement.amount(usize::from(number)),
        },
    }
}

/// The ask of a refusal by cards.
pub(super) fn card_ask(refusal: FilterReason, requirement: &Requirement) -> Option<&CardAsk> {
    match refusal {
        FilterReason::CardSelector(number)
        | FilterReason::CardNever(number)
        | FilterReason::CardBusy(number) => requirement.cards.get(usize::from(number)),
        _ => None,
    }
}

fn filter_of_card(
    refusal: FilterReason,
    requirement: &Requirement,
    shape: &Shape,
    nodes: &NodeTable,
) -> Option<FilterStep> {
    let ask = card_ask(refusal, requirement)?;
    let device = nodes.kind(ask.kind)?.to_owned();
    let asked = requirement.amount(ask.kind);
    Some(match refusal {
        FilterReason::CardSelector(_) => {
            let selector = shape.device_selectors.get(&device).cloned().unwrap_or_default();
            FilterStep::Device { device, selector }
        }
        FilterReason::CardNever(_) => FilterStep::Capacity { dimension: Dimension::Device(device), asked },
        _ => FilterStep::Free { dimension: Dimension::Device(device), asked },
    })
}

fn filter_of_rule(rule: HardRule, requirement: &Requirement, snapshot: &Snapshot) -> Option<FilterStep> {
    let spec = snapshot.jobs.get(&requirement.rules.job?)?.spec_current()?;
    let attribute = || Some(snapshot.terms.get(rule.term())?.key.attribute().to_owned());
    Some(match rule {
        HardRule::Near { position, .. } | HardRule::Apart { position, .. } => {
            FilterStep::Affinity { affinity: spec.affinity.get(usize::from(position))?.clone() }
        }
        HardRule::Kept { .. } => FilterStep::Kept { attribute: attribute()? },
        HardRule::Skew { most, .. } => {
            FilterStep::Spread { attribute: attribute()?, max_skew: Some(most), tasks_max: None }
        }
        HardRule::Cap { most, .. } => {
            FilterStep::Spread { attribute: attribute()?, max_skew: None, tasks_max: Some(most) }
        }
    })
}
