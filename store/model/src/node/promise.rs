//! Promised shares: a task of higher priority is held on a node until its victims there exit.
//!
//! A promised share is neither used (the node stays within its capacity, since the victims are still charged) nor free
//! (nobody else gets what the victims release). It is taken when it is really free, or given up. Either way only the
//! victims' own ends release their shares.

use super::alloc::{cooled_check, node_alloc_cooled, task_add, task_remove};
use super::{NodeAlloc, NodeAllocError, node_alloc_touch};
use crate::resource::{Resources, resources_add, resources_sub, shortfall};

/// The commitment with a promised share. All promises together fit the node. The scheduler checks, under this
/// commitment's epoch, that the victims release enough: an excessive promise waits and expires.
pub fn node_alloc_promise(
    alloc: &NodeAlloc,
    capacity: &Resources,
    resources: &Resources,
    ports: &[u16],
    now_ms: i64,
) -> Result<NodeAlloc, NodeAllocError> {
    let mut next = node_alloc_cooled(alloc, now_ms);
    cooled_check(&next, ports)?;
    task_add(&mut next, ports)?;
    next.promised =
        resources_add(&alloc.promised, resources).map_err(|source| NodeAllocError::Overflow { source })?;
    let shortfalls = shortfall(&next.promised, capacity);
    if shortfalls.is_empty() {
        Ok(node_alloc_touch(&next))
    } else {
        Err(NodeAllocError::DoesNotFit { shortfalls })
    }
}

/// The commitment with a promised share taken. [`NodeAllocError::DoesNotFit`] while victims still use it: the hold is
/// not confirmed then.
pub fn node_alloc_fulfil(
    alloc: &NodeAlloc,
    capacity: &Resources,
    resources: &Resources,
) -> Result<NodeAlloc, NodeAllocError> {
    let promised =
        resources_sub(&alloc.promised, resources).map_err(|source| NodeAllocError::NotHeld { source })?;
    let used = resources_add(&alloc.used, resources).map_err(|source| NodeAllocError::Overflow { source })?;
    let shortfalls = shortfall(&used, capacity);
    if !shortfalls.is_empty() {
        return Err(NodeAllocError::DoesNotFit { shortfalls });
    }
    Ok(node_alloc_touch(&NodeAlloc { used, promised, ..alloc.clone() }))
}

/// The commitment with a promised share given up. Its ports were never used and need no cool-down.
pub fn node_alloc_forgo(
    alloc: &NodeAlloc,
    resources: &Resources,
    ports: &[u16],
) -> Result<NodeAlloc, NodeAllocError> {
    let mut next = alloc.clone();
    task_remove(&mut next, ports)?;
    next.promised =
        resources_sub(&alloc.promised, resources).map_err(|source| NodeAllocError::NotHeld { source })?;
    Ok(node_alloc_touch(&next))
}
