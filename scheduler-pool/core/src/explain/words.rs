//! Refusals in words that stand without the snapshot.

use borough_model::resource::Dimension;

use super::Filter;
use crate::filter::{CardAsk, Refusal, Requirement};
use crate::snapshot::{NodeTable, Rule, Shape, Snapshot};

/// The dimension of a column.
pub(super) fn dimension(nodes: &NodeTable, number: u16) -> Dimension {
    let device = || Dimension::Device(nodes.kind(usize::from(number)).unwrap_or_default().to_owned());
    Dimension::FIXED.get(usize::from(number)).cloned().unwrap_or_else(device)
}

/// A refusal in words that stand without the snapshot.
pub(super) fn filter(
    refusal: Refusal,
    requirement: &Requirement,
    shape: &Shape,
    snapshot: &Snapshot,
) -> Filter {
    let nodes = &snapshot.nodes;
    match refusal {
        Refusal::Recovering => Filter::Recovering,
        Refusal::Lost => Filter::Lost,
        Refusal::Cordoned => Filter::Cordoned,
        Refusal::Draining => Filter::Draining,
        Refusal::Taint(number) => nodes.taints.get(number).map_or(Filter::Lost, |taint| Filter::Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect,
        }),
        Refusal::Constraint(number) => {
            let ready = requirement.hard.get(usize::from(number));
            let constraint = ready.and_then(|ready| shape.constraints.get(ready.position));
            constraint
                .map_or(Filter::Lost, |constraint| Filter::Constraint { constraint: constraint.clone() })
        }
        Refusal::Rule(number) => {
            let rule = requirement.rules.rules.get(usize::from(number)).copied();
            rule.and_then(|rule| filter_of_rule(rule, requirement, snapshot)).unwrap_or(Filter::Lost)
        }
        Refusal::PortFixed(number) => Filter::PortFixed { number },
        Refusal::PortsDynamic => Filter::PortsDynamic { asked: requirement.ports_dynamic },
        Refusal::Capacity(number) => Filter::Capacity {
            dimension: dimension(nodes, number),
            asked: requirement.amount(usize::from(number)),
        },
        Refusal::Missing(number) => {
            let missing = requirement.missing.get(usize::from(number)).cloned().unwrap_or_default();
            Filter::Capacity { dimension: Dimension::Device(missing.0), asked: missing.1 }
        }
        Refusal::CardSelector(_) | Refusal::CardNever(_) | Refusal::CardBusy(_) => {
            filter_of_card(refusal, requirement, shape, nodes).unwrap_or(Filter::Lost)
        }
        Refusal::Within => {
            let exclusive_cores = shape.exclusive_cores;
            shape.within.map_or(Filter::Lost, |within| Filter::Within { within, exclusive_cores })
        }
        Refusal::Free(number) => Filter::Free {
            dimension: dimension(nodes, number),
            asked: requirement.amount(usize::from(number)),
        },
    }
}

/// The ask of a refusal by cards.
pub(super) fn card_ask(refusal: Refusal, requirement: &Requirement) -> Option<&CardAsk> {
    match refusal {
        Refusal::CardSelector(number) | Refusal::CardNever(number) | Refusal::CardBusy(number) => {
            requirement.cards.get(usize::from(number))
        }
        _ => None,
    }
}

fn filter_of_card(
    refusal: Refusal,
    requirement: &Requirement,
    shape: &Shape,
    nodes: &NodeTable,
) -> Option<Filter> {
    let ask = card_ask(refusal, requirement)?;
    let device = nodes.kind(ask.kind)?.to_owned();
    let asked = requirement.amount(ask.kind);
    Some(match refusal {
        Refusal::CardSelector(_) => {
            let selector = shape.device_selectors.get(&device).cloned().unwrap_or_default();
            Filter::Device { device, selector }
        }
        Refusal::CardNever(_) => Filter::Capacity { dimension: Dimension::Device(device), asked },
        _ => Filter::Free { dimension: Dimension::Device(device), asked },
    })
}

fn filter_of_rule(rule: Rule, requirement: &Requirement, snapshot: &Snapshot) -> Option<Filter> {
    let spec = snapshot.jobs.get(&requirement.rules.job?)?.spec_current()?;
    let attribute = || Some(snapshot.terms.get(rule.term())?.key.attribute().to_owned());
    Some(match rule {
        Rule::Near { position, .. } | Rule::Apart { position, .. } => {
            Filter::Affinity { affinity: spec.affinity.get(usize::from(position))?.clone() }
        }
        Rule::Kept { .. } => Filter::Kept { attribute: attribute()? },
        Rule::Skew { most, .. } => {
            Filter::Spread { attribute: attribute()?, max_skew: Some(most), tasks_max: None }
        }
        Rule::Cap { most, .. } => {
            Filter::Spread { attribute: attribute()?, max_skew: None, tasks_max: Some(most) }
        }
    })
}
