//! The nearest fit: nodes that only one thing speaks against, and how much of it.

use std::collections::BTreeMap;

use borough_model::resource::Dimension;

use super::{NearestFit, dimension, filter};
use crate::filter::{Refusal, Requirement, fits_moving, ports_dynamic_free};
use crate::plan::Work;
use crate::snapshot::{NodeTable, Shape};

/// What alone speaks against some nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// Too much of a dimension, whether for the node or for what is free on it.
    Dimension(u16),
    Other(Refusal),
}

/// How near the nodes are that one cause alone speaks against.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    /// The most that any of them has.
    at_most: u64,
    /// How many have as much.
    nodes: u32,
}

/// The search, node by node.
#[derive(Debug)]
pub(super) struct Search {
    near: BTreeMap<Cause, Near>,
    /// Each fixed port with the requirement without it: that may also leave one more of the range to be handed out.
    without_port: Vec<(u16, Requirement)>,
}

impl Search {
    pub fn new(requirement: &Requirement) -> Self {
        let without = |&port: &u16| {
            let mut reduced = requirement.clone();
            reduced.ports_fixed.retain(|known| *known != port);
            (port, reduced)
        };
        Self { near: BTreeMap::new(), without_port: requirement.ports_fixed.iter().map(without).collect() }
    }

    fn without_port_heard(&mut self, work: &Work<'_>, node: u32, now_ms: i64) {
        for (port, reduced) in &self.without_port {
            if fits_moving(work, reduced, node, now_ms) {
                self.near.entry(Cause::Other(Refusal::PortFixed(*port))).or_default().nodes += 1;
            }
        }
    }

    /// Takes in what was heard against a node.
    pub fn node_heard(
        &mut self,
        work: &Work<'_>,
        requirement: &Requirement,
        node: u32,
        now_ms: i64,
        heard: &[Refusal],
    ) {
        let of_ports = |refusal: &Refusal| matches!(refusal, Refusal::PortFixed(_) | Refusal::PortsDynamic);
        if !heard.is_empty() && heard.iter().all(of_ports) {
            self.without_port_heard(work, node, now_ms);
        }
        let [refusal] = heard else { return };
        let (cause, has) = match *refusal {
            Refusal::Capacity(number) | Refusal::Free(number) => {
                let column = usize::from(number);
                let free = work.nodes.limit(column, node).saturating_sub(work.used(column, node));
                (Cause::Dimension(number), free)
            }
            Refusal::PortsDynamic => {
                let free = ports_dynamic_free(work, requirement, node, now_ms);
                (Cause::Other(*refusal), free as u64)
            }
            Refusal::PortFixed(_) => return,
            other => (Cause::Other(other), 0),
        };
        let near = self.near.entry(cause).or_default();
        if has > near.at_most {
            *near = Near { at_most: has, nodes: 0 };
        }
        if has == near.at_most {
            near.nodes += 1;
        }
    }

    /// What was found, the change that lets in most nodes first.
    pub fn found(self, requirement: &Requirement, shape: &Shape, nodes: &NodeTable) -> Vec<NearestFit> {
        let mut near: Vec<(Cause, Near)> = self.near.into_iter().collect();
        near.sort_by_key(|&(cause, near)| (std::cmp::Reverse(near.nodes), cause));
        let fit = |(cause, Near { at_most, nodes: count }): (Cause, Near)| match cause {
            Cause::Dimension(number) => {
                NearestFit::Resource { dimension: dimension(nodes, number), at_most, nodes: count }
            }
            Cause::Other(Refusal::Missing(number)) => {
                let kind = requirement.missing.get(usize::from(number)).map(|(kind, _)| kind.clone());
                let dimension = Dimension::Device(kind.unwrap_or_default());
                NearestFit::Resource { dimension, at_most: 0, nodes: count }
            }
            Cause::Other(Refusal::PortsDynamic) => {
                NearestFit::Ports { at_most: u16::try_from(at_most).unwrap_or(u16::MAX), nodes: count }
            }
            Cause::Other(refusal) => {
                NearestFit::Without { filter: filter(refusal, requirement, shape, nodes), nodes: count }
            }
        };
        near.into_iter().map(fit).collect()
    }
}
