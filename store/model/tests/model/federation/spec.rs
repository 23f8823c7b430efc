//! The `federation` part of a job file: reading, checking, storing, and the patches of single cells.

use borough_model::federation::{
    CellLimits, FailoverAfter, FederatedJob, FederationSpec, ReturnPolicy, SplitPolicy,
};
use borough_model::job::JobKind;
use serde_json::{Value, json};

use super::sample::{file, read, spec};
use crate::sample::name;

/// The problems of a file with this part.
fn refused(federation: Value) -> Vec<String> {
    read(&file(federation)).err().unwrap_or_default()
}

/// A part with the example of each field that may stand beside the others.
fn examples() -> Vec<(&'static str, Value)> {
    let fields = FederationSpec::file_fields().iter();
    let mut all: Vec<(&str, Value)> = fields
        .map(|field| {
            let example = field.example.unwrap_or_else(|| panic!("{} has no example", field.file));
            (field.file, json!({ field.file: example() }))
        })
        .collect();
    for (field, part) in &mut all {
        if *field == "weights" {
            part["split"] = json!("weight");
        }
    }
    all
}

#[test]
fn every_example_is_read_stored_written_and_fits_the_schema() {
    let validator = jsonschema::draft202012::new(&FederationSpec::file_schema()).unwrap();
    for (field, part) in examples() {
        let read = spec(part.clone());
        assert_ne!(read, FederationSpec::default(), "the example of {field} is its default");
        let bytes = minicbor::to_vec(&read).unwrap();
        assert_eq!(minicbor::decode::<FederationSpec>(&bytes).unwrap(), read, "{field}");
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<FederationSpec>(&text).unwrap(), read, "{field}");
        let written = read.to_file();
        assert_eq!(spec(written.clone()), read, "{field}");
        for part in [part, written] {
            let problems: Vec<String> = validator.iter_errors(&part).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{field}: {problems:?}");
        }
    }
}

#[test]
fn a_part_that_says_nothing_has_every_cell() {
    let read = spec(json!({}));
    assert_eq!(read, FederationSpec::default());
    assert_eq!(read.to_file(), json!({}));
    assert_eq!((read.split, read.returns), (SplitPolicy::Free, ReturnPolicy::New));
    assert_eq!(read.failover_after, FailoverAfter::Ms(300_000));
    assert!(read.avoid_disruption);
}

#[test]
fn the_limits_of_a_cell_replace_those_of_all() {
    let read = spec(json!({"cell_min": 2, "cell_max": 5, "limits": {"a": {"min": 3}, "b": {"max": 2}}}));
    let of = |cell: &str| (read.min_of(&name(cell)), read.max_of(&name(cell)));
    assert_eq!([of("a"), of("b"), of("c")], [(3, Some(5)), (2, Some(2)), (2, Some(5))]);
    assert_eq!(read.limits[&name("b")], CellLimits { min: None, max: Some(2) });
    assert_eq!(spec(json!({})).min_of(&name("a")), 1);
}

/// Each part has one problem, which begins so.
fn each_is_refused(cases: &[(Value, &str)]) {
    for (part, expected) in cases {
        let problems = refused(part.clone());
        let named = problems.iter().any(|problem| problem.starts_with(expected));
        assert!(named, "{part}\n{expected}\n{problems:?}");
        assert_eq!(problems.len(), 1, "{part}: {problems:?}");
    }
}

#[test]
fn wrong_cells_conditions_and_groups_are_named_with_what_is_accepted() {
    let many: Vec<String> = (0..1_025).map(|at| format!("c{at}")).collect();
    let conditions: Vec<String> = (0..17).map(|at| format!("k{at}=v")).collect();
    let groups: Vec<Value> = (0..17).map(|at| json!({"cells": [format!("c{at}")]})).collect();
    each_is_refused(&[
        (json!({"cells": many}), "federation.cells: 1025 cells; accepted: at most 1024"),
        (json!({"cells": ["a", "a"]}), "federation.cells[1]: \"a\"; accepted: each cell once"),
        (json!({"cells": ["A"]}), "federation.cells[0]: the name \"A\" has 'A' at position 1"),
        (json!({"where": ["region"]}), "federation.where[0]: \"region\"; accepted: key=value or key!=value"),
        (json!({"where": conditions}), "federation.where: 17 conditions; accepted: at most 16"),
        (
            json!({"where": ["a=1", "a=2"]}),
            "federation.where[1]: a=2; accepted: conditions that one cell can meet",
        ),
        (json!({"where": ["a=1", "a!=1"]}), "federation.where[1]: a!=1; accepted: conditions that one cell"),
        (json!({"where": ["a=1", "a=1"]}), "federation.where[1]: a=1; accepted: each condition once"),
        (json!({"where": ["a b=1"]}), "federation.where[0]: \"a b\"; accepted: 1 to 128 of"),
        (json!({"groups": groups}), "federation.groups: 17 groups; accepted: at most 16"),
        (
            json!({"groups": [{}]}),
            "federation.groups[0]: no cell and no condition; accepted: cells, where, or both",
        ),
        (
            json!({"groups": [{"where": ["a=1"]}, {"where": ["a=1"]}]}),
            "federation.groups[1]: the same as groups[0]",
        ),
        (
            json!({"groups": [{"cells": ["a"]}, {"cells": ["a"]}]}),
            "federation.groups[1].cells[0]: \"a\"; accepted: each cell in one group: groups[0] has it",
        ),
        (
            json!({"cells": ["a"], "groups": [{"cells": ["b"]}]}),
            "federation.groups[0].cells[0]: \"b\"; accepted: a cell that `federation.cells` names too",
        ),
    ]);
}

