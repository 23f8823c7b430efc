//! Values that most tests need, with what does not matter filled in.

use std::collections::BTreeMap;

use borough_model::job::{JobKind, JobSpec};
use borough_model::node::NodeFacts;
use borough_model::task::{Placement, TaskEvent};
use borough_model::{Incarnation, Name, NodeId, RequestId, Resources};
use borough_store::journal::Change;

/// A name, which must be valid.
pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A change by a test.
pub fn change(request: u128, action: &'static str, at_ms: i64) -> Change {
    Change { request: RequestId(request), actor: "user/test".to_owned(), action, at_ms }
}

/// A machine with ten ports.
pub fn node_facts(capacity: Resources) -> NodeFacts {
    NodeFacts {
        capacity,
        port_first: 20_000,
        port_last: 20_009,
        attributes: BTreeMap::new(),
        host: "127.0.0.1".to_owned(),
        boot_id: "boot".to_owned(),
        agent_version: "test".to_owned(),
        cards: Vec::new(),
        domains: Vec::new(),
    }
}

/// A job with the defaults of a job file.
pub fn job_spec(user: &str, job: &str, kind: JobKind) -> JobSpec {
    JobSpec::defaults(name(user), name(job), kind, vec!["run".to_owned()])
}

/// Places an attempt of a task with the first version of its spec.
pub fn placed_on(node: NodeId, incarnation: Incarnation, resources: Resources) -> TaskEvent {
    TaskEvent::Place(Placement {
        node,
        incarnation,
        ports: Vec::new(),
        resources,
        spec_version: 1,
        gang: None,
        alloc: None,
    })
}
