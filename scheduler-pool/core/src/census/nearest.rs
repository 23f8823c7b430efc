//! The nearest fit: nodes with a single obstacle, and the change of the request that would remove it.

use std::collections::BTreeMap;

use crate::filter::{FilterReason, Requirement, cards_most, fits_moving, ports_dynamic_free};
use crate::overlay::PlanOverlay;

/// A change of the request that would let nodes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NearMiss {
    /// One obstacle keeps `nodes` nodes out. `at_most` is the most that any of them has.
    Alone { obstacle: Obstacle, at_most: u64, nodes: u32 },
    /// Several obstacles keep `nodes` nodes out, each with the amount that the best of these nodes has.
    Together { obstacles: Vec<(Obstacle, u64)>, nodes: u32 },
}

/// An obstacle on some nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle {
    /// The request has too much of a dimension, for the node or for the free part of it.
    Dimension(u16),
    Other(FilterReason),
}

/// The nodes that have one obstacle only.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    /// The most of the obstacle's dimension that any of them has.
    at_most: u64,
    /// The number of nodes that have as much.
    nodes: u32,
}

/// Collects the obstacles node by node.
#[derive(Debug)]
pub(super) struct NearestSearch {
    near: BTreeMap<Obstacle, Near>,
    /// Nodes with several obstacles, only those with the fewest: the amounts of each node, by its obstacles.
    several: BTreeMap<Vec<Obstacle>, Vec<Vec<u64>>>,
    /// Each fixed port, with the requirement without it. Without the fixed port, one more port of the range may be free
    /// as well.
    without_port: Vec<(u16, Requirement)>,
}

impl NearestSearch {
    pub(super) fn new(requirement: &Requirement) -> Self {
        let without = |&port: &u16| {
            let mut reduced = requirement.clone();
            reduced.ports_fixed.retain(|known| *known != port);
            (port, reduced)
        };
        let without_port = requirement.ports_fixed.iter().map(without).collect();
        Self { near: BTreeMap::new(), several: BTreeMap::new(), without_port }
    }

    fn without_port_refused(&mut self, overlay: &PlanOverlay<'_>, node: u32, now_ms: i64) {
        for (port, reduced) in &self.without_port {
            if fits_moving(overlay, reduced, node, now_ms) {
                self.near.entry(Obstacle::Other(FilterReason::PortFixed(*port))).or_default().nodes += 1;
            }
        }
    }

    /// Records why a node was refused.
    pub(super) fn node_refused(
        &mut self,
        overlay: &PlanOverlay<'_>,
        requirement: &Requirement,
        node: u32,
        now_ms: i64,
        refused: &[FilterReason],
    ) {
        // A smaller request would not be a number of complete cores.
        let of_cpu =
            |refusal: &FilterReason| matches!(refusal, FilterReason::Capacity(0) | FilterReason::Free(0));
        if requirement.within.as_ref().is_some_and(|ask| ask.exclusive) && refused.iter().any(of_cpu) {
            return;
        }
        let of_ports = |refusal: &FilterReason| {
            matches!(
                refusal,
                FilterReason::PortFixed(_) | FilterReason::PortCooling(_) | FilterReason::PortsDynamic
            )
        };
        if !refused.is_empty() && refused.iter().all(of_ports) {
            self.without_port_refused(overlay, node, now_ms);
        }
        let [refusal] = refused else {
            self.several_refused(overlay, requirement, node, refused);
            return;
        };
        let of_one = |refusal: FilterReason| match refusal {
            FilterReason::PortsDynamic => {
                let free = ports_dynamic_free(overlay, requirement, node, now_ms);
                Some((Obstacle::Other(refusal), free as u64))
            }
            FilterReason::PortFixed(_) | FilterReason::PortCooling(_) => None,
            other => Some(obstacle_of(overlay, requirement, node, other)),
        };
        let doing_without =
            is_selector(*refusal).then(|| cards_obstacle(overlay, requirement, node, *refusal));
        for (obstacle, has) in of_one(*refusal).into_iter().chain(doing_without) {
            let near = self.near.entry(obstacle).or_default();
            if has > near.at_most {
                *near = Near { at_most: has, nodes: 0 };
            }
            if has == near.at_most {
                near.nodes += 1;
            }
        }
    }

