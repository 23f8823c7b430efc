//! Job files with several defects. Each defect is reported, whatever else is wrong with the file.

use borough_model::Name;
use borough_model::job::JobSpec;
use borough_model::job::file::{TreeNode, TreeValue};
use serde_json::{Value, json};

/// A defect: the place that gets a bad value, and what the answer must have.
struct Defect {
    /// A JSON pointer. Defects at the same place, or at one within the other, depend on each other.
    at: &'static str,
    value: Value,
    told: &'static str,
}

fn defect(at: &'static str, value: Value, told: &'static str) -> Defect {
    Defect { at, value, told }
}

fn good() -> Value {
    json!({
        "name": "web",
        "count": 3,
        "min_member": 1,
        "labels": {"team": "a", "tier": "b"},
        "constraints": ["rack exists", "arch == amd64", {"attribute": "zone", "operator": "in", "values": ["a"]}],
        "tolerations": ["dedicated", {"taint": "disk", "value": "x"}, {"taint": "old"}],
        "affinity": [
            {"apart": "node.name", "jobs": ["app == cache"]},
            {"near": "rack", "jobs": ["app == db"], "prefer": 5},
        ],
        "spread": ["rack", {"attribute": "zone", "weight": 7}, "node.name"],
        "after": ["seed", {"job": "prepare"}],
        "overrides": {"0": {"weight": 3}, "1": {"arguments": ["x"]}},
        "restart": {"mode": "always", "backoff": "1s"},
        "drain_delay": "1s",
        "task": {
            "command": ["run", "${PORT_HTTP}", "a"],
            "environment": {"A": "b", "C": "d"},
            "ports": ["http", {"name": "admin", "number": 8081}, "extra", {"name": "raw"}],
            "health": {"http": {"port": "http", "path": "/"}, "interval": "5s", "timeout": "2s", "failures": 2},
            "resources": {"cpu": 1, "memory": "64MiB", "devices": {"gpu": {"count": 1, "model": ["A100"]}, "fpga": 1}},
            "packages": ["web/1", "data/2"],
            "weight": 2,
            "grace": "5s",
            "helpers": [
                {"name": "a", "when": "before", "command": ["x"], "deadline": "5s", "cpu": 1, "memory": "1MiB"},
                {"name": "b", "when": "beside", "command": ["x", "${PORT_HTTP}"], "environment": {"Q": "r"}},
                {"name": "c", "when": "after", "command": ["x"]},
            ],
            "identities": ["vault", {"name": "aws", "audience": "sts", "ttl": "5m"}],
            "secrets": [{"name": "S1", "source": "db/password", "as": "file"}, {"name": "S2", "source": "k"}],
        },
    })
}

fn defects() -> Vec<Defect> {
    of_job().into_iter().chain(of_task()).collect()
}

