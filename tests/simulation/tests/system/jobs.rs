//! The jobs of users: all of them legal, some of them hostile.

use borough_kv::env::Rng;
use borough_model::job::{
    ALLOC_COMMAND, Constraint, ConstraintOperator, HealthCheck, JobKind, JobSpec, OnFailure, PortSpec, Probe,
    ResizeMode, TaskOverride, UpdateSpec,
};
use borough_testkit::{below, index, name};

use crate::world::LOST_AFTER_MS;

/// The part of a command that machines let crash at once.
pub(crate) const CRASHES: &str = "crash";

/// Users. One of them is the client's own.
pub(crate) const USERS: [&str; 2] = ["ada", "bob"];
/// Number of names of jobs: few, so that jobs of one name follow each other.
pub(crate) const NAMES: u64 = 4;
/// The number of the name that only daemon jobs have.
const DAEMON: u64 = 0;
/// The names of an alloc set, and of the jobs in it.
pub(crate) const ALLOC_NAMES: [&str; 3] = ["places", "inside-0", "inside-1"];
/// A label that some daemon jobs ask for, and its value.
pub(crate) const LABEL: &str = "disk";
pub(crate) const LABELLED: &str = "ssd";
/// Most bytes of an environment in a spec, less the rest of the spec.
const LARGE_BYTES: usize = 85_000;
/// Tasks of a job with such an environment: one message with all of them would exceed every bound.
const LARGE_TASKS: u32 = 60;

pub(crate) fn spec(rng: &dyn Rng) -> JobSpec {
    let user = name(USERS[index(rng, USERS.len())]);
    let number = below(rng, NAMES);
    let job = name(&format!("job-{number}"));
    let kind = match below(rng, 3) {
        // A kind never changes, so one name is for it alone.
        _ if number == DAEMON => JobKind::Daemon,
        0 | 1 => JobKind::Service,
        _ => JobKind::Batch,
    };
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
    if kind == JobKind::Daemon {
        spec.count = 0;
        spec.task.resources.cpu_millis = 100 * (1 + below(rng, 3));
        match below(rng, 4) {
            0 => spec.constraints = vec![is_in("rack", &["a", "b"])],
            1 => spec.constraints = vec![is_in(LABEL, &[LABELLED])],
            _ => {}
        }
    } else if below(rng, 6) == 0 {
        spec.count += 2;
        spec.min_member = 2;
    }
    spec.update = Some(update(&spec, rng));
    spec.progress_deadline_ms = Some(8_000 + below(rng, 12_000));
    spec
}

fn is_in(attribute: &str, values: &[&str]) -> Constraint {
    Constraint {
        attribute: attribute.to_owned(),
        operator: ConstraintOperator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        preference: None,
    }
}

/// Rules of rollouts, quick enough for a run. Every second service that is no gang surges.
fn update(spec: &JobSpec, rng: &dyn Rng) -> UpdateSpec {
    let update = update_plain(spec, rng);
    UpdateSpec { auto_promote: update.canaries > 0 && below(rng, 2) == 0, ..update }
}

fn update_plain(spec: &JobSpec, rng: &dyn Rng) -> UpdateSpec {
    let surges = below(rng, 2) == 0 && spec.kind == JobKind::Service && !spec.is_gang();
    let least = u64::from(!surges);
    UpdateSpec {
        unavailable_max: (below(rng, 2) == 0).then(|| u32::try_from(least + below(rng, 2)).unwrap()),
        surge_max: surges.then(|| u32::try_from(1 + below(rng, 2)).unwrap()),
        surge_percent_max: (surges && below(rng, 3) == 0).then_some(50),
        unavailable_percent_max: (below(rng, 4) == 0).then(|| u32::try_from(10 + below(rng, 50)).unwrap()),
        healthy_after_ms: below(rng, 3) * 500,
        failures_max: u32::try_from(below(rng, 3)).unwrap(),
        on_failure: if below(rng, 4) == 0 { OnFailure::Stop } else { OnFailure::Revert },
        canaries: u32::from(surges && spec.count > 0 && below(rng, 2) == 0),
        auto_promote: false,
        disruptions_max: (surges && below(rng, 4) == 0).then_some(1),
        resize: if below(rng, 5) == 0 { ResizeMode::Restart } else { ResizeMode::InPlace },
        resize_signal: None,
    }
}

