//! What a spec is refused for, what it has by default, what a task of it runs, and what differs between two.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use borough_model::job::{
    Affinity, AffinityKind, After, AfterCondition, Band, COUNT_MAX, ChangeClass, Constraint,
    ConstraintOperator, GangSpec, GangTopology, HealthCheck, HelperPhase, HelperSpec, IdentitySpec, JobKind,
    JobSpec, PortSpec, Probe, RestartMode, RestartSpec, Role, SecretForm, SecretReference, Spread,
    TaskOverride, Toleration, TolerationOperator, band, change_class, count_check, priority_check, spec_diff,
};
use borough_model::node::{CardSelector, TaintEffect};
use borough_model::resource::Resources;
use expect_test::expect_file;
use proptest::prelude::*;
use serde_json::json;

use crate::sample::{name, spec};

fn port(text: &str, number: Option<u16>) -> PortSpec {
    PortSpec { name: name(text), number }
}

fn constraint(attribute: &str, operator: ConstraintOperator, values: &[&str]) -> Constraint {
    let values = values.iter().map(ToString::to_string).collect();
    Constraint { attribute: attribute.to_owned(), operator, values, preference: None }
}

fn gpu(millis: u64) -> Resources {
    let device_millis = [("gpu".to_owned(), millis)].into();
    Resources { cpu_millis: 1, memory_bytes: 1 << 20, device_millis, ..Resources::default() }
}