#[test]
fn wrong_policies_weights_limits_and_spreads_are_named_with_what_is_accepted() {
    let rules: Vec<Value> = (0..9).map(|at| json!({"by": format!("k{at}"), "max": 2})).collect();
    each_is_refused(&[
        (
            json!({"split": "duplicate", "groups": [{"cells": ["a"]}]}),
            "federation.groups: 1 groups; accepted: none with `split: duplicate`",
        ),
        (json!({"split": "even"}), "federation.split: \"even\""),
        (json!({"weights": {"a": 1}}), "federation.weights: 1 weight; accepted: none with `split: free`"),
        (
            json!({"split": "weight", "weights": {"a": 0}}),
            "federation.weights[\"a\"]: 0; accepted: 1 to 1000",
        ),
        (
            json!({"split": "weight", "weights": {"a": 1001}}),
            "federation.weights[\"a\"]: 1001; accepted: 1 to 1000",
        ),
        (
            json!({"cells": ["a"], "split": "weight", "weights": {"b": 2}}),
            "federation.weights[\"b\"]: \"b\"; accepted: a cell that the job names",
        ),
        (json!({"cell_min": 0}), "federation.cell_min: 0; accepted: 1 to 100000 tasks"),
        (json!({"cell_min": 3, "cell_max": 2}), "federation.cell_min: 3; accepted: at most 2"),
        (json!({"cell_min": 5}), "federation.cell_min: 5; accepted: at most 4, the count of the job"),
        (json!({"limits": {"a": {}}}), "federation.limits[\"a\"]: no limit; accepted: min, max, or both"),
        (
            json!({"limits": {"a": {"max": 0}}}),
            "federation.limits[\"a\"].max: 0; accepted: 1 to 100000 tasks",
        ),
        (
            json!({"limits": {"a": {"min": 3, "max": 2}}}),
            "federation.limits[\"a\"].min: 3; accepted: at most 2",
        ),
        (
            json!({"cell_min": 3, "limits": {"a": {"max": 2}}}),
            "federation.limits[\"a\"].max: 2; accepted: at least 3",
        ),
        (json!({"spread": rules}), "federation.spread: 9 rules; accepted: at most 8"),
        (
            json!({"spread": [{"by": "zone", "min": 3, "max": 2}]}),
            "federation.spread[0].min: 3; accepted: at most 2",
        ),
        (
            json!({"spread": [{"by": "zone", "min": 2}, {"by": "zone", "max": 2}]}),
            "federation.spread[1].by: \"zone\"; accepted: each label once",
        ),
        (
            json!({"spread": [{"by": "zone", "min": 5}]}),
            "federation.spread[0].min: 5; accepted: at most 4, the count",
        ),
        (json!({"spread": [{"min": 2}]}), "field \"by\" is missing in federation.spread[0]"),
        (
            json!({"cells": ["a"], "spread": [{"by": "cell", "min": 2}]}),
            "federation.spread[0].min: 2; accepted: at most 1, as many cells as the job names",
        ),
    ]);
}

#[test]
fn what_else_is_wrong_is_named_with_what_is_accepted() {
    each_is_refused(&[
        (
            json!({"tolerations": [{"taint": "t", "effect": "prefer_no_schedule"}]}),
            "federation.tolerations[0].effect: prefer_no_schedule; accepted: no_schedule or no_execute",
        ),
        (
            json!({"tolerations": [{"taint": "t", "effect": "no_execute", "evict_after": "5m"}]}),
            "federation.tolerations[0].evict_after: 5m; accepted: none",
        ),
        (json!({"away_from": ["web"]}), "federation.away_from[0]: \"web\"; accepted: another job"),
        (json!({"failover_after": "29s"}), "federation.failover_after: 29s; accepted: 30s to 168h, or never"),
        (json!({"regions": ["eu"]}), "unknown field \"regions\" in federation"),
    ]);
    assert!(refused(json!({"failover_after": "never"})).is_empty());
    assert!(
        refused(json!({"failover_after": "0s"}))[0]
            .starts_with("federation.failover_after: 0s; accepted: 30s")
    );
}

