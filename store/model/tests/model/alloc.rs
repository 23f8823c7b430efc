//! Alloc sets, and jobs in them: which files are accepted, and which sets take which jobs.

use borough_model::id::JobId;
use borough_model::job::{
    ChangeClass, JobAlloc, JobEvent, JobKind, JobRow, JobSpec, JobState, MEMBERS_MAX, PortSpec, change_class,
    fields_fixed, job_new, job_transition, member_check, set_change_check, set_stop_refused,
};
use borough_model::resize::{SpecResize, resize_prevented};
use borough_model::{RequestId, Resources};
use serde_json::{Value, json};

use crate::sample::{file_spec, name, spec};

const MIB: u64 = 1 << 20;

fn set_file() -> Value {
    json!({"name": "places", "kind": "alloc_set", "count": 3, "task": {"resources": {"cpu": 1, "memory": "100MiB"}}})
}

fn member_file() -> Value {
    json!({"name": "web", "alloc_set": "places", "count": 2, "task": {"command": ["serve"]}})
}

fn set() -> (JobRow, JobSpec) {
    let spec = file_spec(&set_file()).unwrap();
    (job_new(JobId(7), &spec, RequestId(1), 0), spec)
}

#[test]
fn an_alloc_set_names_no_command_and_its_file_is_written_so() {
    let spec = file_spec(&set_file()).unwrap();
    assert_eq!(spec.kind, JobKind::AllocSet);
    assert_eq!(file_spec(&spec.to_file()).unwrap(), spec);
    assert_eq!(spec.to_file()["task"].get("command"), None);
    let short = file_spec(&json!({"name": "places", "kind": "alloc_set"})).unwrap();
    assert_eq!((short.count, file_spec(&short.to_file()).unwrap()), (1, short));
    assert!(file_spec(&json!({"name": "web"})).is_err(), "another job needs a task");
    assert!(file_spec(&json!({"name": "web", "task": {}})).is_err(), "with a command");
}

/// Each of these is refused, by the name of its field.
#[test]
fn what_is_not_for_allocs_is_refused_by_its_name() {
    let wrong: [(Value, Value, &str); 17] = [
        (set_file(), json!({"alloc_set": "other"}), "alloc_set"),
        (set_file(), json!({"task": {"command": ["run"]}}), "task.command"),
        (set_file(), json!({"overrides": {"0": {"weight": 2}}}), "overrides"),
        (set_file(), json!({"min_member": 2}), "min_member"),
        (set_file(), json!({"restart": "never"}), "restart"),
        (set_file(), json!({"task": {"within": "one_socket"}}), "task.within"),
        (set_file(), json!({"task": {"resources": {"devices": {"gpu": 1}}}}), "task.resources.devices"),
        (set_file(), json!({"task": {"health": {"command": ["check"]}}}), "task.health"),
        (set_file(), json!({"update": {"surge_max": 1}}), "update.surge_max"),
        (member_file(), json!({"kind": "daemon", "count": null}), "kind"),
        (member_file(), json!({"alloc_set": "web"}), "alloc_set"),
        (member_file(), json!({"alloc_set": "bob/places"}), "alloc_set"),
        (member_file(), json!({"constraints": ["disk == ssd"]}), "constraints"),
        (member_file(), json!({"spread": ["rack"]}), "spread"),
        (member_file(), json!({"tolerations": ["maintenance"]}), "tolerations"),
        (member_file(), json!({"preemption": {"never": true}}), "preemption"),
        (member_file(), json!({"count": 1025}), "count"),
    ];
    for (mut file, fields, path) in wrong {
        for (key, value) in fields.as_object().unwrap() {
            match (file.get_mut(key), value) {
                (Some(Value::Object(inner)), Value::Object(more)) => inner.extend(more.clone()),
                _ => file[key] = value.clone(),
            }
        }
        let problems = file_spec(&file).expect_err(&format!("{file}"));
        assert!(problems.iter().any(|problem| problem.starts_with(path)), "{file}: {problems:?}");
    }
}