fn of_job() -> Vec<Defect> {
    vec![
        defect("/conut", json!(3), "unknown field \"conut\""),
        defect("/name", json!("My_Job"), "name: the name \"My_Job\""),
        defect("/count", json!("many"), "count: \"many\""),
        defect("/min_member", json!("some"), "min_member: \"some\""),
        defect("/kind", json!("servce"), "kind: \"servce\""),
        defect("/priority", json!(400), "priority: 400"),
        defect("/labels/team", json!([1]), "labels[\"team\"]: a list"),
        defect("/labels/tier", json!("a\nb"), "labels[\"tier\"]: \"a\\nb\""),
        defect("/labels/b c", json!("x"), "labels[\"b c\"]: \"b c\""),
        defect("/constraints/0", json!("rack is r1"), "constraints[0]: \"rack is r1\""),
        defect(
            "/constraints/1",
            json!("cores > many"),
            "constraints[1].values: [\"many\"]; accepted: one finite number",
        ),
        defect("/constraints/2/values", json!([]), "constraints[2].values: 0 values"),
        defect("/constraints/2/operator", json!("within"), "constraints[2].operator: \"within\""),
        defect("/tolerations/0", json!([]), "tolerations[0]: a list"),
        defect("/tolerations/1/operator", json!("like"), "tolerations[1].operator: \"like\""),
        defect("/tolerations/2/taint", json!("a b"), "tolerations[2].taint: \"a b\""),
        defect("/affinity/0/jobs/0", json!("app is cache"), "affinity[0].jobs[0]: \"app is cache\""),
        defect(
            "/affinity/0/near",
            json!("rack"),
            "affinity[0].apart: \"node.name\"; accepted: near or apart",
        ),
        defect("/affinity/1/near", json!("a b"), "affinity[1].near: \"a b\""),
        defect("/affinity/1/prefer", json!(500), "affinity[1].prefer: 500"),
        defect("/spread/0", json!([]), "spread[0]: a list"),
        defect("/spread/1/weight", json!(500), "spread[1].weight: 500"),
        defect("/spread/2", json!("a b"), "spread[2]: \"a b\""),
        defect("/after/0", json!("Seed"), "after[0]: the name \"Seed\""),
        defect("/after/1/job", json!("-x"), "after[1].job: the name \"-x\""),
        defect("/overrides/0/weight", json!(900), "overrides[0].weight: 900"),
        defect("/overrides/1/resources", json!({"memory": "1k"}), "overrides[1].resources.memory: 1k"),
        defect(
            "/overrides/first",
            json!({"environment": {"1X": "y"}}),
            "overrides[\"first\"]: the key is no task's",
        ),
        defect("/restart/mode", json!("sometimes"), "restart.mode: \"sometimes\""),
        defect("/restart/backoff_max", json!("9h"), "restart.backoff_max: 9h"),
        defect("/drain_delay", json!(5), "drain_delay: \"5\" has no unit"),
    ]
}

fn of_task() -> Vec<Defect> {
    vec![
        defect("/task/comand", json!([]), "unknown field \"comand\" in task"),
        defect("/task/command/0", json!([]), "task.command[0]: a list"),
        defect("/task/command/2", json!("${NOPE}"), "task.command[2]: ${NOPE}"),
        defect("/task/environment/A", json!(true), "task.environment[\"A\"]: true"),
        defect("/task/environment/1X", json!("y"), "task.environment[\"1X\"]: \"1X\""),
        defect("/task/ports/1/name", json!("Admin"), "task.ports[1].name: the name \"Admin\""),
        defect("/task/ports/1/number", json!(80), "task.ports[1].number: 80"),
        defect("/task/ports/2", json!("http"), "task.ports[2]: \"http\"; accepted: each name once"),
        defect("/task/ports/3/number", json!(70_000), "task.ports[3].number: 70000"),
        defect("/task/health/http/port", json!("nope"), "task.health.http.port: nope"),
        defect("/task/health/http/path", json!("x"), "task.health.http.path: \"x\""),
        defect("/task/health/interval", json!("9h"), "task.health.interval: 9h"),
        defect("/task/health/failures", json!(9_000), "task.health.failures: 9000"),
        defect("/task/resources/cpu", json!("1 core"), "task.resources.cpu: \"1 core\""),
        defect("/task/resources/memory", json!("1k"), "task.resources.memory: 1k"),
        defect(
            "/task/resources/devices/gpu/model",
            json!([""]),
            "task.resources.devices[\"gpu\"].model[0]: \"\"",
        ),
        defect("/task/resources/devices/gpu/count", json!(1.5), "task.resources.devices[\"gpu\"]: 1.5"),
        defect("/task/resources/devices/fpga", json!("x"), "task.resources.devices[\"fpga\"]: \"x\""),
        defect("/task/packages/0", json!([]), "task.packages[0]: a list"),
        defect("/task/packages/1", json!("data"), "task.packages[1]: \"data\""),
        defect("/task/weight", json!(900), "task.weight: 900"),
        defect("/task/grace", json!("9h"), "task.grace: 9h"),
        defect(
            "/task/helpers/0/when",
            json!("befor"),
            "task.helpers[0].when: \"befor\", did you mean \"before\"?",
        ),
        defect("/task/helpers/0/deadline", json!("9h"), "task.helpers[0].deadline: 9h"),
        defect("/task/helpers/0/cpu", json!("1 core"), "task.helpers[0].cpu: \"1 core\""),
        defect("/task/helpers/0/memory", json!("1k"), "task.helpers[0].memory: 1k"),
        defect("/task/helpers/1/command/1", json!("${NO}"), "task.helpers[1].command[1]: ${NO}"),
        defect("/task/helpers/1/environment/1X", json!("y"), "task.helpers[1].environment[\"1X\"]: \"1X\""),
        defect("/task/helpers/2/name", json!("Last"), "task.helpers[2].name: the name \"Last\""),
        defect("/task/identities/0", json!("Vault"), "task.identities[0]: the name \"Vault\""),
        defect("/task/identities/1/ttl", json!("25h"), "task.identities[1].ttl: 25h"),
        defect("/task/identities/1/audience", json!("a b"), "task.identities[1].audience: \"a b\""),
        defect("/task/secrets/0/as", json!("text"), "task.secrets[0].as: \"text\""),
        defect("/task/secrets/0/source", json!("../b"), "task.secrets[0].source: \"../b\""),
        defect("/task/secrets/1/name", json!("BOROUGH_A"), "task.secrets[1].name: \"BOROUGH_A\""),
    ]
}

