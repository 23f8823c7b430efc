//! Job files as people get them wrong: every message has its place, the value, and what is accepted.

use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;
use serde_json::Value;

use std::collections::BTreeMap;

use borough_model::job::file::{FieldInfo, fields_flat};
use borough_model::job::{JobKind, spec_diff};

use super::json::json_read;
use super::yaml::yaml_read;
use super::*;

fn caller() -> Name {
    Name::new("alice").expect("a name")
}

/// What is wrong with a YAML text, as it is shown.
fn yaml_problems(text: &str) -> String {
    let tree = yaml_read(text);
    let problems = tree.and_then(|tree| JobSpec::from_file(&tree, &caller())).expect_err("a bad file");
    JobFileError::Problems { path: "job.yaml".into(), problems }.lines().join("\n")
}

fn json_problems(text: &str) -> String {
    let tree = json_read(text);
    let problems = tree.and_then(|tree| JobSpec::from_file(&tree, &caller())).expect_err("a bad file");
    JobFileError::Problems { path: "job.json".into(), problems }.lines().join("\n")
}

fn yaml_spec(text: &str) -> JobSpec {
    let tree = yaml_read(text).expect("good YAML");
    match JobSpec::from_file(&tree, &caller()) {
        Ok((spec, _)) => spec,
        Err(problems) => panic!("{problems:#?}"),
    }
}

/// A small good job with `extra` in its task.
fn with_task(extra: &str) -> String {
    format!("name: web\ntask:\n  command: [sleep, 60]\n{extra}")
}

fn check(actual: &str, expected: &Expect) {
    expected.assert_eq(actual);
}

