//! Which ports a task gets on a node: fixed ones as they are, the others from the node's range.

use std::collections::BTreeSet;

use super::{NodeAlloc, NodeRow};
use crate::job::PortSpec;
use crate::task::PortAssignment;

/// Why a node has no ports for a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortsShort {
    /// The fixed port is given to another task, or cools down.
    #[error("port {port} is taken")]
    FixedTaken {
        /// Which.
        port: u16,
    },
    /// The range has no free port left.
    #[error("{wanted} ports wanted, {free} free from {first} to {last}")]
    RangeFull {
        /// Ports to be handed out.
        wanted: usize,
        /// Free ports of the range.
        free: usize,
        /// First of the range.
        first: u16,
        /// Last of the range.
        last: u16,
    },
}

/// A number for every port of `wanted`, in its order. `seed` says where in the range the search begins, so that
/// workers deciding at once rarely choose the same numbers; the same arguments give the same answer.
pub fn ports_pick(
    row: &NodeRow,
    alloc: &NodeAlloc,
    wanted: &[PortSpec],
    seed: u64,
    now_ms: i64,
) -> Result<Vec<PortAssignment>, PortsShort> {
    let cooling = |port: &u16| alloc.ports_cooling.get(port).is_some_and(|&until_ms| until_ms > now_ms);
    let taken = |port: &u16| alloc.ports.contains(port) || cooling(port);
    let fixed: BTreeSet<u16> = wanted.iter().filter_map(|port| port.number).collect();
    if let Some(&port) = fixed.iter().find(|port| taken(port)) {
        return Err(PortsShort::FixedTaken { port });
    }
    let open = wanted.iter().filter(|port| port.number.is_none()).count();
    let free = |port: &u16| !taken(port) && !fixed.contains(port);
    let picked: Vec<u16> = range_from(row.port_first, row.port_last, seed).filter(free).take(open).collect();
    if picked.len() < open {
        let (first, last) = (row.port_first, row.port_last);
        return Err(PortsShort::RangeFull { wanted: open, free: picked.len(), first, last });
    }
    let mut picked = picked.into_iter();
    let numbers = wanted.iter().filter_map(|port| Some((port, port.number.or_else(|| picked.next())?)));
    Ok(numbers.map(|(port, number)| PortAssignment { name: port.name.clone(), number }).collect())
}

/// The range once round, beginning where the seed says.
fn range_from(first: u16, last: u16, seed: u64) -> impl Iterator<Item = u16> {
    let size = u64::from(last.saturating_sub(first)) + u64::from(first <= last);
    let begin = if size == 0 { 0 } else { seed % size };
    let at = move |step: u64| {
        let offset = (begin + step) % size.max(1);
        u16::try_from(offset).ok().and_then(|offset| first.checked_add(offset))
    };
    (0..size).filter_map(at)
}