/// Sets the value at a pointer. Maps get the field; lists have the item.
fn set(root: &mut Value, at: &str, value: &Value) {
    let (outer, last) = at.rsplit_once('/').expect("a pointer");
    let outer = root.pointer_mut(outer).expect("the place is in the good file");
    match (outer, last.parse::<usize>()) {
        (Value::Array(items), Ok(index)) => items[index] = value.clone(),
        (Value::Object(entries), _) => {
            entries.insert(last.to_owned(), value.clone());
        }
        (outer, _) => panic!("{at} is within {outer}"),
    }
}

fn problems(file: &Value) -> Vec<String> {
    tree_problems(&TreeNode::from(file))
}

fn with(mut file: Value, defects: &[&Defect]) -> Value {
    for defect in defects {
        set(&mut file, defect.at, &defect.value);
    }
    file
}

fn tree_problems(tree: &TreeNode) -> Vec<String> {
    let read = JobSpec::from_file(tree, &Name::new("alice").unwrap());
    read.err().into_iter().flatten().map(|problem| problem.message).collect()
}

fn is_told(problems: &[String], told: &str) -> bool {
    problems.iter().any(|problem| problem.starts_with(told))
}

/// Returns true if neither defect decides what the other means.
fn are_independent(one: &str, other: &str) -> bool {
    // Only an operator says which values are right.
    let of_constraint = |at: &str| at.starts_with("/constraints/2");
    let within = |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
    let one_of_other = one == other || within(one, other) || within(other, one);
    let both_of_constraint = of_constraint(one) && of_constraint(other);
    !(one_of_other || both_of_constraint)
}

/// Each defect is reported alone, and each two of them together. Returns the number of pairs.
fn check(file: &Value, all: &[Defect]) -> usize {
    assert_eq!(problems(file), [""; 0], "the file without a defect is good");
    for one in all {
        let found = problems(&with(file.clone(), &[one]));
        assert!(is_told(&found, one.told), "{}: {:?} in {found:#?}", one.at, one.told);
        // Only an override of no task has a second defect, so that what is within it is seen to be read.
        let most = if one.at == "/overrides/first" { 2 } else { 1 };
        assert_eq!(found.len(), most, "{} blames more than itself: {found:#?}", one.at);
    }
    let mut pairs = 0;
    for (number, one) in all.iter().enumerate() {
        for other in all.iter().skip(number + 1).filter(|other| are_independent(one.at, other.at)) {
            let found = problems(&with(file.clone(), &[one, other]));
            for told in [one.told, other.told] {
                assert!(is_told(&found, told), "{} and {}: {told:?} in {found:#?}", one.at, other.at);
            }
            pairs += 1;
        }
    }
    pairs
}

