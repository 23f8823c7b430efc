//! The jobs of users: all of them legal, some of them hostile.

use borough_kv::env::Rng;
use borough_model::job::{Constraint, ConstraintOperator, HealthCheck, JobKind, JobSpec, PortSpec, Probe};
use borough_testkit::{below, index, name};

use crate::world::LOST_AFTER_MS;

/// Users. One of them is the client's own.
pub(crate) const USERS: [&str; 2] = ["ada", "bob"];
/// Number of names of jobs: few, so that jobs of one name follow each other.
pub(crate) const NAMES: u64 = 4;
/// Most bytes of an environment in a spec, less the rest of the spec.
const LARGE_BYTES: usize = 85_000;
/// Tasks of a job with such an environment: one message with all of them would exceed every bound.
const LARGE_TASKS: u32 = 60;

pub(crate) fn spec(rng: &dyn Rng) -> JobSpec {
    let user = name(USERS[index(rng, USERS.len())]);
    let job = name(&format!("job-{}", below(rng, NAMES)));
    let kind = if below(rng, 3) < 2 { JobKind::Service } else { JobKind::Batch };
    let command = match kind {
        JobKind::Batch => vec!["run".to_owned(), "batch".to_owned()],
        _ => vec!["run".to_owned()],
    };
    let mut spec = JobSpec::defaults(user, job, kind, command);
    spec.count = u32::try_from(below(rng, 7)).unwrap();
    spec.priority = u32::try_from(50 + 50 * below(rng, 6)).unwrap();
    // Some are patient, so that their tasks still exist when the node is back.
    spec.lost_after_ms = (below(rng, 3) == 0).then_some(4 * LOST_AFTER_MS);
    spec.restart.backoff_initial_ms = 100;
    spec.restart.backoff_max_ms = 1_000;
    spec.task.resources.cpu_millis = 100 * (1 + below(rng, 9));
    spec.task.resources.memory_bytes = (32 << 20) * (1 + below(rng, 8));
    let open = |text| PortSpec { name: name(text), number: None };
    match below(rng, 6) {
        0..=2 => spec.task.ports = vec![open("http")],
        3 => spec.task.ports = vec![open("http"), open("admin")],
        4 => spec.task.ports = vec![PortSpec { name: name("http"), number: Some(8_080) }],
        _ => {}
    }
    if !spec.task.ports.is_empty() && below(rng, 2) == 0 {
        spec.task.health = Some(HealthCheck::of(Probe::Tcp { port: name("http") }));
    }
    if below(rng, 6) == 0 {
        spec.count += 2;
        spec.min_member = 2;
    }
    spec
}

/// Many tasks on one node, each with as large a spec as is legal.
pub(crate) fn large(rng: &dyn Rng) -> JobSpec {
    let run = vec!["run".to_owned()];
    let mut spec = JobSpec::defaults(name(USERS[0]), name("large"), JobKind::Service, run);
    spec.count = LARGE_TASKS;
    spec.task.resources.cpu_millis = 1;
    spec.task.resources.memory_bytes = 1 << 20;
    spec.constraints = vec![Constraint {
        attribute: "rack".to_owned(),
        operator: ConstraintOperator::In,
        values: ["b".to_owned()].into(),
        preference: None,
    }];
    let letter = char::from(b'a' + u8::try_from(below(rng, 26)).unwrap());
    let value: String = std::iter::repeat_n(letter, LARGE_BYTES).collect();
    spec.task.environment.insert("LARGE".to_owned(), value);
    spec
}