type Change = (&'static str, fn(&mut JobSpec));

/// Changes to a legal spec, each of which makes it one that is refused.
const REFUSED: &[Change] = &[
    ("a priority above the highest", |spec| spec.priority = 400),
    ("a billion tasks", |spec| spec.count = 1_000_000_000),
    ("a gang larger than the job", |spec| (spec.count, spec.min_member) = (3, 4)),
    ("roles that do not add up", |spec| {
        *spec = of_roles();
        (spec.count, spec.min_member) = (6, 2);
    }),
    ("roles that cannot be", |spec| {
        *spec = of_roles();
        let gang = spec.gang.get_or_insert_default();
        gang.roles[1].name = name("server");
        (gang.roles[0].count, gang.roles[1].min_member) = (0, 5);
        gang.roles[1].task.weight = Some(0);
    }),
    ("one alone together", |spec| {
        let topology = GangTopology {
            attribute: "no rack".to_owned(),
            domains_min: 3,
            domains_max: 2,
            preferred: false,
        };
        spec.gang = Some(GangSpec { topology: Some(topology), ..GangSpec::default() });
    }),
    ("no command", |spec| spec.task.command.clear()),
    ("a description that turns the text after it", |spec| {
        spec.description = Some("\u{202e}done".to_owned());
    }),
    ("a description of two lines, by another separator", |spec| {
        spec.description = Some("one\u{2028}two".to_owned());
    }),
    ("an empty program", |spec| spec.task.command[0].clear()),
    ("a NUL in an argument", |spec| spec.task.command.push("a\0b".to_owned())),
    ("no resources", |spec| spec.task.resources = Resources::default()),
    ("resources whose sum overflows", |spec| {
        (spec.count, spec.task.resources.memory_bytes) = (3, u64::MAX / 2);
    }),
    ("one and a half devices", |spec| spec.task.resources = gpu(1500)),
    ("a card by its place, a model nobody asks for, and one without a name", |spec| {
        spec.task.resources.device_millis.insert("gpu/0".to_owned(), 1000);
        let of = |model: &str| CardSelector { models: vec![model.to_owned()], memory_bytes_min: 0 };
        spec.task.device_selectors = [("tpu".to_owned(), of("v4")), ("gpu/0".to_owned(), of(""))].into();
    }),
    ("no share of a device", |spec| spec.task.resources = gpu(0)),
    ("bad names of variables", |spec| {
        for each in ["1A", "A-B", "", "BOROUGH_TASK", "PORT_HTTP", "A=B"] {
            spec.task.environment.insert(each.to_owned(), String::new());
        }
    }),
    ("a NUL in a variable", |spec| {
        spec.task.environment.insert("A".to_owned(), "\0".to_owned());
    }),
    ("a relative directory", |spec| spec.task.working_directory = Some("tmp".to_owned())),
    ("a reserved port", |spec| spec.task.ports = vec![port("http", Some(80)), port("zero", Some(0))]),
    ("a port name twice", |spec| spec.task.ports = vec![port("http", None), port("http", None)]),
    ("a port number twice", |spec| spec.task.ports = vec![port("a", Some(8080)), port("b", Some(8080))]),
    ("a probe of a port that is not there", |spec| {
        spec.task.ports = vec![port("http", None), port("admin", None)];
        spec.task.health = Some(HealthCheck::of(Probe::Tcp { port: name("htpp") }));
    }),
    ("a probe of a task without ports", |spec| {
        spec.task.health = Some(HealthCheck::of(Probe::Http { port: name("http"), path: "x y".to_owned() }));
    }),
    ("a probe that takes longer than its interval, and never fails", |spec| {
        let probe = Probe::Command { command: vec![] };
        let check =
            HealthCheck { interval_ms: 50, timeout_ms: 51, failures_max: 0, ..HealthCheck::of(probe) };
        spec.task.health = Some(check);
    }),
    ("a day of grace and of drain delay", |spec| {
        (spec.task.grace_ms, spec.drain_delay_ms) = (86_400_000, 86_400_000);
    }),
    ("no tolerance of silence", |spec| spec.lost_after_ms = Some(0)),
    ("logs of nothing", |spec| (spec.task.log.file_bytes_max, spec.task.log.files_max) = (0, 0)),
    ("no share of traffic", |spec| spec.task.weight = 0),
    ("a pause that begins above its end", |spec| {
        (spec.restart.backoff_initial_ms, spec.restart.backoff_max_ms) = (1000, 999);
    }),
    ("restarts without a pause", |spec| spec.restart.backoff_initial_ms = 0),
    ("waiting for itself, and for another twice", |spec| {
        let after = |job| After { job: name(job), condition: AfterCondition::Succeeded };
        spec.after = vec![after("web"), after("db"), after("db")];
    }),
    ("constraints without sense", |spec| {
        let far = Constraint { preference: Some(101), ..constraint("zone", ConstraintOperator::In, &["a"]) };
        spec.constraints = vec![
            constraint("", ConstraintOperator::Exists, &[]),
            constraint("a b", ConstraintOperator::Exists, &["x"]),
            constraint("zone", ConstraintOperator::In, &[]),
            constraint("cores", ConstraintOperator::GreaterThan, &["many"]),
            constraint("cores", ConstraintOperator::LessThan, &["NaN"]),
            far,
        ];
    }),
    ("constraints that no node meets together, and jobs that no job is", |spec| {
        spec.constraints = vec![
            constraint("rack", ConstraintOperator::In, &["r1"]),
            constraint("cores", ConstraintOperator::GreaterThan, &["8"]),
            constraint("rack", ConstraintOperator::NotIn, &["r1"]),
        ];
        let jobs = vec![
            constraint("app", ConstraintOperator::Exists, &[]),
            constraint("app", ConstraintOperator::Absent, &[]),
        ];
        let attribute = "rack".to_owned();
        spec.affinity = vec![Affinity { kind: AffinityKind::Near, attribute, jobs, preference: None }];
    }),
    ("packages that are none, and one twice", |spec| {
        let packages = ["web/1.4.2", "web", "a/b/c", "web/1.4.2", "/1", "we b/1"];
        spec.task.packages = packages.map(str::to_owned).to_vec();
    }),
    ("cores of its own that are not whole", |spec| {
        spec.task.exclusive_cores = true;
        spec.task.resources.cpu_millis = 1500;
        let resources = Some(Resources { cpu_millis: 500, ..spec.task.resources.clone() });
        spec.overrides.insert(0, TaskOverride { resources, ..TaskOverride::default() });
    }),
    ("helpers without sense", |spec| {
        let helper = |name_of: &str, when| HelperSpec {
            name: name(name_of),
            when,
            command: vec!["run".to_owned()],
            environment: BTreeMap::new(),
            cpu_millis: 1,
            memory_bytes: 1 << 20,
            deadline_ms: None,
        };
        let before = helper("a", HelperPhase::Before);
        spec.task.helpers = vec![
            HelperSpec { command: vec![], cpu_millis: 0, memory_bytes: 1, ..before.clone() },
            HelperSpec { deadline_ms: Some(999), ..helper("b", HelperPhase::After) },
            HelperSpec { deadline_ms: Some(3_600_001), ..helper("c", HelperPhase::Before) },
            HelperSpec { deadline_ms: Some(5_000), ..helper("d", HelperPhase::Beside) },
            HelperSpec {
                environment: BTreeMap::from([("BOROUGH_HELPER".to_owned(), "x".to_owned())]),
                ..before
            },
            HelperSpec {
                command: vec!["run".to_owned(), "${NOPE} ${OWN}".to_owned()],
                ..helper("e", HelperPhase::After)
            },
            HelperSpec {
                environment: BTreeMap::from([("OWN".to_owned(), "x".to_owned())]),
                command: vec!["${OWN}".to_owned()],
                ..helper("f", HelperPhase::After)
            },
            helper("g", HelperPhase::Beside),
            helper("h", HelperPhase::Beside),
        ];
    }),
    ("identities and secrets without sense", |spec| {
        let identity = |name_of: &str, audience: &str, ttl_ms| IdentitySpec {
            name: name(name_of),
            audience: audience.to_owned(),
            ttl_ms,
        };
        spec.task.identities = vec![
            identity("a", "", 29_999),
            identity("a", "two words", 86_400_001),
            identity("b", &"x".repeat(257), 30_000),
            identity("c", "c", 86_400_000),
            identity("d", "d", 60_000),
        ];
        let secret = |name: &str, source: &str| SecretReference {
            name: name.to_owned(),
            source: source.to_owned(),
            form: SecretForm::Variable,
        };
        spec.task.environment.insert("TAKEN".to_owned(), String::new());
        spec.task.secrets = vec![
            secret("A", "../other/key"),
            secret("A", "/etc/passwd"),
            secret("TAKEN", "a//b"),
            secret("1X", "key"),
            secret("BOROUGH_X", ""),
        ];
        spec.task.command = vec!["run".to_owned(), "${A}".to_owned()];
    }),
    ("whole cores that are not whole with a helper", |spec| {
        spec.task.exclusive_cores = true;
        spec.task.resources.cpu_millis = 1_000;
        spec.task.helpers = vec![HelperSpec {
            name: name("logs"),
            when: HelperPhase::Beside,
            command: vec!["ship".to_owned()],
            environment: BTreeMap::new(),
            cpu_millis: 100,
            memory_bytes: 1 << 20,
            deadline_ms: None,
        }];
    }),
    ("a spread over nothing and twice over racks", |spec| {
        let over = |attribute: &str, weight| Spread::preferred(attribute.to_owned(), weight);
        spec.spread = vec![over("rack", 1), over("rack", 100), over("-", 0)];
    }),
    ("a cap of nothing, a skew of nothing, more than all", |spec| {
        let none =
            Spread { max_skew: Some(0), tasks_max: Some(0), ..Spread::preferred("rack".to_owned(), 1) };
        let all = Spread { percent_max: Some(101), ..Spread::preferred("zone".to_owned(), 1) };
        let no_cent = Spread { percent_max: Some(0), ..Spread::preferred("row".to_owned(), 1) };
        spec.spread = vec![none, all, no_cent];
    }),
    ("affinity to nobody, by a wish, near and apart at once", |spec| {
        let jobs = vec![constraint("app", ConstraintOperator::In, &["a"])];
        let near = |kind, jobs: &[Constraint]| Affinity {
            kind,
            attribute: "rack".to_owned(),
            jobs: jobs.to_vec(),
            preference: None,
        };
        let wish = Constraint { preference: Some(3), ..constraint("app", ConstraintOperator::Exists, &[]) };
        spec.affinity = vec![
            near(AffinityKind::Near, &[]),
            near(AffinityKind::Near, &[wish]),
            near(AffinityKind::Near, &jobs),
            Affinity { preference: Some(0), ..near(AffinityKind::Apart, &jobs) },
            near(AffinityKind::Apart, &jobs),
            Affinity { attribute: String::new(), ..near(AffinityKind::Near, &jobs) },
        ];
    }),
    (
        "tolerations of nothing, of a value that is not compared, for a time nobody counts, for a month",
        |spec| {
            let exists = || Toleration {
                key: "a".to_owned(),
                operator: TolerationOperator::Exists,
                value: String::new(),
                effect: Some(TaintEffect::NoExecute),
                evict_after_ms: None,
            };
            spec.tolerations = vec![
                Toleration { key: String::new(), operator: TolerationOperator::Equal, ..exists() },
                Toleration { value: "b".to_owned(), ..exists() },
                Toleration { effect: None, evict_after_ms: Some(1), ..exists() },
                Toleration { evict_after_ms: Some(2_592_000_000), ..exists() },
                Toleration { operator: TolerationOperator::Equal, value: "a\nb".to_owned(), ..exists() },
            ];
        },
    ),
    ("an override of a task that is not there", |spec| {
        spec.overrides.insert(3, TaskOverride { weight: Some(256), ..TaskOverride::default() });
    }),
    ("an override with an empty command and no memory", |spec| {
        let resources = Some(Resources { cpu_millis: 1, ..Resources::default() });
        let own = TaskOverride { command: Some(vec![]), resources, ..TaskOverride::default() };
        spec.overrides.insert(0, own);
    }),
    ("labels on more than a line", |spec| {
        spec.labels.insert("team".to_owned(), "a\nb".to_owned());
        spec.labels.insert(".x".to_owned(), "y".repeat(257));
    }),
    ("more than fits into a value", |spec| spec.task.command.push("x".repeat(90_000))),
];

#[test]
fn every_refusal_names_the_field_its_value_and_what_is_accepted() {
    let mut text = String::from("What a spec is refused for: path: value; accepted: what would be.\n");
    for (label, change) in REFUSED {
        let mut spec = JobSpec { count: 2, ..spec(JobKind::Service) };
        assert_eq!(spec.validate(), Ok(()));
        change(&mut spec);
        writeln!(text, "\n{label}").unwrap();
        for error in spec.validate().expect_err(label) {
            writeln!(text, "    {error}").unwrap();
        }
    }
    expect_file!["golden/refusals.txt"].assert_eq(&text);
}

#[test]
fn defaults_are_admitted_and_so_is_the_edge_of_what_is_legal() {
    let mut edge = spec(JobKind::Batch);
    assert_eq!(edge.validate(), Ok(()));
    edge.count = 0;
    edge.min_member = 4;
    assert_eq!(edge.validate(), Ok(()), "a gang scaled to nothing");
    (edge.count, edge.min_member) = (COUNT_MAX, 0);
    edge.task.ports = vec![port("a", Some(1024)), port("b", Some(65_535)), port("c", None)];
    edge.task.health = Some(HealthCheck::of(Probe::Http { port: name("c"), path: "/?a=b".to_owned() }));
    edge.restart =
        RestartSpec { mode: RestartMode::Never, backoff_initial_ms: 0, backoff_max_ms: 0, ..edge.restart };
    edge.task.resources = gpu(500);
    edge.labels.insert("borough.dev/team_a".to_owned(), "Größe".to_owned());
    edge.task.environment.insert("PORT".to_owned(), "=".to_owned());
    assert_eq!(edge.validate(), Ok(()));
    assert_eq!(edge.notes().len(), 2, "fixed ports are noted");
    assert_eq!(spec(JobKind::Service).notes(), []);
}

#[test]
fn an_answer_has_a_size_however_much_is_wrong() {
    let mut wrong = spec(JobKind::Service);
    wrong.task.environment = (0..5000).map(|each| (format!("{each}"), String::new())).collect();
    let errors = wrong.validate().unwrap_err();
    assert_eq!(errors.len(), 51);
    assert_eq!(errors[50].to_string(), "(and so on): 4950 more errors; accepted: mend those above first");
}

/// One server and four workers, of which three must fit.
fn of_roles() -> JobSpec {
    let role = |role: &str, count, min_member, task| Role { name: name(role), count, min_member, task };
    let big = TaskOverride { resources: Some(gpu(1000)), weight: Some(9), ..TaskOverride::default() };
    let arguments_override =
        TaskOverride { arguments: vec!["--worker".to_owned()], ..TaskOverride::default() };
    let roles = vec![role("server", 1, 1, big), role("worker", 4, 3, arguments_override)];
    let gang = Some(GangSpec { roles, ..GangSpec::default() });
    JobSpec { count: 5, min_member: 4, gang, ..spec(JobKind::Batch) }
}

#[test]
fn roles_share_the_indexes_of_their_job() {
    let mut job = of_roles();
    assert_eq!(job.validate(), Ok(()));
    assert_eq!(job.minimums(5), [(0..1, 1), (1..5, 3)]);
    assert_eq!(job.min_member_default(), 4);
    let role = |index| job.role_of(index).map(|(role, number)| (role.name.to_string(), number));
    assert_eq!(role(0), Some(("server".to_owned(), 0)));
    assert_eq!(role(4), Some(("worker".to_owned(), 3)));
    assert_eq!(role(5), None);
    assert_eq!((&*job.resources_for(0), &*job.resources_for(1)), (&gpu(1000), &job.task.resources));
    assert_eq!((job.weight_for(0), job.weight_for(1)), (9, job.task.weight));
    let worker = job.for_task(2);
    assert_eq!(worker.command.last().unwrap(), "--worker");
    assert_eq!(worker.environment.get("BOROUGH_ROLE").unwrap(), "worker");
    assert_eq!(worker.environment.get("BOROUGH_ROLE_INDEX").unwrap(), "1");
    // What a single task has otherwise goes before its role.
    job.overrides.insert(0, TaskOverride { weight: Some(3), ..TaskOverride::default() });
    assert_eq!((job.weight_for(0), job.for_task(0).weight, &*job.resources_for(0)), (3, 3, &gpu(1000)));
}

#[test]
fn how_many_must_fit_follows_from_the_kind_of_work() {
    let mut job = JobSpec { count: 6, ..spec(JobKind::Batch) };
    assert_eq!((job.min_member_default(), job.minimums(6)), (1, vec![(0..6, 1)]));
    let topology =
        GangTopology { attribute: "rack".to_owned(), domains_min: 1, domains_max: 1, preferred: false };
    job.gang = Some(GangSpec { topology: Some(topology), ..GangSpec::default() });
    assert_eq!(job.min_member_default(), 6);
    job.min_member = 6;
    assert_eq!(job.validate(), Ok(()));
}

#[test]
fn counts_and_priorities_are_checked_alone() {
    let gang = |min_member| JobSpec { min_member, ..spec(JobKind::Batch) };
    let check = |count, min_member| count_check(count, &gang(min_member));
    assert!(check(0, 4).is_ok() && check(4, 4).is_ok() && check(COUNT_MAX, 1).is_ok());
    assert_eq!(check(3, 4).unwrap_err()[0].path, "min_member");
    assert_eq!(check(COUNT_MAX + 1, 1).unwrap_err()[0].path, "count");
    let roles = of_roles();
    assert!(count_check(5, &roles).is_ok());
    assert_eq!(count_check(6, &roles).unwrap_err()[0].path, "count");
    assert!(priority_check(399).is_ok() && priority_check(400).is_err());
}

#[test]
fn a_priority_has_its_band() {
    let bands = [0, 99, 100, 199, 200, 299, 300, 399, u32::MAX].map(band);
    use Band::{Batch, BestEffort, Monitoring, Production};
    assert_eq!(
        bands,
        [BestEffort, BestEffort, Batch, Batch, Production, Production, Monitoring, Monitoring, Monitoring]
    );
}

#[test]
fn a_task_runs_the_job_with_its_own_overrides() {
    let mut job = spec(JobKind::Service);
    job.count = 3;
    job.task.environment = [("A".to_owned(), "job".to_owned()), ("B".to_owned(), "job".to_owned())].into();
    let own = TaskOverride {
        command: Some(vec!["/bin/other".to_owned()]),
        arguments: vec!["-v".to_owned()],
        environment: [("B".to_owned(), "own".to_owned()), ("C".to_owned(), "own".to_owned())].into(),
        resources: Some(gpu(1000)),
        weight: Some(9),
    };
    job.overrides.insert(1, own);
    job.overrides.insert(2, TaskOverride { arguments: vec!["-q".to_owned()], ..TaskOverride::default() });
    assert_eq!(job.for_task(0), job.task);
    let one = job.for_task(1);
    assert_eq!(one.command, ["/bin/other", "-v"]);
    let values: Vec<&str> = one.environment.values().map(String::as_str).collect();
    assert_eq!(values, ["job", "own", "own"]);
    assert_eq!((&one.resources, one.weight), (&gpu(1000), 9));
    assert_eq!(job.for_task(2).command, ["/bin/serve", "-q"]);
    assert_eq!((&*job.resources_for(1), &*job.resources_for(2)), (&gpu(1000), &job.task.resources));
}

#[test]
fn a_diff_names_every_field_that_differs_and_no_other() {
    let old = spec(JobKind::Service);
    let mut new = old.clone();
    new.count = 7;
    new.task.command.push("-v".to_owned());
    new.task.resources.memory_bytes = 1 << 30;
    new.labels.insert("a.b".to_owned(), "c".to_owned());
    new.lost_after_ms = Some(1000);
    let changes: Vec<_> =
        spec_diff(&old, &new).into_iter().map(|change| (change.path, change.old, change.new)).collect();
    let change = |path: &str, old: Option<serde_json::Value>, new| (path.to_owned(), old, Some(new));
    assert_eq!(
        changes,
        [
            change("count", Some(json!(1)), json!(7)),
            change("task.command", Some(json!(["/bin/serve"])), json!(["/bin/serve", "-v"])),
            change("task.resources.memory_bytes", Some(json!(64 << 20)), json!(1 << 30)),
            change("lost_after_ms", None, json!(1000)),
            change("labels[\"a.b\"]", None, json!("c")),
        ]
    );
    assert_eq!(spec_diff(&old, &old), []);
}

#[test]
fn only_count_priority_and_metadata_are_no_update() {
    let old = spec(JobKind::Service);
    let class = |change: fn(&mut JobSpec)| {
        let mut new = old.clone();
        change(&mut new);
        change_class(&old, &new)
    };
    assert_eq!(class(|_| {}), ChangeClass::Nothing);
    assert_eq!(class(|new| new.count = 9), ChangeClass::CountOrPriorityOnly);
    assert_eq!(class(|new| (new.count, new.priority) = (9, 9)), ChangeClass::CountOrPriorityOnly);
    let labelled = |new: &mut JobSpec| drop(new.labels.insert("a".to_owned(), "b".to_owned()));
    assert_eq!(class(labelled), ChangeClass::Metadata);
    assert_eq!(
        class(|new| (new.count, new.labels) = (9, [("a".into(), "b".into())].into())),
        ChangeClass::Metadata
    );
    assert_eq!(class(|new| new.task.weight = 9), ChangeClass::NeedsUpdate);
    assert_eq!(class(|new| (new.count, new.drain_delay_ms) = (9, 9)), ChangeClass::NeedsUpdate);
}

fn changed_specs() -> impl Strategy<Value = JobSpec> {
    let fields = (0u32..3, 0u32..3, 0u64..3, prop::collection::vec("[ab]", 1..4), "[a-c]{0,2}");
    fields.prop_map(|(count, priority, memory, command, label)| {
        let mut spec = JobSpec { count, priority, ..spec(JobKind::Batch) };
        spec.task.resources.memory_bytes = memory;
        spec.task.command = command;
        spec.labels.insert("key".to_owned(), label);
        spec
    })
}

proptest! {
    #[test]
    fn a_diff_is_empty_exactly_where_nothing_has_changed(old in changed_specs(), new in changed_specs()) {
        let diff = spec_diff(&old, &new);
        let class = change_class(&old, &new);
        prop_assert_eq!(diff.is_empty(), class == ChangeClass::Nothing);
        let scaled = |path: &str| path == "count" || path == "priority";
        let applied = diff.iter().all(|change| scaled(&change.path) || change.path.starts_with("labels"));
        prop_assert_eq!(applied, class != ChangeClass::NeedsUpdate);
        let only = diff.iter().all(|change| scaled(&change.path));
        prop_assert_eq!(only, !matches!(class, ChangeClass::Metadata | ChangeClass::NeedsUpdate));
        prop_assert!(diff.iter().all(|change| change.old != change.new));
    }
}
