//! The form of a plan.

use expect_test::expect_file;

use super::*;

fn change(path: &str, old: &str, new: &str) -> v1::FieldChange {
    v1::FieldChange { path: path.to_owned(), old_json: old.to_owned(), new_json: new.to_owned() }
}

fn needs() -> Vec<v1::PlannedNeed> {
    use v1::planned_need::Need;
    let need = |need: Need, indexes: &[u32], why: &str| v1::PlannedNeed {
        need: need.into(),
        indexes: indexes.to_vec(),
        why: why.to_owned(),
    };
    vec![
        need(Need::Nothing, &[6], ""),
        need(Need::Weight, &[5], "task.weight"),
        need(Need::Resize, &[3, 4], "task.resources.cpu"),
        need(Need::Replace, &[0, 1, 2], "task.grace"),
    ]
}

#[test]
fn a_plan() {
    let spec = v1::JobSpec { user: "alice".to_owned(), name: "web".to_owned(), ..Default::default() };
    let plan = v1::PlanJobResponse {
        changed: true,
        diff: vec![
            change("count", "3", "5"),
            change("task.command[1]", "\"a\"", ""),
            change("labels[\"a.b\"]", "", "\"x\""),
        ],
        file_diff: vec![
            change("count", "3", "5"),
            change("task.command[1]", "\"a\"", ""),
            change("task.grace", "\"5s\"", "\"10s\""),
            change("labels[\"a.b\"]", "", "\"x y\""),
        ],
        revision: 4,
        changed_revision: 3,
        placements: vec![v1::PlannedPlacement {
            index: 3,
            node: "alpha-1".to_owned(),
            ports: vec![v1::Port { name: "http".to_owned(), number: 21_001 }],
            held: true,
            victims: vec![victim("low", 3)],
            again: true,
            from: "alpha-2".to_owned(),
            alloc: String::new(),
        }],
        unplaced: vec![explanation()],
        refusal: "only count and priority can change".to_owned(),
        stopped: vec![7, 8],
        replaced: vec![0, 1, 2],
        unavailable_max: 1,
        surge: 1,
        canaries: 1,
        cursor: None,
        scheduler: "fast".to_owned(),
        warnings: vec!["no worker serves scheduler fast, and none ever has".to_owned()],
        job_id: "j000000000000002a".to_owned(),
        needs: needs(),
    };
    let view = PlanView::new(&spec, "alpha", plan);
    check(
        &view.text(&Style::default()),
        &expect![[r#"
            alice/web: a change of revision 4 in cell alpha
            ~ count: 3 -> 5
            - task.command[1]: a
            ~ task.grace: 5s -> 10s
            + labels["a.b"]: "x y"
            1 canary first; once it is healthy and promoted:
            replace the attempts of tasks 0-2, at most 2 away at a time, while 1 more surges
            leave task 6 alone
            weigh task 5 in place, which keeps its process: task.weight
            resize tasks 3-4 in place, which keep their processes: task.resources.cpu
            replace tasks 0-2: task.grace
            place task 3 again on alpha-1, moved from alpha-2 with ports http:21001, once tasks there have left
              evicts task bob/low/3 (priority 50)
            stop tasks 7-8
            4 tasks (0-2, 5): no node fits
              5 of 6 nodes refused by: memory
              1 of 6 nodes refused by: cordoned
              would fit on 1 node with memory <= 1.5GiB
              evicts task bob/low/7 (priority 50) on alpha-2
            scheduler fast decides over it
            warning: no worker serves scheduler fast, and none ever has
            the gateway would refuse it: only count and priority can change
        "#]],
    );
    expect_file!["../golden/plan.json"].assert_eq(&as_json(&view));
}

/// Canaries try other amounts too, before any running task gets them.
#[test]
fn a_plan_that_only_resizes_says_that_canaries_come_first() {
    use v1::planned_need::Need;
    let need = v1::PlannedNeed {
        need: Need::Resize.into(),
        indexes: vec![0, 1],
        why: "task.resources.cpu".to_owned(),
    };
    let plan = v1::PlanJobResponse {
        changed: true,
        revision: 2,
        surge: 2,
        canaries: 2,
        needs: vec![need],
        ..v1::PlanJobResponse::default()
    };
    let spec = v1::JobSpec { user: "alice".to_owned(), name: "web".to_owned(), ..Default::default() };
    let text = PlanView::new(&spec, "alpha", plan).text(&Style::default());
    let lines = "2 canaries first; once they are healthy and promoted:\nno attempt is replaced\nresize tasks 0-1 in place";
    assert!(text.contains(lines), "{text}");
}