#[test]
fn a_file_is_refused_whole_with_the_problems_of_both_parts() {
    let mut both = file(json!({"cell_min": 0}));
    both["task"] = json!({});
    let problems = read(&both).unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:?}");
    let missing = read(&json!({"name": "web", "task": {"command": ["true"]}})).unwrap_err();
    assert!(missing[0].starts_with("field \"federation\" is missing; accepted: a map"), "{missing:?}");
    let mut daemon = file(json!({}));
    daemon["kind"] = json!("daemon");
    daemon.as_object_mut().unwrap().remove("count");
    assert!(read(&daemon).unwrap_err()[0].starts_with("kind: daemon; accepted: service, batch or alloc_set"));
    let mut gang = file(json!({}));
    gang["min_member"] = json!("all");
    assert!(
        read(&gang).unwrap_err()[0].starts_with("federation.split: free; accepted: `duplicate` for a gang")
    );
    gang["federation"]["split"] = json!("duplicate");
    assert!(read(&gang).is_ok());
}

#[test]
fn a_smaller_count_must_meet_the_limits() {
    let limits = spec(json!({"cell_min": 2, "spread": [{"by": "region", "min": 3}]}));
    let refused = |count: u32| {
        let errors = limits.count_check(count).err().unwrap_or_default();
        errors.into_iter().map(|error| error.path).collect::<Vec<_>>()
    };
    assert_eq!(refused(1), ["federation.cell_min", "federation.spread[0].min"]);
    assert_eq!(refused(2), ["federation.spread[0].min"]);
    assert!(refused(3).is_empty() && refused(0).is_empty());
}

#[test]
fn a_patch_merges_maps_replaces_lists_and_takes_fields_away() {
    // The examples of RFC 7386, appendix A, within a field of the file.
    let cases = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ];
    for (target, patch, result) in cases {
        let text = json!({"field": patch}).to_string();
        let spec = FederationSpec { overrides: [(name("a"), text)].into(), ..FederationSpec::default() };
        let file = json!({"field": target});
        assert_eq!(spec.patched(&file, &name("a")), json!({"field": result}), "{target} with {patch}");
        assert_eq!(spec.patched(&file, &name("b")), file, "another cell has no patch");
    }
}

#[test]
fn a_patch_has_one_form_and_changes_the_job_of_its_cell_alone() {
    let part = json!({"overrides": {"a": {"task": {"grace": "9s", "environment": {"Z": 1, "A": "x"}}}}});
    let federated = read(&file(part)).unwrap();
    let text = &federated.federation.overrides[&name("a")];
    assert_eq!(text, r#"{"task":{"environment":{"A":"x","Z":1},"grace":"9s"}}"#);
    let (a, b) = (federated.cell_job(&name("a"), 2).unwrap(), federated.cell_job(&name("b"), 2).unwrap());
    assert_eq!((a.task.grace_ms, a.task.environment["Z"].as_str(), a.count), (9_000, "1", 2));
    assert!(b.task.environment.is_empty() && b.count == 2 && b.kind == JobKind::Service);
    assert_eq!(read(&federated.to_file()).unwrap(), federated);
    assert_eq!(federated.validate(), Ok(()));
    let spaced = FederationSpec {
        overrides: [(name("a"), r#"{"description": "x"}"#.to_owned())].into(),
        ..FederationSpec::default()
    };
    assert_eq!(
        spaced.validate().unwrap_err()[0].accepted,
        "JSON without spaces, the keys of each map sorted"
    );
}

#[test]
fn a_patch_may_not_say_which_job_it_is_nor_make_an_invalid_one() {
    for (field, value) in [
        ("name", json!("x")),
        ("user", json!("x")),
        ("kind", json!("batch")),
        ("count", json!(9)),
        ("federation", json!({})),
        ("name", Value::Null),
    ] {
        let problems = refused(json!({"overrides": {"a": {field: value}}}));
        let expected =
            format!("federation.overrides[\"a\"].{field}: {value}; accepted: any field except name");
        assert!(problems.len() == 1 && problems[0].starts_with(&expected), "{problems:?}");
    }
    let invalid = json!({"overrides": {"a": {"task": {"grace": "5s"}}, "b": {"task": {"weight": 900}}}});
    let problems = refused(invalid);
    assert_eq!(problems, ["federation.overrides[\"b\"]: task.weight: 900; accepted: 1 to 255"]);
    let unknown = refused(json!({"overrides": {"a": {"task": {"helth": {}}}}}));
    assert!(
        unknown[0].starts_with("federation.overrides[\"a\"]: unknown field \"helth\" in task"),
        "{unknown:?}"
    );
    assert!(refused(json!({"overrides": {"a": ["x"]}}))[0].contains("a map of fields of a job file"));
    assert!(refused(json!({"overrides": {"a": {}}}))[0].starts_with("federation.overrides[\"a\"]: no field"));
    let mut federated = read(&file(json!({}))).unwrap();
    federated.federation.overrides.insert(name("c"), r#"{"task":{"weight":900}}"#.to_owned());
    let errors = FederatedJob::validate(&federated).unwrap_err();
    assert_eq!(errors[0].path, "federation.overrides[\"c\"]");
}
