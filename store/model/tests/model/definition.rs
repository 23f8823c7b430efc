//! What follows from the definition of each field of a job: reading, checking, storing, the schema and the page.
//! `UPDATE_EXPECT=1 cargo test -p borough-model` rewrites `docs/job-file.schema.json` and the tables of
//! `docs/job-files.md`.

use std::path::Path;

use borough_model::federation::{FederationSpec, federated_file_schema};
use borough_model::job::file::{FieldInfo, fields_flat};
use borough_model::job::{JobSpec, spec_diff};
use expect_test::expect_file;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::sample::{example_file, file_spec};

/// The smallest job file in which an example may stand.
fn file() -> Value {
    json!({"name": "job", "count": 2, "task": {"command": ["true"]}})
}

fn validator() -> Validator {
    jsonschema::draft202012::new(&federated_file_schema()).unwrap()
}

fn repository(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Each field of the job and of its task, with a file in which it alone has its example.
fn each_example() -> Vec<(&'static FieldInfo, Value)> {
    let mut all = Vec::new();
    for field in fields_flat(JobSpec::file_fields()) {
        if let Some(example) = field.example {
            let mut file = file();
            file[field.file] = example();
            all.push((field, file));
        }
        let inner = field.inner.filter(|_| field.file == "task").map(fields_flat).unwrap_or_default();
        for inner in inner {
            let Some(example) = inner.example else { continue };
            let mut file = file();
            file["task"][inner.file] = example();
            all.push((inner, file));
        }
    }
    all
}

#[test]
fn every_example_changes_its_field_alone_and_is_stored() {
    let plain = file_spec(&file()).unwrap();
    let all = each_example();
    assert!(all.len() >= 30, "{}", all.len());
    for (field, file) in all {
        let spec = file_spec(&file).unwrap_or_else(|problems| panic!("{}: {problems:?}", field.file));
        let paths: Vec<String> = spec_diff(&plain, &spec).into_iter().map(|change| change.path).collect();
        assert!(!paths.is_empty(), "the example of {} is its default", field.file);
        // The kind has defaults of its own, and devices are chosen beside their amounts.
        let beside = ["kind", "resources"].contains(&field.file);
        let own = |path: &String| path.trim_start_matches("task.").starts_with(field.stored);
        assert!(beside || paths.iter().all(own), "{}: {paths:?}", field.file);
        let bytes = minicbor::to_vec(&spec).unwrap();
        assert_eq!(minicbor::decode::<JobSpec>(&bytes).unwrap(), spec, "{}", field.file);
    }
    file_spec(&example_file()).unwrap();
}

#[test]
fn every_field_says_what_it_takes() {
    for (field, _) in each_example() {
        assert!(!field.value.is_empty() && !field.default.is_empty(), "{}", field.file);
    }
}

#[test]
fn the_schema_takes_every_example_and_every_job_file_here() {
    let validator = validator();
    let mut files: Vec<(String, Value)> =
        each_example().into_iter().map(|(field, file)| (field.file.to_owned(), file)).collect();
    files.push(("all examples".to_owned(), example_file()));
    let golden = "services/cli/src/jobfile/golden/every_field.yaml";
    files.push((golden.to_owned(), yaml(&repository(golden))));
    for (what, file) in files {
        let problems: Vec<String> =
            validator.iter_errors(&file).map(|error| format!("{}: {error}", error.instance_path)).collect();
        assert!(problems.is_empty(), "{what}: {problems:?}");
    }
}

#[test]
fn a_written_file_is_read_as_the_same_spec_and_has_nothing_else() {
    let validator = validator();
    let written = |what: &str, spec: &JobSpec| {
        let file = spec.to_file();
        let again = file_spec(&file).unwrap_or_else(|problems| panic!("{what}: {problems:?}\n{file:#}"));
        assert_eq!(spec_diff(spec, &again), [], "{what}\n{file:#}");
        let problems: Vec<String> = validator.iter_errors(&file).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{what}: {problems:?}");
        file
    };
    let plain = written("plain", &file_spec(&file()).unwrap());
    assert_eq!(
        plain,
        json!({"user": "ada", "name": "job", "kind": "service", "count": 2, "task": {"command": ["true"]}})
    );
    for (field, file) in each_example() {
        let spec = file_spec(&file).unwrap();
        let file = written(field.file, &spec);
        let named = file.get(field.file).is_some() || file["task"].get(field.file).is_some();
        assert!(named || ["user", "name"].contains(&field.file), "{} is not written", field.file);
    }
    written("all examples", &file_spec(&example_file()).unwrap());
    let golden = yaml(&repository("services/cli/src/jobfile/golden/every_field.yaml"));
    written("every field", &file_spec(&golden).unwrap());
    for text in IRREGULAR {
        let mut one = file();
        for (key, value) in yaml(text).as_object().unwrap() {
            one[key] = value.clone();
        }
        let spec = file_spec(&one).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        written(text, &spec);
    }
}

/// Fields in forms that no example has: those whose default follows from another value, and those that no short form
/// can say.
const IRREGULAR: [&str; 26] = [
    "{kind: batch, priority: 0}",
    "{restart: never}",
    "{restart: {attempts: unlimited}}",
    "{restart: {attempts: 0}}",
    "{kind: batch, restart: {attempts: unlimited, backoff: 2m}}",
    "{restart: {backoff: 2m, backoff_max: 3m, reset_after: 1ms}}",
    "{min_member: 0}",
    "{min_member: all}",
    "{gang_topology: rack}",
    "{count: 3, gang_topology: rack, min_member: 2}",
    "{gang_topology: {attribute: rack, exactly: 2, prefer: true}}",
    "{count: 3, roles: [{name: server}, {name: worker, count: 2, min_member: 0, arguments: [x]}]}",
    "{count: 1, roles: [{name: server, resources: {cpu: 3, devices: {gpu: 0.5}}, environment: {A: b}}]}",
    "{after: [{job: seed, condition: finished}]}",
    "{constraints: ['zone in [\"a b\", c]', 'a not in [b, c] prefer 3', 'd < 0.5', 'e exists', 'f absent']}",
    "{constraints: [{attribute: a, operator: in, values: ['x,y', '\"']}, {attribute: b, operator: in, values: ['']}]}",
    "{spread: [{attribute: rack, tasks_max: 2}, {attribute: zone, weight: 50}, {attribute: row, weight: 7}]}",
    "{affinity: [{near: rack, jobs: ['job.name == db'], prefer: 9}]}",
    "{tolerations: [{operator: exists}, {taint: a, value: ''}, {taint: b, effect: no_execute, evict_after: 1s}]}",
    "{preemption: {}}",
    "{overrides: {1: {command: [b], resources: {memory: 2000001}, weight: 2}}}",
    "{task: {command: [a], resources: {cpu: 50m, disk: 1k, disk_rate: 1MiB/s, devices: {gpu: {memory: 1GiB}}}}}",
    "{task: {command: [a], ports: [p, {name: q, number: 8081}], health: {http: {port: p, path: /x}, interval: 1s}}}",
    "{task: {command: [a], ports: [p], health: {tcp: p, timeout: 1s, initial_grace: 0s}, log: {files: 1}}}",
    "{task: {command: [a, 'true', '1', ''], environment: {Y: 'no', Z: \"a\\nb\"}, exclusive_cores: true, resources: {cpu: 2}}}",
    "{labels: {a: ''}, description: 'x: # y', lost_after: 1h, drain_delay: 1ms, queue: a/b}",
];

#[test]
fn the_schema_refuses_what_no_job_file_may_have() {
    let bad = [
        "count: 1",
        "{name: web, task: {}}",
        "{name: Web, task: {command: [a]}}",
        "{name: web, conut: 3, task: {command: [a]}}",
        "{name: web, count: -1, task: {command: [a]}}",
        "{name: web, kind: servce, task: {command: [a]}}",
        "{name: web, priority: high, task: {command: [a]}}",
        "{name: web, drain_delay: 5, task: {command: [a]}}",
        "{name: web, task: {command: sleep 60}}",
        "{name: web, task: {command: [a], resources: {memroy: 1GiB}}}",
        "{name: web, task: {command: [a], resources: {memory: 64 mb}}}",
        "{name: web, task: {command: [a], health: {interval: 5s}}}",
        "{name: web, task: {command: [a], weight: 256}}",
        "{name: web, labels: {.x: y}, task: {command: [a]}}",
        "{name: web, spread: {rack: 101}, task: {command: [a]}}",
        "{name: web, restart: sometimes, task: {command: [a]}}",
    ];
    let validator = validator();
    for text in bad {
        let file = yaml(text);
        assert!(!validator.is_valid(&file), "the schema takes {text}");
        assert!(file_spec(&file).is_err(), "the reader takes {text}");
    }
}

#[test]
fn the_schema_is_that_of_the_definition() {
    jsonschema::draft202012::meta::validate(&federated_file_schema()).unwrap();
    let text = format!("{}\n", serde_json::to_string_pretty(&federated_file_schema()).unwrap());
    expect_file!["../../../../docs/job-file.schema.json"].assert_eq(&text);
}

/// A table in Markdown, one row per field.
fn page_table(fields: &'static [FieldInfo]) -> String {
    let row = |field: &&FieldInfo| format!("| `{}` | {} | {} |\n", field.file, field.value, field.default);
    let rows: String = fields_flat(fields).iter().map(row).collect();
    format!("| field | value | default |\n|---|---|---|\n{rows}")
}

#[test]
fn the_page_has_the_tables_of_the_definition() {
    const END: &str = "<!-- end of fields -->";
    let job = JobSpec::file_fields();
    let task = job.iter().find(|field| field.file == "task").and_then(|field| field.inner).unwrap();
    let mut page = repository("docs/job-files.md");
    let federation = FederationSpec::file_fields();
    let tables = [
        ("<!-- fields of a job -->", job),
        ("<!-- fields of task -->", task),
        ("<!-- fields of federation -->", federation),
    ];
    for (mark, fields) in tables {
        let (before, rest) = page.split_once(mark).expect(mark);
        let (_, after) = rest.split_once(END).expect(END);
        page = format!("{before}{mark}\n{}{END}{after}", page_table(fields));
    }
    expect_file!["../../../../docs/job-files.md"].assert_eq(&page);
}