#[test]
fn every_two_defects_of_a_file_are_told_together() {
    let pairs = check(&good(), &defects());
    assert!(pairs > 1_200, "{pairs}");
}

/// The short forms: their fields have other paths than those of the spec.
#[test]
fn every_two_defects_of_short_forms_are_told_together() {
    let file = json!({
        "name": "web",
        "spread": {"rack": 70, "zone": 30},
        "restart": "always",
        "overrides": {"0": {"weight": 1}},
        "task": {
            "command": ["run"],
            "ports": {"http": "auto", "admin": 8081},
            "health": {"tcp": "http"},
        },
    });
    let defects = [
        defect("/spread/rack", json!(500), "spread[\"rack\"]: 500"),
        defect("/spread/zone", json!("much"), "spread[\"zone\"]: \"much\""),
        defect("/restart", json!("sometimes"), "restart: \"sometimes\""),
        defect("/overrides/9", json!({}), "overrides[9]: 9; accepted: indexes below the count"),
        defect("/task/ports/Raw", json!(9000), "task.ports: the name \"Raw\""),
        defect("/task/ports/http", json!(80), "task.ports[\"http\"]: 80"),
        defect("/task/ports/admin", json!("any"), "task.ports[\"admin\"]: \"any\""),
        defect(
            "/task/health/tcp",
            json!("nope"),
            "task.health.tcp: nope; accepted: one of the task's ports: ",
        ),
        defect("/task/health/timeout", json!("1x"), "task.health.timeout: \"1x\""),
    ];
    assert_eq!(check(&file, &defects), 9 * 8 / 2);
}

#[test]
fn every_two_defects_of_a_gang_are_told_together() {
    let file = json!({
        "name": "train",
        "gang_topology": {"attribute": "rack", "at_most": 2},
        "roles": [{"name": "server"}, {"name": "worker", "count": 4, "min_member": 3}, {"name": "probe"}],
        "task": {"command": ["run"]},
    });
    let defects = [
        defect("/gang_topology/attribute", json!("a b"), "gang_topology.attribute: \"a b\""),
        defect(
            "/gang_topology/exactly",
            json!(2),
            "gang_topology: a map; accepted: at_most or exactly, not both",
        ),
        defect("/gang_topology/prefer", json!("yes"), "gang_topology.prefer: \"yes\""),
        defect("/roles/0/weight", json!(900), "roles[0].weight: 900"),
        defect("/roles/0/name", json!("Server"), "roles[0].name: the name \"Server\""),
        defect(
            "/roles/1/min_member",
            json!(9),
            "roles[1].min_member: 9; accepted: at most the role's count, 4",
        ),
        defect("/roles/2", json!({"count": 1}), "field \"name\" is missing in roles[2]"),
        defect("/roles/0/environment", json!({"1X": "y"}), "roles[0].environment[\"1X\"]: \"1X\""),
    ];
    assert_eq!(check(&file, &defects), 8 * 7 / 2);
}

/// A field that stands twice is reported beside every other defect.
#[test]
fn a_field_that_stands_twice_hides_no_defect() {
    for one in defects() {
        let mut tree = TreeNode::from(&with(good(), &[&one]));
        let TreeValue::Map(entries) = &mut tree.value else { panic!("a map") };
        let lost_after =
            entries.iter().find(|(key, _)| key.text == "drain_delay").expect("the field").clone();
        entries.push(lost_after);
        let found = tree_problems(&tree);
        assert!(is_told(&found, "field \"drain_delay\" stands twice"), "{found:#?}");
        assert!(one.at == "/drain_delay" || is_told(&found, one.told), "{}: {found:#?}", one.at);
    }
}