/// Changes the spec of a job that runs, and says what. Most changes concern every task, some crash all of them.
pub(crate) fn change(spec: &mut JobSpec, rng: &dyn Rng) -> &'static str {
    let own = &mut spec.task.resources;
    match below(rng, 8) {
        0 | 1 => {
            spec.task.command = vec!["run".to_owned(), format!("version-{}", below(rng, 4))];
            "command"
        }
        2 | 3 => {
            spec.task.command = vec!["run".to_owned(), CRASHES.to_owned()];
            "crash"
        }
        4 => {
            own.cpu_millis += 100 * (1 + below(rng, 4));
            own.memory_bytes += 32 << 20;
            "up"
        }
        5 => {
            own.cpu_millis = 100.max(own.cpu_millis / 2);
            "down"
        }
        6 => {
            let mut resources = own.clone();
            resources.cpu_millis = 100 * (1 + below(rng, 9));
            let command = (below(rng, 3) == 0).then(|| vec!["run".to_owned(), CRASHES.to_owned()]);
            let one = TaskOverride { command, resources: Some(resources), ..TaskOverride::default() };
            if spec.count > 0 && spec.kind != JobKind::Daemon {
                spec.overrides.insert(u32::try_from(below(rng, u64::from(spec.count))).unwrap(), one);
            }
            "override"
        }
        _ => {
            spec.overrides.clear();
            spec.update = Some(update(spec, rng));
            "rules"
        }
    }
}

/// An alloc set, or a job in it. Some of them never fit, and some come before their set.
pub(crate) fn in_allocs(rng: &dyn Rng) -> JobSpec {
    let user = name(USERS[index(rng, USERS.len())]);
    let number = below(rng, ALLOC_NAMES.len() as u64);
    let job = name(ALLOC_NAMES[usize::try_from(number).unwrap()]);
    let (kind, command) = match number {
        0 => (JobKind::AllocSet, ALLOC_COMMAND.map(str::to_owned).to_vec()),
        _ => (JobKind::Service, vec!["run".to_owned()]),
    };
    let mut spec = JobSpec::defaults(user, job, kind, command);
    spec.count = u32::try_from(1 + below(rng, 3)).unwrap();
    spec.restart.backoff_initial_ms = 100;
    spec.restart.backoff_max_ms = 1_000;
    let cpu_millis = if number == 0 { 300 + 100 * below(rng, 3) } else { 100 + 50 * below(rng, 6) };
    spec.task.resources.cpu_millis = cpu_millis;
    spec.task.resources.memory_bytes = (32 << 20) * if number == 0 { 4 } else { 1 };
    if number > 0 {
        spec.alloc_set = Some(name(ALLOC_NAMES[0]));
    }
    if below(rng, 2) == 0 {
        spec.task.ports = vec![PortSpec { name: name("http"), number: None }];
    }
    spec.update =
        Some(UpdateSpec { surge_max: None, surge_percent_max: None, canaries: 0, ..UpdateSpec::default() });
    spec.progress_deadline_ms = Some(8_000 + below(rng, 12_000));
    spec
}

/// Many tasks on one node, each with as large a spec as is legal.
pub(crate) fn large(rng: &dyn Rng) -> JobSpec {
    let run = vec!["run".to_owned()];
    let mut spec = JobSpec::defaults(name(USERS[0]), name("large"), JobKind::Service, run);
    spec.count = LARGE_TASKS;
    spec.task.resources.cpu_millis = 1;
    spec.task.resources.memory_bytes = 1 << 20;
    spec.constraints = vec![is_in("rack", &["b"])];
    let letter = char::from(b'a' + u8::try_from(below(rng, 26)).unwrap());
    let value: String = std::iter::repeat_n(letter, LARGE_BYTES).collect();
    spec.task.environment.insert("LARGE".to_owned(), value);
    spec
}
