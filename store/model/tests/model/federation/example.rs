//! Splits by example: each policy, groups, limits, spread, and what the verdicts say.

use borough_model::federation::{
    CellFacts, CellIntake, CellReason, ShortfallCause, SplitMode, SpreadShortfall, split,
};
use borough_model::node::{Taint, TaintEffect};
use serde_json::json;

use super::sample::{cell, counts, labelled, reason, spec};
use crate::sample::name;

const AGAIN: SplitMode = SplitMode::Again;

#[test]
fn each_policy_divides_in_its_way() {
    let cells = [cell("a", 4, 0), cell("b", 20, 0), cell("c", 10, 0)];
    let of = |part: serde_json::Value, count: u32| counts(&split(&spec(part), count, &cells, AGAIN));
    assert_eq!(of(json!({}), 17), "a=2 b=10 c=5", "in proportion to the room");
    assert_eq!(of(json!({"split": "weight"}), 9), "a=3 b=3 c=3");
    assert_eq!(of(json!({"split": "weight", "weights": {"b": 3}}), 10), "a=2 b=6 c=2");
    assert_eq!(
        of(json!({"split": "weight", "weights": {"a": 10}}), 9),
        "a=4 b=3 c=2",
        "a is full, and b comes first"
    );
    assert_eq!(of(json!({"split": "pack"}), 25), "b=20 c=5");
    assert_eq!(of(json!({"split": "order", "cells": ["c", "a", "b"]}), 13), "a=3 c=10");
    assert_eq!(of(json!({"split": "order"}), 13), "a=4 b=9");
    let duplicated = split(&spec(json!({"split": "duplicate"})), 6, &cells, AGAIN);
    assert_eq!((counts(&duplicated).as_str(), duplicated.unplaced), ("a=4 b=6 c=6", 2));
}

#[test]
fn a_remainder_goes_to_the_largest_and_then_by_name() {
    let cells = [cell("a", 99, 0), cell("b", 99, 0), cell("c", 99, 0)];
    let of = |part: serde_json::Value, count: u32| counts(&split(&spec(part), count, &cells, AGAIN));
    assert_eq!(of(json!({"split": "weight"}), 10), "a=4 b=3 c=3");
    assert_eq!(of(json!({"split": "weight"}), 1), "a=1");
    // 10 by 6:3:1 is 6, 3, 1; 11 by them is 6.6, 3.3, 1.1.
    assert_eq!(of(json!({"split": "weight", "weights": {"a": 6, "b": 3}}), 11), "a=7 b=3 c=1");
}

#[test]
fn a_group_gets_what_does_not_fit_into_those_before_it() {
    let part = json!({"groups": [{"cells": ["own"]}, {"where": ["tier=rent"]}]});
    let rent = |facts: CellFacts| labelled(facts, &["tier=rent"]);
    let cells =
        [cell("own", 5, 0), rent(cell("rent-a", 10, 0)), rent(cell("rent-b", 10, 0)), cell("stray", 9, 0)];
    let first = split(&spec(part.clone()), 4, &cells, AGAIN);
    assert_eq!(counts(&first), "own=4");
    assert_eq!(reason(&first, "rent-a"), &CellReason::NotNeeded);
    let more = split(&spec(part), 9, &cells, AGAIN);
    assert_eq!(counts(&more), "own=5 rent-a=2 rent-b=2");
    assert_eq!(reason(&more, "own"), &CellReason::RoomTaken { room: 5 });
    assert_eq!(reason(&more, "stray"), &CellReason::NoGroup);
}

#[test]
fn a_smaller_count_takes_from_the_last_group_and_from_what_does_not_run() {
    let part = || spec(json!({"groups": [{"cells": ["a", "b"]}, {"cells": ["c"]}]}));
    let cells = [cell("a", 0, 4), cell("b", 0, 4), cell("c", 0, 4)];
    assert_eq!(counts(&split(&part(), 9, &cells, AGAIN)), "a=4 b=4 c=1");
    let mut waiting = cells.clone();
    waiting[0].running = 1;
    assert_eq!(counts(&split(&part(), 9, &waiting, AGAIN)), "a=1 b=4 c=4", "c runs and a does not");
    assert_eq!(counts(&split(&part(), 0, &cells, AGAIN)), "");
    let mut silent = cells;
    silent[1].silent_since_ms = Some(7);
    let split = split(&part(), 9, &silent, AGAIN);
    assert_eq!(counts(&split), "a=4 b=1 c=4", "nobody knows whether those of b run");
}

