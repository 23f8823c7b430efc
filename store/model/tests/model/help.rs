//! The help on every field is true: its default is what a file without it stands for, and its bounds are those of the
//! reader and the check.

use borough_model::job::defaults::PROGRESS_DEADLINE_MS;
use borough_model::job::file::{FieldHelp, duration_ms, field_help};
use borough_model::resource::bytes_parse;
use serde_json::{Value, json};

use crate::sample::file_spec;

/// Files in which fields may stand that are not of the job or of its task, and the place of the map that has them.
const PLACES: [(&str, &str, &str); 20] = [
    ("after", "{after: [{job: seed}]}", "/after/0"),
    ("constraints", "{constraints: [{attribute: a, operator: in, values: [x]}]}", "/constraints/0"),
    ("spread", "{spread: [{attribute: rack}]}", "/spread/0"),
    ("affinity", "{affinity: [{apart: rack, jobs: ['a == b']}]}", "/affinity/0"),
    ("gang_topology", "{gang_topology: {attribute: rack}, count: 64}", "/gang_topology"),
    (
        "affinity.jobs",
        "{affinity: [{apart: rack, jobs: [{attribute: a, operator: in, values: [x]}]}]}",
        "/affinity/0/jobs/0",
    ),
    ("tolerations", "{tolerations: [{taint: a, effect: no_execute}]}", "/tolerations/0"),
    ("roles", "{roles: [{name: one, count: 100000}]}", "/roles/0"),
    ("roles.resources", "{roles: [{name: one, resources: {}}]}", "/roles/0/resources"),
    (
        "roles.resources.devices",
        "{roles: [{name: one, resources: {devices: {gpu: {}}}}]}",
        "/roles/0/resources/devices/gpu",
    ),
    ("overrides", "{overrides: {0: {}}}", "/overrides/0"),
    ("overrides.resources", "{overrides: {0: {resources: {}}}}", "/overrides/0/resources"),
    (
        "overrides.resources.devices",
        "{overrides: {0: {resources: {devices: {gpu: {}}}}}}",
        "/overrides/0/resources/devices/gpu",
    ),
    (
        "task.resources.devices",
        "{task: {command: [a], resources: {devices: {gpu: {}}}}}",
        "/task/resources/devices/gpu",
    ),
    ("task.ports", "{task: {command: [a], ports: [{name: p}]}}", "/task/ports/0"),
    ("task.health", "{task: {command: [a], health: {command: [check], interval: 1h}}}", "/task/health"),
    (
        "task.health.http",
        "{task: {command: [a], ports: [{name: p}], health: {http: {port: p}}}}",
        "/task/health/http",
    ),
    (
        "task.helpers",
        "{task: {command: [a], helpers: [{name: h, when: before, command: [b]}]}}",
        "/task/helpers/0",
    ),
    ("task.identities", "{task: {command: [a], identities: [{name: i}]}}", "/task/identities/0"),
    ("task.secrets", "{task: {command: [a], secrets: [{name: S, source: s}]}}", "/task/secrets/0"),
];
/// Files for the bounds of a field that other fields of the same file limit too.
const BESIDE: [(&str, &str); 7] = [
    ("update.canaries", "{count: 50000}"),
    ("update.auto_promote", "{update: {canaries: 1}}"),
    ("restart.backoff", "{restart: {backoff_max: 1h}}"),
    ("restart.backoff_max", "{restart: {backoff: 10ms}}"),
    ("min_member", "{count: 100000}"),
    ("update.unavailable_max", "{update: {surge_max: 1}}"),
    ("task.health.interval", "{task: {command: [a], health: {command: [check], timeout: 1ms}}}"),
];
/// Defaults that are no value, and why: they follow from other fields, from the cell or from the user.
const IN_WORDS: [&str; 43] = [
    "user",
    "priority",
    "min_member",
    "restart",
    "restart.mode",
    "restart.attempts",
    "lost_after",
    "scheduler",
    "profile",
    "gang_topology",
    "roles",
    "queue",
    "preemption",
    "preemption.notice_max",
    "preemption.down_max",
    "update",
    "update.unavailable_max",
    "update.unavailable_percent_max",
    "update.surge_max",
    "update.surge_percent_max",
    "update.disruptions_max",
    "update.resize_signal",
    "constraints.prefer",
    "affinity.prefer",
    "spread.weight",
    "tolerations.taint",
    "tolerations.value",
    "tolerations.operator",
    "tolerations.effect",
    "tolerations.evict_after",
    "roles.min_member",
    "task.working_directory",
    "task.ports.number",
    "task.health",
    "task.health.timeout",
    "task.within",
    "task.health.http.path",
    "task.resources.devices",
    "task.helpers",
    "task.helpers.deadline",
    "task.identities",
    "task.identities.audience",
    "task.secrets",
];
/// Numbers and durations that may be absent altogether: nothing then limits what they limit.
const NO_LIMIT: [&str; 8] = [
    "spread.max_skew",
    "spread.tasks_max",
    "spread.percent_max",
    "gang_topology.at_most",
    "gang_topology.exactly",
    "task.resources.devices.memory",
    "roles.resources.devices.memory",
    "overrides.resources.devices.memory",
];

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// A file with the field `path` set to `value`, or without it.
fn file(path: &str, value: Option<Value>) -> Value {
    let (outer, name) = path.rsplit_once('.').unwrap_or(("", path));
    let place = PLACES.iter().find(|(place, ..)| *place == outer);
    let mut file = json!({"name": "job", "count": 2, "task": {"command": ["true"]}});
    let beside = BESIDE.iter().find(|(beside, _)| *beside == path).map(|(_, text)| *text);
    let more = beside.or_else(|| place.map(|(_, text, _)| *text)).map(yaml).unwrap_or_default();
    if more.get("roles").is_some() {
        file.as_object_mut().unwrap().remove("count");
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        file[key] = value.clone();
    }
    let pointer = place.map_or_else(
        || outer.split('.').filter(|part| !part.is_empty()).map(|part| format!("/{part}")).collect(),
        |(_, _, pointer)| (*pointer).to_owned(),
    );
    let mut map = &mut file;
    for part in pointer.split('/').skip(1) {
        map = match part.parse::<usize>() {
            Ok(index) if map.is_array() => &mut map[index],
            _ => &mut map[part],
        };
    }
    if map.is_null() {
        *map = json!({});
    }
    let map = map.as_object_mut().unwrap_or_else(|| panic!("{path}: no map at {pointer}"));
    match value {
        Some(value) => drop(map.insert(name.to_owned(), value)),
        None => drop(map.remove(name)),
    }
    // One of several.
    if path == "affinity.near" {
        map.remove("apart");
    }
    file
}

