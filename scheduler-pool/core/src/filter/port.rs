//! The port filter. Fixed TCP ports must be free, and the others come from the node's range. Nodes that share an
//! address share its ports: a port is assigned on one of them only.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::{FilterReason, Requirement};
use crate::overlay::PlanOverlay;

/// What a port of an address is to a task that asks for it. The greatest of its nodes counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PortUse {
    Free,
    Cooling,
    Taken,
}

/// Returns true if a port may be assigned now: no node of the address uses it or lets it cool down.
fn port_free(overlay: &PlanOverlay<'_>, node: u32, port: u16, now_ms: i64) -> bool {
    overlay.nodes.ports(node).is_some()
        && overlay
            .nodes
            .spaces
            .with(node)
            .all(|node| port_use_of(overlay, node, port, now_ms) == PortUse::Free)
}

/// What refuses a fixed port; `None`: it is free.
fn port_refusal(overlay: &PlanOverlay<'_>, node: u32, port: u16, now_ms: i64) -> Option<FilterReason> {
    if port_free(overlay, node, port, now_ms) {
        return None;
    }
    let uses = overlay.nodes.spaces.with(node).map(|node| port_use_of(overlay, node, port, now_ms));
    Some(match uses.max() {
        Some(PortUse::Cooling) => FilterReason::PortCooling(port),
        _ => FilterReason::PortFixed(port),
    })
}

fn port_use_of(overlay: &PlanOverlay<'_>, node: u32, port: u16, now_ms: i64) -> PortUse {
    let Some(ports) = overlay.nodes.ports(node) else { return PortUse::Free };
    let cooling = || {
        let position = ports.cooling.binary_search_by_key(&port, |&(port, _)| port).ok();
        position.and_then(|position| ports.cooling.get(position)).is_some_and(|&(_, until)| until > now_ms)
    };
    if ports.used.binary_search(&port).is_ok() || overlay.ports_taken(node).contains(&port) {
        PortUse::Taken
    } else if cooling() {
        PortUse::Cooling
    } else {
        PortUse::Free
    }
}

/// How many ports of the node's range may be assigned now, without the fixed ports of this task.
pub(crate) fn ports_dynamic_free(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    now_ms: i64,
) -> usize {
    let Some(ports) = overlay.nodes.ports(node) else { return 0 };
    if ports.last < ports.first || ports.last == 0 {
        return 0;
    }
    let range = ports.first.max(1)..=ports.last;
    let mut busy: SmallVec<[u16; 64]> = requirement.ports_fixed.iter().copied().collect();
    for node in overlay.nodes.spaces.with(node) {
        busy.extend_from_slice(overlay.ports_taken(node));
        let Some(ports) = overlay.nodes.ports(node) else { continue };
        busy.extend_from_slice(&ports.used);
        busy.extend(ports.cooling.iter().filter(|&&(_, until)| until > now_ms).map(|&(port, _)| port));
    }
    busy.retain(|port| range.contains(port));
    busy.sort_unstable();
    busy.dedup();
    range.len() - busy.len()
}

/// Returns true if the range has enough free ports. It counts them only if a cheap bound does not decide.
fn dynamic_enough(overlay: &PlanOverlay<'_>, requirement: &Requirement, node: u32, now_ms: i64) -> bool {
    let wanted = usize::from(requirement.ports_dynamic);
    let busy_most = || -> usize {
        let of = |node| {
            let known = overlay.nodes.ports(node).map_or(0, |ports| ports.used.len() + ports.cooling.len());
            known + overlay.ports_taken(node).len()
        };
        overlay.nodes.spaces.with(node).map(of).sum()
    };
    let plain = overlay.nodes.ports(node).is_some_and(|ports| {
        let range = usize::from(ports.last.saturating_sub(ports.first));
        range >= busy_most() + requirement.ports_fixed.len() + wanted
    });
    plain || wanted <= ports_dynamic_free(overlay, requirement, node, now_ms)
}

/// Visits the reasons of ports against a node.
pub(super) fn refusals<B>(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    now_ms: i64,
    visit: &mut impl FnMut(FilterReason) -> ControlFlow<B>,
) -> ControlFlow<B> {
    for &port in &requirement.ports_fixed {
        if let Some(refusal) = port_refusal(overlay, node, port, now_ms) {
            visit(refusal)?;
        }
    }
    if requirement.ports_dynamic > 0 && !dynamic_enough(overlay, requirement, node, now_ms) {
        visit(FilterReason::PortsDynamic)?;
    }
    ControlFlow::Continue(())
}

/// The dynamic ports of a task on a node: the lowest free ones. Fewer than requested if the range has no more.
pub(crate) fn ports_given(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    now_ms: i64,
) -> SmallVec<[u16; 4]> {
    let Some(ports) = overlay.nodes.ports(node) else { return SmallVec::new() };
    let free =
        |port: &u16| !requirement.ports_fixed.contains(port) && port_free(overlay, node, *port, now_ms);
    let wanted = usize::from(requirement.ports_dynamic);
    (ports.first.max(1)..=ports.last).filter(free).take(wanted).collect()
}