#[test]
fn a_cell_has_its_least_number_or_nothing() {
    let cells = [cell("a", 4, 0), cell("b", 4, 0), cell("c", 20, 0)];
    let part =
        |min: u32, split: &str| spec(json!({"cell_min": min, "split": split, "limits": {"c": {"max": 12}}}));
    let even = split(&spec(json!({"cell_min": 4, "split": "weight"})), 4, &cells, AGAIN);
    assert_eq!(counts(&even), "a=4");
    let placed = split(&part(4, "order"), 4, &cells, AGAIN);
    assert_eq!(counts(&placed), "a=4");
    // Two cells at most can have 4 of 10. Only with c all of them have a place.
    for policy in ["order", "weight"] {
        let placed = split(&part(4, policy), 10, &cells, AGAIN);
        assert_eq!((counts(&placed).as_str(), placed.unplaced), ("a=4 c=6", 0), "{policy}");
        assert_eq!(reason(&placed, "b"), &CellReason::NotNeeded);
    }
    let few = [cell("a", 3, 0), cell("b", 9, 0), cell("c", 9, 0)];
    let placed = split(&spec(json!({"cell_min": 4, "split": "pack", "cell_max": 5})), 7, &few, AGAIN);
    assert_eq!((counts(&placed).as_str(), placed.unplaced), ("b=5", 2));
    assert_eq!(reason(&placed, "a"), &CellReason::BelowMin { min: 4, most: 3 });
    assert_eq!(reason(&placed, "b"), &CellReason::AtMax { max: 5 });
    assert_eq!(reason(&placed, "c"), &CellReason::TooFewLeft { min: 4, left: 2 });
}

#[test]
fn tasks_are_spread_over_as_many_domains_as_the_job_asks() {
    let cells = [
        labelled(cell("a", 50, 0), &["region=eu", "zone=eu-1"]),
        labelled(cell("b", 10, 0), &["region=eu", "zone=eu-2"]),
        labelled(cell("c", 10, 0), &["region=us", "zone=us-1"]),
        labelled(cell("d", 5, 0), &["region=as", "zone=as-1"]),
        cell("e", 99, 0),
    ];
    let of = |spread: serde_json::Value, count: u32| {
        split(&spec(json!({"split": "pack", "spread": spread})), count, &cells, AGAIN)
    };
    let two = of(json!([{"by": "region", "min": 2}]), 20);
    assert_eq!(counts(&two), "a=19 c=1");
    assert_eq!(reason(&two, "e"), &CellReason::SpreadLabelMissing { key: "region".to_owned() });
    let one = of(json!([{"by": "region", "max": 1}]), 55);
    assert_eq!((counts(&one).as_str(), one.unplaced), ("a=50 b=5", 0));
    let full = CellReason::SpreadFull { by: "region".to_owned(), value: "us".to_owned(), max: 1 };
    assert_eq!(reason(&one, "c"), &full);
    // Only eu has two zones.
    assert_eq!(counts(&of(json!([{"by": "region", "max": 1}, {"by": "zone", "min": 2}]), 8)), "a=7 b=1");
    let four = of(json!([{"by": "region", "min": 4}]), 8);
    let shortfall =
        SpreadShortfall { by: "region".to_owned(), min: 4, reached: 3, cause: ShortfallCause::Cells };
    assert_eq!((counts(&four).as_str(), four.unplaced, &four.shortfall), ("", 8, &Some(shortfall.clone())));
    assert_eq!(reason(&four, "a"), &CellReason::SpreadUnmet { shortfall });
}