/// Fields that stand in every job, role or override alike are looked at once.
fn fields(all: &FieldHelp) -> Vec<&FieldHelp> {
    all.below().into_iter().filter(|field| !field.path.starts_with("task.health.tcp")).collect()
}

#[test]
fn a_default_is_what_a_file_without_the_field_stands_for() {
    let all = field_help("").unwrap();
    let mut wrong = Vec::new();
    for field in fields(&all) {
        let (path, default) = (field.path.as_str(), field.default.as_str());
        if field.required {
            continue;
        }
        if path == "progress_deadline" {
            // Those who wait apply it, and the spec keeps that nobody has said it.
            assert_eq!(duration_ms(default), Ok(PROGRESS_DEADLINE_MS));
            continue;
        }
        if let Some(value) = field.default_value() {
            let without = file_spec(&file(path, None));
            let with = file_spec(&file(path, Some(value.clone())));
            if with.is_err() || with != without {
                wrong.push(format!("{path}: with {value} {with:?}\n  without it {without:?}"));
            }
            continue;
        }
        let is_amount = ["a whole number", "a duration", "bytes", "cores", "true or false"]
            .iter()
            .any(|kind| field.kind.starts_with(kind));
        let known = match default {
            "" => false,
            "none" => !is_amount || NO_LIMIT.contains(&path),
            // An override takes over what the job has.
            "the job's" => path.starts_with("overrides.") || path.starts_with("roles."),
            _ => IN_WORDS.contains(&path),
        };
        if !known {
            wrong.push(format!("{path} <{}>: {default:?} is no value that its type takes", field.kind));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let gone: Vec<&&str> = IN_WORDS.iter().filter(|path| field_help(path).is_err()).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

/// The values at the bounds that a type names, and those just beyond them.
#[derive(Debug, Default)]
struct Bounds {
    within: Vec<Value>,
    beyond: Vec<Value>,
}

fn bounds_of(kind: &str) -> Option<Bounds> {
    if let Some(bounds) = kind.strip_prefix("a duration, ") {
        let (least, most) = bounds.split_once(" to ")?;
        let (least, most) = (duration_ms(least).unwrap(), duration_ms(most).unwrap());
        let of = |ms: u64| Value::from(format!("{ms}ms"));
        let below = least.checked_sub(1).map(of);
        return Some(Bounds {
            within: vec![of(least), of(most)],
            beyond: below.into_iter().chain([of(most + 1)]).collect(),
        });
    }
    if let Some(bounds) = kind.strip_prefix("bytes, ").filter(|rest| rest.contains(" to ")) {
        let (least, most) = bounds.split_once(" to ")?;
        let (least, most) = (bytes_parse(least).unwrap(), bytes_parse(most).unwrap());
        return Some(Bounds {
            within: vec![least.into(), most.into()],
            beyond: vec![(least - 1).into(), (most + 1).into()],
        });
    }
    if let Some(bounds) = kind.strip_prefix("a whole number, ") {
        let (least, rest) = bounds.split_once(" to ")?;
        let most: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let (least, most): (i64, i64) = (least.parse().unwrap(), most.parse().unwrap());
        return Some(Bounds {
            within: vec![least.into(), most.into()],
            beyond: vec![(least - 1).into(), (most + 1).into()],
        });
    }
    let least = kind.strip_prefix("a whole number from ")?;
    let least: i64 = least.split(' ').next()?.parse().unwrap();
    Some(Bounds { within: vec![least.into(), u32::MAX.into()], beyond: vec![(least - 1).into()] })
}

#[test]
fn a_field_takes_what_its_bounds_say_and_nothing_beyond_them() {
    let all = field_help("").unwrap();
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for field in fields(&all) {
        let Some(bounds) = bounds_of(&field.kind) else {
            assert!(!field.kind.contains(" up to "), "{}: {}", field.path, field.kind);
            continue;
        };
        tried += 1;
        for value in bounds.within {
            if let Err(problems) = file_spec(&file(&field.path, Some(value.clone()))) {
                wrong.push(format!("{} <{}> refuses {value}: {problems:?}", field.path, field.kind));
            }
        }
        for value in bounds.beyond {
            if file_spec(&file(&field.path, Some(value.clone()))).is_ok() {
                wrong.push(format!("{} <{}> takes {value}", field.path, field.kind));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried >= 30, "{tried}");
}

#[test]
fn help_on_a_field_points_nowhere_else() {
    for field in field_help("").unwrap().below() {
        for text in [&field.meaning, &field.accepted, &field.default] {
            assert!(!text.to_lowercase().contains("see below"), "{}: {text}", field.path);
        }
    }
}
