//! The commitment of a node: adding and releasing shares, cooling ports, and invariants.

use std::collections::BTreeSet;

use super::promise::{node_alloc_forgo, node_alloc_fulfil, node_alloc_promise};
use super::{CapacityEffect, CapacityShare, NodeAlloc, NodeRow};
use crate::resource::{
    ResourceError, Resources, Shortfall, resources_add, resources_less, resources_sub, shortfall,
};

/// The end of a cool-down, for the ports of a lost attempt: none is known before the attempt is over or comes back.
pub const PORT_KEPT_BACK_MS: i64 = i64::MAX;

/// Why a commitment cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeAllocError {
    /// It does not fit: choose another node.
    #[error("it does not fit: {}", shortfalls_text(.shortfalls))]
    DoesNotFit { shortfalls: Vec<Shortfall> },
    /// Another task has the port: choose another.
    #[error("port {port} is in use")]
    PortInUse { port: u16 },
    /// The port was used a moment ago: choose another, or wait.
    #[error("port {port} cools down until {until_ms}")]
    PortCooling {
        port: u16,
        /// Wall time from which it is free, milliseconds since 1970.
        until_ms: i64,
    },
    /// A release exceeds the commitment: the sums are wrong, do not commit.
    #[error("the node's commitment does not hold what is given back")]
    NotHeld {
        #[source]
        source: ResourceError,
    },
    /// The commitment has no task, or not that port: the sums are wrong, do not commit.
    #[error("the node's commitment does not know the task that is given back (port {port:?})")]
    NotKnown {
        /// The unknown port; absent: it had no task at all.
        port: Option<u16>,
    },
    #[error("the amounts cannot be added")]
    Overflow {
        #[source]
        source: ResourceError,
    },
}