    /// Records a node with several obstacles, unless another node has fewer. It leaves out ports, because a port that
    /// one change frees may be taken by another. It leaves out domains, because less of another dimension may suffice
    /// there.
    fn several_refused(
        &mut self,
        overlay: &PlanOverlay<'_>,
        requirement: &Requirement,
        node: u32,
        refused: &[FilterReason],
    ) {
        let of_ports = |refusal: &FilterReason| {
            matches!(
                refusal,
                FilterReason::PortFixed(_) | FilterReason::PortCooling(_) | FilterReason::PortsDynamic
            )
        };
        if refused.is_empty() || refused.contains(&FilterReason::Within) || refused.iter().any(of_ports) {
            return;
        }
        let obstacles = |doing_without: bool| -> Vec<(Obstacle, u64)> {
            let obstacle = |refusal: &FilterReason| match *refusal {
                refusal if doing_without && is_selector(refusal) => {
                    cards_obstacle(overlay, requirement, node, refusal)
                }
                refusal => obstacle_of(overlay, requirement, node, refusal),
            };
            refused.iter().map(obstacle).collect()
        };
        self.obstacles_added(obstacles(false));
        if refused.iter().copied().any(is_selector) {
            self.obstacles_added(obstacles(true));
        }
    }

    fn obstacles_added(&mut self, mut obstacles: Vec<(Obstacle, u64)>) {
        obstacles.sort_unstable();
        obstacles.dedup();
        let fewest = self.several.keys().next().map_or(usize::MAX, Vec::len);
        if obstacles.len() > fewest {
            return;
        }
        if obstacles.len() < fewest {
            self.several.clear();
        }
        let (obstacles, has) = obstacles.into_iter().unzip();
        self.several.entry(obstacles).or_default().push(has);
    }

    /// The changes, the one that lets in most nodes first. If no single change lets any in, the smallest set of changes
    /// that does.
    pub(super) fn found(self) -> Vec<NearMiss> {
        let mut near: Vec<(Obstacle, Near)> = self.near.into_iter().collect();
        near.sort_by_key(|&(obstacle, near)| (std::cmp::Reverse(near.nodes), obstacle));
        if !near.is_empty() {
            let alone = |(obstacle, Near { at_most, nodes })| NearMiss::Alone { obstacle, at_most, nodes };
            return near.into_iter().map(alone).collect();
        }
        let sets = self.several.into_iter().filter_map(|(obstacles, of_nodes)| {
            let best = of_nodes.iter().max()?.clone();
            let covers = |has: &&Vec<u64>| has.iter().zip(&best).all(|(has, best)| has >= best);
            let nodes = u32::try_from(of_nodes.iter().filter(covers).count()).unwrap_or(u32::MAX);
            Some((nodes, obstacles, best))
        });
        let widest = sets.max_by_key(|(nodes, ..)| *nodes);
        let together = |(nodes, obstacles, best): (u32, Vec<Obstacle>, Vec<u64>)| NearMiss::Together {
            obstacles: obstacles.into_iter().zip(best).collect(),
            nodes,
        };
        widest.into_iter().map(together).collect()
    }
}

/// Returns true if the selector excludes devices that would fit. A smaller request would help too.
fn is_selector(refusal: FilterReason) -> bool {
    matches!(refusal, FilterReason::CardSelector(_))
}

/// The obstacle behind a refusal, with the amount that the node has.
fn obstacle_of(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    refusal: FilterReason,
) -> (Obstacle, u64) {
    match refusal {
        FilterReason::Capacity(number) | FilterReason::Free(number) => {
            (Obstacle::Dimension(number), free(overlay, number, node))
        }
        FilterReason::CardNever(_) | FilterReason::CardBusy(_) => {
            cards_obstacle(overlay, requirement, node, refusal)
        }
        other => (Obstacle::Other(other), 0),
    }
}

/// The obstacle of cards: the dimension of their kind, with the most that the node could give.
fn cards_obstacle(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    refusal: FilterReason,
) -> (Obstacle, u64) {
    let ask = requirement.card_ask(refusal);
    let kind = ask.and_then(|ask| u16::try_from(ask.kind).ok()).unwrap_or(u16::MAX);
    (Obstacle::Dimension(kind), ask.and_then(|ask| cards_most(overlay, ask, node)).unwrap_or(0))
}

fn free(overlay: &PlanOverlay<'_>, number: u16, node: u32) -> u64 {
    let column = usize::from(number);
    overlay.nodes.limit(column, node).saturating_sub(overlay.used(column, node))
}
