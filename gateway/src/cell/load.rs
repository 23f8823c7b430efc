//! The real use of a cell: the sum of the loads of its nodes. The store has them; the mirror has them only while
//! somebody follows them.

use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::NodeId;
use borough_model::node::{NodeLoad, NodeState};
use borough_proto::v1;
use borough_store::node::node_loads_read;

use super::context::CellContext;

/// Nodes in one transaction.
const PART_NODES: usize = 500;
/// How long an answer waits for all loads.
const LOADS_WAIT: Duration = Duration::from_secs(1);

/// Sums the loads of the nodes that are ready; `None` if the store does not answer in time.
pub(super) async fn cell_load(cell: &CellContext) -> Option<v1::CellLoad> {
    tokio::time::timeout(LOADS_WAIT, loads_sum(cell)).await.ok().flatten()
}

async fn loads_sum(cell: &CellContext) -> Option<v1::CellLoad> {
    let ready: Vec<NodeId> = cell.mirror.read(|state| {
        let ready = state.nodes().values().filter(|row| row.state == NodeState::Ready);
        ready.map(|row| row.id).collect()
    });
    let mut sum = v1::CellLoad::default();
    for part in ready.chunks(PART_NODES) {
        let space = &cell.space;
        let read = cell.db.run("cell_loads_read", Idempotency::ReadOnly, |tx, _| async move {
            node_loads_read(&tx, space, part).await
        });
        read.await.ok()?.values().for_each(|load| load_add(&mut sum, load));
    }
    Some(sum)
}

fn load_add(sum: &mut v1::CellLoad, load: &NodeLoad) {
    if let Some(measured) = &load.measured {
        sum.nodes = sum.nodes.saturating_add(1);
        sum.cpu_millis = sum.cpu_millis.saturating_add(measured.cpu_millis);
        sum.memory_bytes = sum.memory_bytes.saturating_add(measured.memory_bytes);
    }
}

#[cfg(test)]
mod tests {
    use borough_model::node::LoadMeasured;

    use super::*;

    #[test]
    fn nodes_that_cannot_measure_are_not_counted() {
        let measured = LoadMeasured { cpu_millis: 250, memory_bytes: 7, ..LoadMeasured::default() };
        let load = |measured| NodeLoad { revision: 1, changed_ms: 0, measured, unjournalled: None };
        let mut sum = v1::CellLoad::default();
        load_add(&mut sum, &load(Some(measured)));
        load_add(&mut sum, &load(Some(measured)));
        load_add(&mut sum, &load(None));
        assert_eq!(sum, v1::CellLoad { nodes: 2, cpu_millis: 500, memory_bytes: 14 });
    }
}