#[test]
fn labels_that_do_not_lie_within_each_other_are_met_by_rare_domains() {
    // The first cell helps both rules, and leaves none that helps both. The others do, with two tasks.
    let cells = [
        labelled(cell("a", 9, 0), &["tier=x", "zone=p"]),
        labelled(cell("b", 9, 0), &["tier=x", "zone=q"]),
        labelled(cell("c", 9, 0), &["tier=y", "zone=p"]),
    ];
    let part = json!({"spread": [{"by": "tier", "min": 2}, {"by": "zone", "min": 2}]});
    assert_eq!(counts(&split(&spec(part), 2, &cells, AGAIN)), "b=1 c=1");
}

#[test]
fn a_cell_with_a_job_of_the_name_of_its_own_gets_nothing() {
    let cells = [CellFacts { intake: CellIntake::NameTaken, ..cell("a", 9, 0) }, cell("b", 9, 0)];
    let result = split(&spec(json!({})), 4, &cells, AGAIN);
    assert_eq!((counts(&result).as_str(), reason(&result, "a")), ("b=4", &CellReason::NameTaken));
}

#[test]
fn each_exclusion_says_what_it_is_and_what_would_change_it() {
    let taint = |effect| Taint { key: "power".to_owned(), value: String::new(), effect, added_ms: 0 };
    let base = |text: &str| cell(text, 9, 2);
    let mut other = base("other");
    other.jobs.insert(name("db"));
    let cells = [
        CellFacts { intake: CellIntake::Cordoned, ..base("cordoned") },
        CellFacts { intake: CellIntake::Leaving, ..base("leaving") },
        CellFacts { silent_since_ms: Some(5), ..base("silent") },
        CellFacts { failed_over: true, silent_since_ms: Some(5), ..base("gone") },
        CellFacts { taints: vec![taint(TaintEffect::NoSchedule)], ..base("tainted") },
        CellFacts { taints: vec![taint(TaintEffect::NoExecute)], ..base("cleared") },
        CellFacts { room: None, ..base("unknown") },
        other,
        base("open"),
    ];
    let part = json!({"away_from": ["db"]});
    let result = split(&spec(part.clone()), 30, &cells, AGAIN);
    assert_eq!(
        counts(&result),
        "cleared=2 cordoned=2 leaving=2 open=11 other=2 silent=2 tainted=2 unknown=2",
        "only what failed over has none: nobody has room for the tasks of the other cells"
    );
    assert_eq!(result.unplaced, 5);
    let fewer = split(&spec(part), 14, &cells, AGAIN);
    assert_eq!(
        counts(&fewer),
        "cordoned=2 open=4 other=2 silent=2 tainted=2 unknown=2",
        "all that must leave can"
    );
    let text = result.cells.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    expect_test::expect![[r#"
        cleared: 2 tasks: its taint power:no_execute is not tolerated, so its tasks go to other cells as far as those have room; a toleration in the job would let tasks in
        cordoned: 2 tasks: it is cordoned; without the cordon it would take new tasks
        gone: 0 tasks, 2 before: it was silent for too long, so its tasks go to other cells; it can have tasks again when it is back and what it still runs is settled
        leaving: 2 tasks: it is being drained, so its tasks go to other cells as far as those have room
        open: 11 tasks, 2 before: its scheduler has room for 9 tasks more, which it gets; free resources in it would let more in
        other: 2 tasks: it has tasks of db, from which the job keeps away; it would take tasks without those
        silent: 2 tasks: the federation does not hear of it, so it keeps what it has; it takes new tasks when it is heard of again
        tainted: 2 tasks: its taint power:no_schedule is not tolerated; a toleration in the job would let tasks in
        unknown: 2 tasks: it did not say how much room it has when the tasks were last divided; it takes new tasks when it does"#]].assert_eq(&text);
    expect_test::expect!["25 placed in 8 cells, 5 unplaced"].assert_eq(&result.to_string());
    let tolerant = json!({"tolerations": ["power"], "away_from": ["db"]});
    let result = split(&spec(tolerant), 30, &cells, AGAIN);
    assert!(result.counts.contains_key(&name("cleared")) && result.counts[&name("tainted")] > 2);
}
