//! The nearest fit: nodes that only one thing speaks against, and how much of it.

use std::collections::BTreeMap;

use borough_model::resource::Dimension;

use super::NearestFit;
use super::words::{card_ask, dimension, filter};
use crate::filter::{FilterReason, Requirement, cards_most, fits_moving, ports_dynamic_free};
use crate::plan::PlanOverlay;
use crate::snapshot::{Shape, Snapshot};

/// What alone speaks against some nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// Too much of a dimension, whether for the node or for what is free on it.
    Dimension(u16),
    Other(FilterReason),
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
    topology: BTreeMap<Vec<Cause>, Vec<Vec<u64>>>,
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
        Self { near: BTreeMap::new(), topology: BTreeMap::new(), without_port }
    }

    fn without_port_heard(&mut self, work: &PlanOverlay<'_>, node: u32, now_ms: i64) {
        for (port, reduced) in &self.without_port {
            if fits_moving(work, reduced, node, now_ms) {
                self.near.entry(Cause::Other(FilterReason::PortFixed(*port))).or_default().nodes += 1;
            }
        }
    }

    /// Takes in what was heard against a node.
    pub fn node_heard(
        &mut self,
        work: &PlanOverlay<'_>,
        requirement: &Requirement,
        node: u32,
        now_ms: i64,
        heard: &[FilterReason],
    ) {
        // A little less is no whole cores.
        let of_cpu =
            |refusal: &FilterReason| matches!(refusal, FilterReason::Capacity(0) | FilterReason::Free(0));
        if requirement.within.as_ref().is_some_and(|ask| ask.exclusive) && heard.iter().any(of_cpu) {
            return;
        }
        let of_ports = |refusal: &FilterReason| {
            matches!(refusal, FilterReason::PortFixed(_) | FilterReason::PortsDynamic)
        };
        if !heard.is_empty() && heard.iter().all(of_ports) {
            self.without_port_heard(work, node, now_ms);
        }
        let [refusal] = heard else {
            self.topology_heard(work, requirement, node, heard);
            return;
        };
        let of_one = |refusal: FilterReason| match refusal {
            FilterReason::PortsDynamic => {
                let free = ports_dynamic_free(work, requirement, node, now_ms);
                Some((Cause::Other(refusal), free as u64))
            }
            FilterReason::PortFixed(_) => None,
            other => Some(cause_of(work, requirement, node, other)),
        };
        let doing_without = is_selector(*refusal).then(|| cards_cause(work, requirement, node, *refusal));
        for (cause, has) in of_one(*refusal).into_iter().chain(doing_without) {
            let near = self.near.entry(cause).or_default();
            if has > near.at_most {
                *near = Near { at_most: has, nodes: 0 };
            }
            if has == near.at_most {
                near.nodes += 1;
            }
        }
    }

    /// Takes in a node that several things speak against, where nothing fewer does elsewhere. Ports are left out: what
    /// one gives back another may take; and domains, where less of something else may be enough alone.
    fn topology_heard(
        &mut self,
        work: &PlanOverlay<'_>,
        requirement: &Requirement,
        node: u32,
        heard: &[FilterReason],
    ) {
        let of_ports = |refusal: &FilterReason| {
            matches!(refusal, FilterReason::PortFixed(_) | FilterReason::PortsDynamic)
        };
        if heard.is_empty() || heard.contains(&FilterReason::Within) || heard.iter().any(of_ports) {
            return;
        }
        let causes = |doing_without: bool| -> Vec<(Cause, u64)> {
            let cause = |refusal: &FilterReason| match *refusal {
                refusal if doing_without && is_selector(refusal) => {
                    cards_cause(work, requirement, node, refusal)
                }
                refusal => cause_of(work, requirement, node, refusal),
            };
            heard.iter().map(cause).collect()
        };
        self.set_heard(causes(false));
        if heard.iter().copied().any(is_selector) {
            self.set_heard(causes(true));
        }
    }

    fn set_heard(&mut self, mut causes: Vec<(Cause, u64)>) {
        causes.sort_unstable();
        causes.dedup();
        let fewest = self.topology.keys().next().map_or(usize::MAX, Vec::len);
        if causes.len() > fewest {
            return;
        }
        if causes.len() < fewest {
            self.topology.clear();
        }
        let (causes, has) = causes.into_iter().unzip();
        self.topology.entry(causes).or_default().push(has);
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
        let sets = self.topology.into_iter().filter_map(|(causes, of_nodes)| {
            let best = of_nodes.iter().max()?.clone();
            let scopes = |has: &&Vec<u64>| has.iter().zip(&best).all(|(has, best)| has >= best);
            let count = u32::try_from(of_nodes.iter().filter(scopes).count()).unwrap_or(u32::MAX);
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

/// Whether other devices than those asked for would do: then asking for fewer helps too.
fn is_selector(refusal: FilterReason) -> bool {
    matches!(refusal, FilterReason::CardSelector(_))
}

/// What would have to be changed, with how much a node has of it.
fn cause_of(
    work: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    refusal: FilterReason,
) -> (Cause, u64) {
    match refusal {
        FilterReason::Capacity(number) | FilterReason::Free(number) => {
            (Cause::Dimension(number), free(work, number, node))
        }
        FilterReason::CardNever(_) | FilterReason::CardBusy(_) => {
            cards_cause(work, requirement, node, refusal)
        }
        other => (Cause::Other(other), 0),
    }
}

/// Cards as the dimension of their kind, with the most that a node could give of them.
fn cards_cause(
    work: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    refusal: FilterReason,
) -> (Cause, u64) {
    let ask = card_ask(refusal, requirement);
    let kind = ask.and_then(|ask| u16::try_from(ask.kind).ok()).unwrap_or(u16::MAX);
    (Cause::Dimension(kind), ask.and_then(|ask| cards_most(work, ask, node)).unwrap_or(0))
}

/// What of a dimension is free on a node.
fn free(work: &PlanOverlay<'_>, number: u16, node: u32) -> u64 {
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
        Cause::Other(FilterReason::Missing(number)) => {
            let kind = requirement.missing.get(usize::from(number)).map(|(kind, _)| kind.clone());
            let dimension = Dimension::Device(kind.unwrap_or_default());
            NearestFit::Resource { dimension, at_most: 0, nodes: count }
        }
        Cause::Other(FilterReason::PortsDynamic) => {
            NearestFit::Ports { at_most: u16::try_from(at_most).unwrap_or(u16::MAX), nodes: count }
        }
        Cause::Other(refusal) => {
            NearestFit::Without { filter: filter(refusal, requirement, shape, snapshot), nodes: count }
        }
    }
}