#[test]
fn a_set_takes_what_fits_an_empty_alloc_and_runs() {
    let (row, spec) = set();
    let member = file_spec(&member_file()).unwrap();
    let refused = |member: &JobSpec, set: Option<(&JobRow, &JobSpec)>, members| {
        member_check(member, set, members).err().map(|error| error.path)
    };
    assert_eq!(refused(&member, Some((&row, &spec)), MEMBERS_MAX - 1), None);
    assert_eq!(refused(&member, Some((&row, &spec)), MEMBERS_MAX).as_deref(), Some("alloc_set"));
    assert_eq!(refused(&member, None, 0).as_deref(), Some("alloc_set"), "there is none");
    let stopping = JobRow { state: JobState::Stopping, ..row.clone() };
    assert_eq!(refused(&member, Some((&stopping, &spec)), 0).as_deref(), Some("alloc_set"));
    let other = JobRow { alloc: None, ..row.clone() };
    assert_eq!(refused(&member, Some((&other, &spec)), 0).as_deref(), Some("alloc_set"), "a service");
    let mut large = member;
    large.task.resources.memory_bytes = 101 * MIB;
    let error = member_check(&large, Some((&row, &spec)), 0).unwrap_err();
    assert_eq!((error.path.as_str(), error.value.as_str()), ("task.resources", "memory 101MiB"));
    let file = json!({"overrides": {"1": {"resources": {"cpu": 2}}}, "name": "web", "alloc_set": "places", "count": 2,
        "task": {"command": ["serve"]}});
    let own = file_spec(&file).unwrap();
    assert_eq!(refused(&own, Some((&row, &spec)), 0).as_deref(), Some("overrides[1].resources"));
    assert_eq!(refused(&crate::sample::spec(JobKind::Batch), None, 0), None, "it asks for no set");
}

#[test]
fn a_set_keeps_what_the_jobs_in_it_need_and_ends_after_them() {
    let ((row, spec), member) = (set(), file_spec(&member_file()).unwrap());
    let one = std::slice::from_ref(&member);
    let count = |count| JobSpec { count, ..spec.clone() };
    assert!(set_change_check(&spec, &spec, one).is_ok());
    let none = set_change_check(&spec, &count(0), one).unwrap_err();
    assert_eq!((none.path.as_str(), none.value.as_str()), ("count", "0"));
    assert!(none.accepted.ends_with("scale or stop one of these first: ada/web"), "{none:?}");
    assert!(set_change_check(&spec, &count(0), &[]).is_ok());
    let amounts = |bytes: u64| {
        let mut smaller = spec.clone();
        smaller.task.resources.memory_bytes = bytes;
        smaller
    };
    assert!(set_change_check(&spec, &amounts(64 * MIB), one).is_ok(), "as much as its task takes");
    let too_small = set_change_check(&spec, &amounts(64 * MIB - 1), one).unwrap_err();
    assert!(too_small.accepted.contains("ada/web/0"), "{too_small:?}");
    assert_eq!(set_stop_refused(&row, []), None);
    let job = job_new(JobId(8), &member, RequestId(2), 0);
    let reason = set_stop_refused(&row, [&job]).unwrap();
    assert!(reason.ends_with("Stop it first: borough job stop ada/web"), "{reason}");
    let ends = JobRow { state: JobState::Stopping, ..job };
    let reason = set_stop_refused(&row, [&ends]).unwrap();
    assert!(reason.ends_with("Wait for it first: borough job stop ada/web"), "{reason}");
}

