//! The nearest fit: nodes that only one thing speaks against, and how much of it.

use std::collections::BTreeMap;

use borough_model::resource::Dimension;

use super::{NearestFit, dimension, filter};
use crate::filter::{Refusal, Requirement, fits_moving, ports_dynamic_free};
use crate::plan::Work;
use crate::snapshot::{Shape, Snapshot};

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
    /// Of the nodes that several things speak against, those with the fewest: how much each has, by what speaks.
    together: BTreeMap<Vec<Cause>, Vec<Vec<u64>>>,
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
        let without_port = requirement.ports_fixed.iter().map(without).collect();
        Self { near: BTreeMap::new(), together: BTreeMap::new(), without_port }
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
        let [refusal] = heard else {
            self.together_heard(work, node, heard);
            return;
        };
        let (cause, has) = match *refusal {
            Refusal::Capacity(number) | Refusal::Free(number) => {
                (Cause::Dimension(number), free(work, number, node))
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

    /// Takes in a node that several things speak against, where nothing fewer does elsewhere. Ports are left out: what
    /// one gives back another may take.
    fn together_heard(&mut self, work: &Work<'_>, node: u32, heard: &[Refusal]) {
        let of_ports = |refusal: &Refusal| matches!(refusal, Refusal::PortFixed(_) | Refusal::PortsDynamic);
        if heard.is_empty() || heard.iter().any(of_ports) {
            return;
        }
        let mut causes: Vec<(Cause, u64)> = heard
            .iter()
            .map(|refusal| match *refusal {
                Refusal::Capacity(number) | Refusal::Free(number) => {
                    (Cause::Dimension(number), free(work, number, node))
                }
                other => (Cause::Other(other), 0),
            })
            .collect();
        causes.sort_unstable();
        causes.dedup();
        let fewest = self.together.keys().next().map_or(usize::MAX, Vec::len);
        if causes.len() > fewest {
            return;
        }
        if causes.len() < fewest {
            self.together.clear();
        }
        let (causes, has) = causes.into_iter().unzip();
        self.together.entry(causes).or_default().push(has);
    }

    /// What was found, the change that lets in most nodes first; where no single change lets any in, the smallest set
    /// of changes that together do.
    pub fn found(self, requirement: &Requirement, shape: &Shape, snapshot: &Snapshot) -> Vec<NearestFit> {
        let fit = |cause: Cause, near: Near| fit_of(cause, near, requirement, shape, snapshot);
        let mut near: Vec<(Cause, Near)> = self.near.into_iter().collect();
        near.sort_by_key(|&(cause, near)| (std::cmp::Reverse(near.nodes), cause));
        if !near.is_empty() {
            return near.into_iter().map(|(cause, near)| fit(cause, near)).collect();
        }
        let sets = self.together.into_iter().filter_map(|(causes, of_nodes)| {
            let best = of_nodes.iter().max()?.clone();
            let reaches = |has: &&Vec<u64>| has.iter().zip(&best).all(|(has, best)| has >= best);
            let count = u32::try_from(of_nodes.iter().filter(reaches).count()).unwrap_or(u32::MAX);
            Some((count, causes, best))
        });
        let Some((count, causes, best)) = sets.max_by_key(|(count, ..)| *count) else { return Vec::new() };
        let change = |(cause, at_most): (Cause, u64)| fit(cause, Near { at_most, nodes: count });
        vec![NearestFit::Together {
            changes: causes.into_iter().zip(best).map(change).collect(),
            nodes: count,
        }]
    }
}

/// What of a dimension is free on a node.
fn free(work: &Work<'_>, number: u16, node: u32) -> u64 {
    let column = usize::from(number);
    work.nodes.limit(column, node).saturating_sub(work.used(column, node))
}

/// A cause as the change that would remove it.
fn fit_of(
    cause: Cause,
    Near { at_most, nodes: count }: Near,
    requirement: &Requirement,
    shape: &Shape,
    snapshot: &Snapshot,
) -> NearestFit {
    match cause {
        Cause::Dimension(number) => {
            NearestFit::Resource { dimension: dimension(&snapshot.nodes, number), at_most, nodes: count }
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
            NearestFit::Without { filter: filter(refusal, requirement, shape, snapshot), nodes: count }
        }
    }
}
