//! Turns refusals and near misses, which are numbers of the tables, into the names of an explanation.

use borough_model::resource::Dimension;

use super::{FilterStep, NearestFit};
use crate::census::{NearMiss, Obstacle};
use crate::filter::{FilterReason, Requirement};
use crate::tables::{CellTables, HardRule, NodeTable, Shape};

/// The dimension of a node table's column.
fn dimension(nodes: &NodeTable, number: u16) -> Dimension {
    let device = || Dimension::Device(nodes.kind(usize::from(number)).unwrap_or_default().to_owned());
    Dimension::FIXED.get(usize::from(number)).cloned().unwrap_or_else(device)
}

/// The filter of a refusal, with the names that it concerns.
pub(super) fn filter(
    refusal: FilterReason,
    requirement: &Requirement,
    shape: &Shape,
    tables: &CellTables,
) -> FilterStep {
    let nodes = &tables.nodes;
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
            rule.and_then(|rule| filter_of_rule(rule, requirement, tables)).unwrap_or(FilterStep::Lost)
        }
        FilterReason::PortFixed(number) => FilterStep::PortFixed { number },
        FilterReason::PortCooling(number) => FilterStep::PortCooling { number },
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

fn filter_of_card(
    refusal: FilterReason,
    requirement: &Requirement,
    shape: &Shape,
    nodes: &NodeTable,
) -> Option<FilterStep> {
    let ask = requirement.card_ask(refusal)?;
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

fn filter_of_rule(rule: HardRule, requirement: &Requirement, tables: &CellTables) -> Option<FilterStep> {
    let spec = tables.jobs.get(&requirement.rules.job?)?.spec_current()?;
    let attribute = || Some(tables.terms.get(rule.term())?.key.attribute().to_owned());
    Some(match rule {
        HardRule::Near { position, .. } | HardRule::Apart { position, .. } => {
            FilterStep::Affinity { affinity: spec.affinity.get(usize::from(position))?.clone() }
        }
        HardRule::KeptApart { .. } => FilterStep::Kept { attribute: attribute()? },
        HardRule::Skew { most, .. } => {
            FilterStep::Spread { attribute: attribute()?, max_skew: Some(most), tasks_max: None }
        }
        HardRule::Cap { most, .. } => {
            FilterStep::Spread { attribute: attribute()?, max_skew: None, tasks_max: Some(most) }
        }
    })
}

/// The change that would let the nodes of a near miss in.
pub(super) fn nearest_fit(
    miss: &NearMiss,
    requirement: &Requirement,
    shape: &Shape,
    tables: &CellTables,
) -> NearestFit {
    let change = |obstacle, at_most, nodes| match obstacle {
        Obstacle::Dimension(number) => {
            NearestFit::Resource { dimension: dimension(&tables.nodes, number), at_most, nodes }
        }
        Obstacle::Other(FilterReason::Missing(number)) => {
            let kind = requirement.missing.get(usize::from(number)).map(|(kind, _)| kind.clone());
            NearestFit::Resource { dimension: Dimension::Device(kind.unwrap_or_default()), at_most: 0, nodes }
        }
        Obstacle::Other(FilterReason::PortsDynamic) => {
            NearestFit::Ports { at_most: u16::try_from(at_most).unwrap_or(u16::MAX), nodes }
        }
        Obstacle::Other(refusal) => {
            NearestFit::Without { filter: filter(refusal, requirement, shape, tables), nodes }
        }
    };
    match *miss {
        NearMiss::Alone { obstacle, at_most, nodes } => change(obstacle, at_most, nodes),
        NearMiss::Together { ref obstacles, nodes } => {
            let changes = obstacles.iter().map(|&(obstacle, at_most)| change(obstacle, at_most, nodes));
            NearestFit::Together { changes: changes.collect(), nodes }
        }
    }
}