/// A task whose command names a port that its alloc lacks fails at each start.
#[test]
fn a_set_has_the_ports_that_the_jobs_in_it_name() {
    let (row, spec) = set();
    let ports = |ports: &[&str]| {
        let ports = ports.iter().map(|text| PortSpec { name: name(text), number: None }).collect();
        let mut set = spec.clone();
        set.task.ports = ports;
        set
    };
    let mut member = file_spec(&member_file()).unwrap();
    member.task.command = vec!["serve".to_owned(), "--at=${BOROUGH_ALLOC_PORT_HTTP_IN}".to_owned()];
    let check = |set: &JobSpec| member_check(&member, Some((&row, set)), 0);
    assert_eq!(check(&ports(&["http-in"])), Ok(()));
    let other = check(&ports(&["admin"])).unwrap_err();
    assert_eq!(
        (other.path.as_str(), other.value.as_str()),
        ("task.command[1]", "${BOROUGH_ALLOC_PORT_HTTP_IN}")
    );
    assert!(other.accepted.ends_with("${BOROUGH_ALLOC_PORT_ADMIN}"), "{other:?}");
    assert!(check(&ports(&[])).unwrap_err().accepted.contains("have none"));

    let one = std::slice::from_ref(&member);
    assert_eq!(set_change_check(&ports(&["http-in"]), &ports(&["http-in", "admin"]), one), Ok(()));
    let taken = set_change_check(&ports(&["http-in"]), &ports(&["admin"]), one).unwrap_err();
    assert_eq!((taken.path.as_str(), taken.value.as_str()), ("task.ports", "admin"));
    assert!(taken.accepted.contains("ada/web"), "{taken:?}");
    assert_eq!(set_change_check(&ports(&[]), &ports(&["admin"]), one), Ok(()), "it never had it");
}

/// Each of its allocs holds each task. Together they do not hold all of them.
#[test]
fn a_set_with_smaller_allocs_still_holds_all_that_is_in_it() {
    let (_, spec) = set();
    let mut member = file_spec(&member_file()).unwrap();
    member.count = spec.count;
    let two = [member.clone(), member];
    let mut before = spec;
    before.task.resources.memory_bytes = 128 * MIB;
    let mut after = before.clone();
    after.task.resources.memory_bytes = 127 * MIB;
    let refused = set_change_check(&before, &after, &two).unwrap_err();
    assert_eq!(refused.path, "task.resources");
    assert!(refused.value.contains("127MiB"), "{refused:?}");
    // What shrinks in one dimension and is short in another takes nothing away: its tasks wait as they did.
    let short = after;
    let mut more_cpu = short.clone();
    more_cpu.task.resources.cpu_millis += 100;
    assert_eq!(set_change_check(&short, &more_cpu, &two), Ok(()));
}

#[test]
fn the_row_of_a_set_names_its_jobs() {
    let (row, _) = set();
    assert_eq!(row.alloc_members(), Some(&[][..]));
    let event = JobEvent::MembersSet { members: vec![JobId(8), JobId(9)] };
    let joined = job_transition(&row, &event, RequestId(3), 5).unwrap();
    assert_eq!(joined.row.alloc_members(), Some(&[JobId(8), JobId(9)][..]));
    assert!(joined.changed && !joined.gate, "no placement in flight is wrong by that");
    let over = JobRow { state: JobState::Stopping, ..row };
    assert!(job_transition(&over, &event, RequestId(3), 5).is_err());
    let member = JobRow { alloc: Some(Box::new(JobAlloc::Member { set: JobId(7) })), ..over };
    assert_eq!((member.alloc_set(), member.alloc_members()), (Some(JobId(7)), None));
}

#[test]
fn a_task_in_an_alloc_takes_nothing_of_its_node_and_is_not_resized() {
    let member = file_spec(&member_file()).unwrap();
    assert_eq!(member.node_resources_for(0), Resources::default());
    assert_eq!(member.alloc_resources_for(0), member.task.resources);
    let plain = spec(JobKind::Service);
    assert_eq!(plain.node_resources_for(0), plain.task.resources);
    assert_eq!(plain.alloc_resources_for(0), Resources::default());
    let mut more = member.clone();
    more.task.resources.cpu_millis += 1;
    assert!(resize_prevented(&more).is_some() && !SpecResize::between(&member, &more).reaches(0));
    assert!(resize_prevented(&set().1).is_some());
}

#[test]
fn a_running_job_stays_in_its_set() {
    let member = file_spec(&member_file()).unwrap();
    let moved = JobSpec { alloc_set: Some(name("others")), ..member.clone() };
    assert_eq!(change_class(&member, &moved), ChangeClass::NeedsUpdate);
    let fixed = fields_fixed(&member, &moved);
    assert_eq!(fixed.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["alloc_set"]);
}