fn shortfalls_text(shortfalls: &[Shortfall]) -> String {
    shortfalls.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The free capacity: less what is used and what is promised; nothing in a dimension that is overcommitted (an agent
/// registered with less than before).
pub fn node_free(capacity: &Resources, alloc: &NodeAlloc) -> Resources {
    resources_less(&resources_less(capacity, &alloc.used), &alloc.promised)
}

/// The commitment with one more share. Drops ports whose cool-down is over.
pub fn node_alloc_add(
    alloc: &NodeAlloc,
    capacity: &Resources,
    resources: &Resources,
    ports: &[u16],
    now_ms: i64,
) -> Result<NodeAlloc, NodeAllocError> {
    let shortfalls = shortfall(resources, &node_free(capacity, alloc));
    if !shortfalls.is_empty() {
        return Err(NodeAllocError::DoesNotFit { shortfalls });
    }
    let mut next = node_alloc_cooled(alloc, now_ms);
    cooled_check(&next, ports)?;
    share_add(&mut next, resources, ports)?;
    Ok(node_alloc_touch(&next))
}

pub(super) fn cooled_check(alloc: &NodeAlloc, ports: &[u16]) -> Result<(), NodeAllocError> {
    let cooling = ports.iter().find_map(|port| alloc.ports_cooling.get_key_value(port));
    match cooling {
        Some((&port, &until_ms)) => Err(NodeAllocError::PortCooling { port, until_ms }),
        None => Ok(()),
    }
}

/// The commitment with a share that comes back after its node was declared lost. The share is in use already, so it is
/// counted whether it fits or not, and its ports end their cool-down.
pub fn node_alloc_retake(
    alloc: &NodeAlloc,
    resources: &Resources,
    ports: &[u16],
    now_ms: i64,
) -> Result<NodeAlloc, NodeAllocError> {
    let mut next = node_alloc_cooled(alloc, now_ms);
    for port in ports {
        next.ports_cooling.remove(port);
    }
    share_add(&mut next, resources, ports)?;
    Ok(node_alloc_touch(&next))
}

fn share_add(next: &mut NodeAlloc, resources: &Resources, ports: &[u16]) -> Result<(), NodeAllocError> {
    task_add(next, ports)?;
    next.used = resources_add(&next.used, resources).map_err(|source| NodeAllocError::Overflow { source })?;
    Ok(())
}

/// Adds one task with its ports.
pub(super) fn task_add(next: &mut NodeAlloc, ports: &[u16]) -> Result<(), NodeAllocError> {
    for &port in ports {
        if !next.ports.insert(port) {
            return Err(NodeAllocError::PortInUse { port });
        }
    }
    next.tasks = next.tasks.saturating_add(1);
    Ok(())
}

/// The commitment with one share less. Its ports cool down until `ports_cool_until_ms`; absent: they are free at once.
pub fn node_alloc_release(
    alloc: &NodeAlloc,
    resources: &Resources,
    ports: &[u16],
    ports_cool_until_ms: Option<i64>,
) -> Result<NodeAlloc, NodeAllocError> {
    let mut next = alloc.clone();
    task_remove(&mut next, ports)?;
    next.used = resources_sub(&alloc.used, resources).map_err(|source| NodeAllocError::NotHeld { source })?;
    if let Some(until_ms) = ports_cool_until_ms {
        next.ports_cooling.extend(ports.iter().map(|&port| (port, until_ms)));
    }
    Ok(node_alloc_touch(&next))
}

/// The commitment in which a share has other amounts. What it takes beyond its present ones must be free.
pub fn node_alloc_resize(
    alloc: &NodeAlloc,
    capacity: &Resources,
    before: &Resources,
    after: &Resources,
) -> Result<NodeAlloc, NodeAllocError> {
    let shortfalls = resize_shortfall(alloc, capacity, before, after);
    if !shortfalls.is_empty() {
        return Err(NodeAllocError::DoesNotFit { shortfalls });
    }
    let mut next = alloc.clone();
    next.used = resources_sub(&alloc.used, before).map_err(|source| NodeAllocError::NotHeld { source })?;
    next.used = resources_add(&next.used, after).map_err(|source| NodeAllocError::Overflow { source })?;
    Ok(node_alloc_touch(&next))
}

/// What a node lacks for a share that is to have other amounts; empty: it has room.
pub fn resize_shortfall(
    alloc: &NodeAlloc,
    capacity: &Resources,
    before: &Resources,
    after: &Resources,
) -> Vec<Shortfall> {
    shortfall(&resources_less(after, before), &node_free(capacity, alloc))
}

/// The commitment in which ports that are kept back for a lost attempt begin to cool down.
pub fn node_alloc_cool(alloc: &NodeAlloc, ports: &[u16], until_ms: i64) -> NodeAlloc {
    let mut next = alloc.clone();
    // A version before this one kept none back, so another attempt may have one.
    let kept = ports.iter().filter(|port| !alloc.ports.contains(port));
    next.ports_cooling.extend(kept.map(|&port| (port, until_ms)));
    node_alloc_touch(&next)
}

/// Removes one task with its ports.
pub(super) fn task_remove(next: &mut NodeAlloc, ports: &[u16]) -> Result<(), NodeAllocError> {
    next.tasks = next.tasks.checked_sub(1).ok_or(NodeAllocError::NotKnown { port: None })?;
    match ports.iter().find(|port| !next.ports.remove(port)) {
        Some(&port) => Err(NodeAllocError::NotKnown { port: Some(port) }),
        None => Ok(()),
    }
}

/// Whether a share that an attempt takes must fit its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareFit {
    Required,
    /// The node came back with the attempt: the share is in use, so it is counted even if it does not fit.
    Returned,
}

/// Carries out the capacity effect of a task's transition; `None` without one.
pub fn node_alloc_apply(
    alloc: &NodeAlloc,
    capacity: &Resources,
    effect: &CapacityEffect,
    fit: ShareFit,
    now_ms: i64,
) -> Result<Option<NodeAlloc>, NodeAllocError> {
    match effect {
        CapacityEffect::Keep => Ok(None),
        CapacityEffect::Take(CapacityShare { resources, ports, .. }) if fit == ShareFit::Returned => {
            node_alloc_retake(alloc, resources, ports, now_ms).map(Some)
        }
        CapacityEffect::Take(CapacityShare { resources, ports, .. }) => {
            node_alloc_add(alloc, capacity, resources, ports, now_ms).map(Some)
        }
        CapacityEffect::Release { share, ports_cool_until_ms } => {
            node_alloc_release(alloc, &share.resources, &share.ports, *ports_cool_until_ms).map(Some)
        }
        CapacityEffect::Promise(CapacityShare { resources, ports, .. }) => {
            node_alloc_promise(alloc, capacity, resources, ports, now_ms).map(Some)
        }
        CapacityEffect::Fulfil(share) => node_alloc_fulfil(alloc, capacity, &share.resources).map(Some),
        CapacityEffect::Forgo(share) => node_alloc_forgo(alloc, &share.resources, &share.ports).map(Some),
        CapacityEffect::Resize { share, resources } => {
            node_alloc_resize(alloc, capacity, &share.resources, resources).map(Some)
        }
        CapacityEffect::Cool { share, ports_cool_until_ms } => {
            Ok(Some(node_alloc_cool(alloc, &share.ports, *ports_cool_until_ms)))
        }
    }
}

/// The next epoch of the same commitment, written with every change of the node's row.
pub fn node_alloc_touch(alloc: &NodeAlloc) -> NodeAlloc {
    NodeAlloc { epoch: alloc.epoch.saturating_add(1), ..alloc.clone() }
}

/// The commitment without the ports whose cool-down is over. The epoch stays: this alone is no change.
pub fn node_alloc_cooled(alloc: &NodeAlloc, now_ms: i64) -> NodeAlloc {
    let mut next = alloc.clone();
    next.ports_cooling.retain(|_, until_ms| *until_ms > now_ms);
    next
}

/// A commitment that breaks an invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeAllocBroken {
    /// More is used, or promised, than the node has.
    #[error("over capacity: {}", shortfalls_text(.shortfalls))]
    OverCapacity {
        /// Per dimension: the use (needed) and the capacity (free).
        shortfalls: Vec<Shortfall>,
    },
    /// A port is assigned and cools down at the same time.
    #[error("port {port} is in use and cools down")]
    PortTwice { port: u16 },
    /// Resources are used without a task.
    #[error("no task, but resources or ports are used")]
    UsedByNobody,
}

/// Checks every commitment's invariants: not over capacity, no port twice, no use without a task.
pub fn node_alloc_check(row: &NodeRow, alloc: &NodeAlloc) -> Result<(), NodeAllocBroken> {
    let used = shortfall(&alloc.used, &row.capacity);
    let promised = shortfall(&alloc.promised, &row.capacity);
    if let Some(shortfalls) = [used, promised].into_iter().find(|shortfalls| !shortfalls.is_empty()) {
        return Err(NodeAllocBroken::OverCapacity { shortfalls });
    }
    let cooling: BTreeSet<u16> = alloc.ports_cooling.keys().copied().collect();
    if let Some(&port) = alloc.ports.intersection(&cooling).next() {
        return Err(NodeAllocBroken::PortTwice { port });
    }
    let nothing = alloc.used.is_zero() && alloc.promised.is_zero() && alloc.ports.is_empty();
    if alloc.tasks == 0 && !nothing {
        return Err(NodeAllocBroken::UsedByNobody);
    }
    Ok(())
}