#[test]
fn unknown_fields_have_a_place_and_a_suggestion() {
    let text = with_task("  resources:\n    memroy: 64MiB\n    bandwidth: 1\nconut: 3\n");
    check(
        &yaml_problems(&text),
        &expect![[r#"
        job.yaml:5:5: unknown field "memroy" in task.resources, did you mean "memory"?
        job.yaml:6:5: unknown field "bandwidth" in task.resources; accepted: cpu, memory, disk, disk_rate, network_rate, devices
        job.yaml:7:1: unknown field "conut", did you mean "count"?"#]],
    );
}

#[test]
fn wrong_units_are_shown_with_what_is_accepted() {
    let text = with_task(
        "  resources:\n    cpu: 500 cores\n    memory: 64 mb\n    disk: -1GiB\n    disk_rate: 10MiB\n  grace: 5\n",
    );
    check(
        &yaml_problems(&text),
        &expect![[r#"
            job.yaml:5:10: task.resources.cpu: "500 cores" has the unit "cores", which is not one of this amount; accepted: cores such as 2, 0.5 or 500m, in steps of one thousandth
            job.yaml:6:13: task.resources.memory: "64 mb" has the unit "mb", did you mean "64 MB"?; accepted: bytes such as 1048576, 512k, 64Mi, 64MiB or 1.5G (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)
            job.yaml:7:11: task.resources.disk: "-1GiB" is negative; accepted: bytes such as 1048576, 512k, 64Mi, 64MiB or 1.5G (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)
            job.yaml:8:16: task.resources.disk_rate: "10MiB" has the unit "MiB", which is not one of this amount; accepted: bytes per second such as 1048576, 512k/s or 10MiB/s (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)
            job.yaml:9:10: task.grace: "5" has no unit; accepted: a duration such as 250ms, 5s, 2m or 1h30m"#]],
    );
}

#[test]
fn amounts_that_are_no_amounts_are_refused() {
    let text = with_task(
        "  resources:\n    cpu: .nan\n    memory: .inf\n    disk: 99999999999999999999\n    network_rate: 1e400\n    devices: {gpu: 0.0001}\n",
    );
    check(
        &yaml_problems(&text),
        &expect![[r#"
        job.yaml:5:10: task.resources.cpu: ".nan" is not finite; accepted: cores such as 2, 0.5 or 500m, in steps of one thousandth
        job.yaml:6:13: task.resources.memory: ".inf" is not finite; accepted: bytes such as 1048576, 512k, 64Mi, 64MiB or 1.5G (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)
        job.yaml:7:11: task.resources.disk: "99999999999999999999" is too large; accepted: bytes such as 1048576, 512k, 64Mi, 64MiB or 1.5G (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)
        job.yaml:8:19: task.resources.network_rate: ".inf" is not finite; accepted: bytes per second such as 1048576, 512k/s or 10MiB/s (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)
        job.yaml:9:20: task.resources.devices["gpu"]: "0.0001" is finer than the smallest unit; accepted: a number of devices such as 1 or 0.5, in steps of one thousandth"#]],
    );
}

#[test]
fn overflowing_amounts_are_refused() {
    let text = with_task("  resources:\n    memory: 17000000TiB\n    cpu: 18446744073709551616\n");
    check(
        &yaml_problems(&text),
        &expect![[r#"
        job.yaml:5:13: task.resources.memory: "17000000TiB" is too large; accepted: bytes such as 1048576, 512k, 64Mi, 64MiB or 1.5G (k M G T P by 1000, Ki Mi Gi Ti Pi by 1024)
        job.yaml:6:10: task.resources.cpu: "18446744073709551616" is too large; accepted: cores such as 2, 0.5 or 500m, in steps of one thousandth"#]],
    );
}

#[test]
fn a_billion_tasks_are_refused_and_none_is_legal() {
    check(
        &yaml_problems(&with_task("count: 1000000000\n")),
        &expect!["job.yaml:4:8: count: 1000000000; accepted: 0 to 100000 tasks; larger work is several jobs"],
    );
    check(
        &yaml_problems(&with_task("count: 5000000000\n")),
        &expect!["job.yaml:4:8: count: 5000000000; accepted: a whole number of tasks from 0 to 100000"],
    );
    check(
        &yaml_problems(&with_task("count: -1\n")),
        &expect!["job.yaml:4:8: count: -1; accepted: a whole number of tasks from 0 to 100000"],
    );
    check(
        &yaml_problems(&with_task("count: 1.5\n")),
        &expect!["job.yaml:4:8: count: 1.5; accepted: a whole number of tasks from 0 to 100000"],
    );
    assert_eq!(yaml_spec(&with_task("count: 0\n")).count, 0);
}

#[test]
fn bad_names_are_refused() {
    let text = "name: My_Job\nuser: -x\ntask:\n  command: [sleep]\n  ports: [HTTP, a b]\nafter: ['']\n";
    check(
        &yaml_problems(text),
        &expect![[r#"
        job.yaml:1:7: name: the name "My_Job" has 'M' at position 1; accepted: a-z, 0-9 and -, starting with a letter, not ending with -
        job.yaml:2:7: user: the name "-x" has '-' at position 1; accepted: a-z, 0-9 and -, starting with a letter, not ending with -
        job.yaml:5:11: task.ports[0]: the name "HTTP" has 'H' at position 1; accepted: a-z, 0-9 and -, starting with a letter, not ending with -
        job.yaml:5:17: task.ports[1]: the name "a b" has ' ' at position 2; accepted: a-z, 0-9 and -, starting with a letter, not ending with -
        job.yaml:6:9: after[0]: the name "" is empty; accepted: 1 to 63 of a-z, 0-9 and -, starting with a letter"#]],
    );
}

#[test]
fn duplicate_names_are_refused() {
    check(
        &yaml_problems(&with_task("  ports: [http, admin, http]\n")),
        &expect![[r#"job.yaml:4:24: task.ports[2]: "http"; accepted: each name once"#]],
    );
}

#[test]
fn duplicate_fields_are_refused() {
    check(
        &yaml_problems(&with_task("count: 1\ncount: 2\n")),
        &expect![[r#"job.yaml:5:1: field "count" stands twice, first on line 4; accepted: each once"#]],
    );
    let text =
        "{\n  \"name\": \"a\",\n  \"task\": {\"command\": [\"a\"], \"command\": []},\n  \"name\": \"b\"\n}";
    check(
        &json_problems(text),
        &expect![[r#"
        job.json:3:30: field "command" stands twice, first on line 3; accepted: each once
        job.json:4:3: field "name" stands twice, first on line 2; accepted: each once"#]],
    );
}

#[test]
fn reserved_and_impossible_ports_are_refused() {
    check(
        &yaml_problems(&with_task("  ports: {http: 80, admin: 8080}\n")),
        &expect![
            "job.yaml:4:17: task.ports[\"http\"]: 80; accepted: 1024 to 65535 (lower ones are reserved), or auto: the scheduler hands one out"
        ],
    );
    check(
        &yaml_problems(&with_task("  ports: [{name: http, number: 70000}]\n")),
        &expect![
            "job.yaml:4:32: task.ports[0].number: 70000; accepted: 1024 to 65535, or auto: the scheduler hands one out"
        ],
    );
}

#[test]
fn health_checks_name_a_port_and_one_probe() {
    let text = with_task("  ports: [http]\n  health: {http: {port: htpt}, interval: 5}\n");
    check(
        &yaml_problems(&text),
        &expect![[r#"
            job.yaml:5:25: task.health.http.port: htpt; accepted: one of the task's ports: http
            job.yaml:5:42: task.health.interval: "5" has no unit; accepted: a duration such as 250ms, 5s, 2m or 1h30m"#]],
    );
    let text = with_task("  ports: [http]\n  health: {http: {port: htpt, path: x}, interval: 5ms}\n");
    check(
        &yaml_problems(&text),
        &expect![[r#"
            job.yaml:5:25: task.health.http.port: htpt; accepted: one of the task's ports: http
            job.yaml:5:37: task.health.http.path: "x"; accepted: a path such as /healthz, in printable ASCII without spaces
            job.yaml:5:51: task.health.interval: 5ms; accepted: 100ms to 1h"#]],
    );
    check(
        &yaml_problems(&with_task("  health: {interval: 5s}\n")),
        &expect!["job.yaml:4:11: task.health: has no probe; accepted: one of http, tcp and command"],
    );
    check(
        &yaml_problems(&with_task("  health: {tcp: http, http: http}\n")),
        &expect!["job.yaml:4:11: task.health: has several probes; accepted: one of http, tcp and command"],
    );
}

#[test]
fn missing_fields_are_named() {
    check(
        &yaml_problems("count: 3\n"),
        &expect![[r#"
        job.yaml:1:1: field "name" is missing; accepted: a name such as web
        job.yaml:1:1: field "task" is missing; accepted: a map with at least a command"#]],
    );
    check(
        &yaml_problems("name: web\ntask: {}\n"),
        &expect![[
            r#"job.yaml:2:7: field "command" is missing in task; accepted: a list of the program and its arguments, such as [sleep, 60]"#
        ]],
    );
    for (text, given) in [("null", "null"), ("[1, 2]", "a list")] {
        let accepted = "a map with at least name and task; the fields: borough explain";
        assert_eq!(yaml_problems(text), format!("job.yaml:1:1: the file: {given}; accepted: {accepted}"));
    }
    // Where few know what is accepted, the message has it.
    let problems = yaml_problems("name: web\ntask: {command: [a]}\nzzzzzz: 1\n");
    let named = |field: &FieldInfo| problems.contains(field.file);
    assert!(fields_flat(JobSpec::file_fields()).into_iter().all(named), "{problems}");
    check(
        &json_problems("{\"name\": \"web\", \"task\": {\"command\": []}}"),
        &expect!["job.json:1:37: task.command: []; accepted: a program and its arguments"],
    );
}

#[test]
fn values_of_another_kind_are_refused() {
    let text = "name: [web]\nkind: servce\npriority: high\ntask:\n  command: sleep 60\n  environment: {DEBUG: true}\nconstraints: [rack is r1]\nrestart: sometimes\noverrides: {first: {}}\n";
    check(
        &yaml_problems(text),
        &expect![[r#"
            job.yaml:1:7: name: a list; accepted: a text
            job.yaml:2:7: kind: "servce", did you mean "service"?; accepted: service, batch, daemon, alloc_set
            job.yaml:3:11: priority: "high"; accepted: 0 to 399, or best_effort, batch, production or monitoring
            job.yaml:5:12: task.command: "sleep 60"; accepted: a list of the program and its arguments, such as [sleep, 60]
            job.yaml:6:24: task.environment["DEBUG"]: true; accepted: a text; in quotes where true is meant as one
            job.yaml:7:15: constraints[0]: "rack is r1"; accepted: ATTRIBUTE in [A, B], not in [A, B], == A, != A, > 1, < 1, exists or absent, and at the end `prefer 1` to `prefer 100` where it is a wish
            job.yaml:8:10: restart: "sometimes"; accepted: always, on_failure, never
            job.yaml:9:20: overrides["first"]: the key is no task's index; accepted: whole numbers from 0"#]],
    );
}

#[test]
fn weights_that_are_no_number_are_refused() {
    let job = "name: web\ntask: {command: [x]}\n";
    for weight in [".nan", ".inf", "-.inf", "1e400", "-1", "1.5", "NaN", "101.0"] {
        let problems = yaml_problems(&format!("{job}spread: {{rack: {weight}}}\n"));
        assert!(problems.contains("accepted: a weight of 1 to 100"), "{weight}: {problems}");
        let problems = yaml_problems(&format!(
            "{job}affinity: [{{near: zone, jobs: [job.name == db], prefer: {weight}}}]\n"
        ));
        assert!(problems.contains("accepted: a weight of 1 to 100"), "{weight}: {problems}");
        let problems = yaml_problems(&format!("{job}constraints: ['rack == a prefer {weight}']\n"));
        assert!(problems.contains("`prefer 1` to `prefer 100`"), "{weight}: {problems}");
    }
    let problems = json_problems("{\"name\": \"web\", \"spread\": {\"rack\": 1e999}}");
    assert!(problems.contains("weight of 1 to 100"), "{problems}");
}

#[test]
fn broken_syntax_has_a_place() {
    check(
        &yaml_problems("name: web\ntask:\n  command: [sleep\n"),
        &expect!["job.yaml:3:12: a bracket is not closed, or another one closes it"],
    );
    check(
        &yaml_problems("name: web\n\tcount: 1\n"),
        &expect!["job.yaml:2:1: a tab cannot indent YAML; use spaces"],
    );
    check(
        &json_problems("{\n  \"name\": \"web\",\n}"),
        &expect!["job.json:3:1: expected a field name in double quotes"],
    );
    check(&json_problems("{\"count\": 01}"), &expect![[r#"job.json:1:11: "01" is no JSON number"#]]);
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (from, to) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let list = format!("*{from}, ").repeat(10);
        text.push_str(&format!("{to}: &{to} [{}]\n", list.trim_end_matches(", ")));
    }
    let problems = yaml_problems(&text);
    check(&problems, &expect!["job.yaml:6:8: more than 200000 values once its aliases are expanded"]);
}

#[test]
fn every_field_is_read() {
    let spec = yaml_spec(include_str!("golden/every_field.yaml"));
    let plain = JobSpec::defaults(caller(), caller(), spec.kind, Vec::new());
    let changes = spec_diff(&plain, &spec).into_iter();
    let changes: BTreeMap<String, Option<Value>> = changes.map(|change| (change.path, change.new)).collect();
    let spec = serde_json::to_string_pretty(&changes).unwrap();
    expect_file!["golden/every_field.json"].assert_eq(&spec);
}

#[test]
fn the_starter_is_a_good_job() {
    let text = starter();
    let spec = yaml_spec(&text);
    assert_eq!(spec.count, 2);
    // What is only a comment in it is right as well, apart from being in conflict with what is not.
    let field = |line: &str| {
        let line = line.strip_prefix("# ").unwrap_or(line);
        line.split_once("# ").map_or(line, |(before, _)| before).to_owned()
    };
    for line in text.lines().filter(|line| line.starts_with("# ") && line.contains(": ")) {
        let line = field(line);
        let known = fields_flat(JobSpec::file_fields());
        let stands = |name: &str| text.lines().any(|line| line.starts_with(&format!("{name}:")));
        if known.iter().any(|field| line.starts_with(&format!("{}:", field.file)) && !stands(field.file)) {
            yaml_spec(&with_task(&format!("count: 2\n{line}\n")));
        }
    }
}

#[test]
fn the_starter_of_each_kind_is_a_good_job_and_names_its_commands() {
    use clap::ValueEnum as _;
    for kind in StarterKind::value_variants() {
        let text = starter_of(*kind);
        let (spec, notes) = JobSpec::from_file(&yaml_read(text).unwrap(), &caller()).unwrap();
        let has_count = spec.kind != JobKind::Daemon;
        assert!(notes.is_empty() && (spec.count > 0) == has_count, "{kind:?}: {notes:?}");
        for command in ["job validate", "job plan", "job run", "explain"] {
            assert!(text.contains(&format!("borough {command}")), "{kind:?} does not name {command}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let _yaml = yaml_read(&text).and_then(|tree| JobSpec::from_file(&tree, &caller()));
        let _json = json_read(&text).and_then(|tree| JobSpec::from_file(&tree, &caller()));
    }

    /// A good file with one stretch replaced: never a panic, and what is refused has a message.
    #[test]
    fn no_mutation_panics(at in 0_usize..2000, length in 0_usize..8, with in "[ -~\\n]{0,6}") {
        let mut text = starter();
        let at = at % text.len();
        let end = (at + length).min(text.len());
        text.replace_range(at..end, &with);
        if let Err(problems) = yaml_read(&text).and_then(|tree| JobSpec::from_file(&tree, &caller())) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().all(|problem| !problem.message.is_empty()));
        }
    }
}

#[test]
fn the_topology_of_a_gang_is_read() {
    let spec = |text: &str| yaml_spec(&with_task(text));
    let gang = spec("count: 6\ngang_topology: rack\n");
    assert_eq!((gang.count, gang.min_member), (6, 6));
    let gang = spec("count: 6\nmin_member: 4\ngang_topology: {attribute: rack, exactly: 2, prefer: true}\n");
    let topology = gang.gang_topology().unwrap();
    assert_eq!((gang.min_member, topology.domains_min, topology.domains_max), (4, 2, 2));
    assert!(topology.preferred);
    assert_eq!(spec("count: 6\nmin_member: all\n").min_member, 6);
    assert_eq!(spec("count: 6\n").min_member, 1);
    let roles = "roles: [{name: server}, {name: worker, count: 4, min_member: 3, resources: {cpu: 2}}]\n";
    let job = spec(roles);
    assert_eq!((job.count, job.min_member, job.roles().len()), (5, 4, 2));
    assert_eq!((job.resources_for(0).cpu_millis, job.resources_for(4).cpu_millis), (100, 2_000));
    check(
        &yaml_problems(&with_task("count: 3\nmin_member: 4\n")),
        &expect!["job.yaml:5:13: min_member: 4; accepted: at most the count, 3; 0 or 1 is no gang"],
    );
    check(
        &yaml_problems(&with_task("count: 3\ngang_topology: {attribute: rack, at_most: 1, exactly: 2}\n")),
        &expect!["job.yaml:5:16: gang_topology: a map; accepted: at_most or exactly, not both"],
    );
    check(
        &yaml_problems(&with_task("count: 4\nroles: [{name: a}, {name: a, count: 2, min_member: 3}]\n")),
        &expect![[r#"
            job.yaml:4:8: count: 4; accepted: none, or the sum over the roles, 3
            job.yaml:5:27: roles[1].name: "a"; accepted: each name once
            job.yaml:5:52: roles[1].min_member: 3; accepted: at most the role's count, 2"#]],
    );
}

#[test]
fn yaml_is_refused_in_words_of_job_files() {
    let two = format!("{}---\n{}", with_task(""), with_task(""));
    let one = "a second YAML document begins here; accepted: one job, so put each into a file of its own";
    assert!(yaml_problems(&two).ends_with(one), "{}", yaml_problems(&two));
    check(
        &yaml_problems("name: *nobody\n"),
        &expect!["job.yaml:1:7: the alias names no anchor that stands before it"],
    );
    check(
        &yaml_problems("name: a\n\ttask: b\n"),
        &expect!["job.yaml:2:1: a tab cannot indent YAML; use spaces"],
    );
}

/// A field that cannot be read hides no other problem, and none is made up for want of it.
#[test]
fn a_field_that_cannot_be_read_hides_no_other_problem() {
    let text = "name: web\ncount: many\nmin_member: 3\nprioriti: 7\ndrain_delay: 9999999999d\nlost_after: 1ms\n\
                task:\n  command: [a]\n  weight: 900\n  health: {tcp: http, interval: 1x, timeout: 20s}\n  ports: [http]\n";
    check(
        &yaml_problems(text),
        &expect![[r#"
            job.yaml:2:8: count: "many"; accepted: a whole number of tasks from 0 to 100000
            job.yaml:4:1: unknown field "prioriti", did you mean "priority"?
            job.yaml:5:14: drain_delay: 9999999999d; accepted: 0s to 1h
            job.yaml:6:13: lost_after: 1ms; accepted: 1s to 24h
            job.yaml:9:11: task.weight: 900; accepted: 1 to 255
            job.yaml:10:33: task.health.interval: "1x" has the unit "x"; accepted: a duration such as 250ms, 5s, 2m or 1h30m"#]],
    );
}

#[test]
fn values_are_shown_as_they_were_typed() {
    let text =
        with_task("  grace: 9999999999d\n  resources: {memory: 1k, cpu: 1500m}\n  exclusive_cores: true\n");
    check(
        &yaml_problems(&text),
        &expect![[r#"
        job.yaml:4:10: task.grace: 9999999999d; accepted: 0s to 1h
        job.yaml:5:23: task.resources.memory: 1k; accepted: at least 1MiB
        job.yaml:5:32: task.resources.cpu: 1500m; accepted: whole cores, since they are to be its own"#]],
    );
}

#[test]
fn no_error_blames_a_field_that_follows_from_others() {
    check(
        &yaml_problems(&with_task("roles: [{name: w, count: 3, min_member: 9}]\n")),
        &expect!["job.yaml:4:41: roles[0].min_member: 9; accepted: at most the role's count, 3"],
    );
}

#[test]
fn variables_that_no_task_has_are_refused() {
    let text = "name: web\ntask:\n  command: [a, '${NOPE}', '${PORT_HTTP} ${PORT} ${OWN} ${BOROUGH_INDEX} ${HOME} $${NOPE} ${X:-1}', '${LATER}']\n  \
                environment: {OWN: x}\n  ports: [http]\noverrides: {0: {arguments: ['${PORT_ADMIN}'], environment: {LATER: y}}}\n";
    check(
        &yaml_problems(text),
        &expect![[r#"
        job.yaml:3:16: task.command[1]: ${NOPE}; accepted: a variable of the task, its ports or Borough's; a plain one is written $${NOPE}
        job.yaml:6:29: overrides[0].arguments[0]: ${PORT_ADMIN}; accepted: a variable of the task, its ports or Borough's; a plain one is written $${PORT_ADMIN}"#]],
    );
}

#[tokio::test]
async fn what_is_no_file_is_refused_with_its_kind() {
    let directory = tempfile::tempdir().expect("a directory");
    let options =
        LoadOptions { caller: caller(), ext_str: Vec::new(), tla_str: Vec::new(), evaluator: "none".into() };
    let refused = async |path: &Path| load(path, &options).await.expect_err("no file").lines().join("\n");
    let path = |name: &str| directory.path().join(name);
    let made = std::process::Command::new("mkfifo").arg(path("fifo.yaml")).status().expect("mkfifo");
    assert!(made.success());
    std::fs::create_dir(path("dir.yaml")).expect("a directory");
    std::os::unix::fs::symlink("/dev/zero", path("zero.yaml")).expect("a link");
    let _socket = std::os::unix::net::UnixListener::bind(path("socket.yaml")).expect("a socket");
    std::fs::write(path("bytes.yaml"), b"name: web\n# \xff\n").expect("a file");
    for (name, kind) in
        [("fifo.yaml", "FIFO"), ("dir.yaml", "directory"), ("zero.yaml", "device"), ("socket.yaml", "socket")]
    {
        let text = refused(&path(name)).await;
        assert!(text.ends_with(&format!("{name} is a {kind}, not a job file")), "{text}");
    }
    assert!(refused(&path("bytes.yaml")).await.contains("bytes.yaml:2:3: a byte that is no UTF-8 text; "));
    std::fs::write(path("a\nb.yaml"), "name: web\n").expect("a file");
    let text = refused(&path("a\nb.yaml")).await;
    assert!(text.contains("a\\nb.yaml:1:1: ") && text.lines().count() == 1, "{text}");
}

#[tokio::test]
async fn a_profile_that_no_scheduler_knows_is_refused_with_the_rest() {
    let directory = tempfile::tempdir().expect("a directory");
    let options =
        LoadOptions { caller: caller(), ext_str: Vec::new(), tla_str: Vec::new(), evaluator: "none".into() };
    let path = directory.path().join("job.yaml");
    std::fs::write(&path, with_task("  weight: 900\nprofile: besst-fit\n")).expect("a file");
    let lines = load(&path, &options).await.expect_err("no such profile").lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("task.weight: 900"), "{lines:?}");
    assert!(lines[1].contains(":5:10: profile: ") && lines[1].contains("mean \"best-fit\"?"), "{lines:?}");
    std::fs::write(&path, with_task("profile: best-fit\n")).expect("a file");
    assert!(load(&path, &options).await.is_ok());
}
