//! Ports of an address that several nodes share, and workers that do not know each other's plans.

use std::time::Duration;

use borough_model::job::{Constraint, ConstraintOperator, JobKind, PortSpec};
use borough_testkit::{in_simulated_time, job_spec, name, seeds};

use crate::cell::{Cell, slow};

#[test]
fn workers_give_a_port_of_an_address_once() {
    let mut conflicts = 0;
    for seed in seeds(20) {
        let found = std::cell::Cell::new(0);
        in_simulated_time(async {
            let cell = Cell::with_faults(seed, slow()).await;
            for _ in 0..4 {
                cell.node_add().await;
            }
            // Each for another node, so that no worker sees the others' ports in its node's commitment.
            for (number, node) in (0..12).zip(cell.node_names().await.iter().cycle()) {
                cell.port_submit(&format!("job-{number}"), 8_080, node).await;
            }
            let workers = [0, 1, 2].map(|place| cell.worker(place, 3, &["default"]));
            cell.until("one has the port", async || cell.placed().await > 0).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            let tasks = cell.tasks().await;
            let there: Vec<_> = tasks.iter().filter_map(|row| row.node).collect();
            assert_eq!(there.len(), 1, "seed {seed}: {there:?} share the port of one address");
            found.set(cell.conflicts());
            workers.into_iter().for_each(|worker| worker.abort());
        });
        conflicts += found.get();
    }
    assert!(conflicts > 0, "nobody ever planned at the same moment");
}

impl Cell {
    /// Admits a job of one small task with a fixed port, for one node.
    pub(crate) async fn port_submit(&self, job: &str, port: u16, node: &str) {
        let mut spec = job_spec("ann", job, JobKind::Service);
        spec.task.ports = vec![PortSpec { name: name("http"), number: Some(port) }];
        spec.constraints = vec![Constraint {
            attribute: "node.name".to_owned(),
            operator: ConstraintOperator::In,
            values: vec![node.to_owned()],
            preference: None,
        }];
        self.spec_submit(&spec).await;
    }
}
