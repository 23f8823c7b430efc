//! Explanations: their changes make tasks fit, and their text.

use borough_model::job::{
    After, AfterCondition, Constraint, ConstraintOperator, JobKind, JobOutcome, JobState, PortSpec,
    RestartSpec, TaskOverride, Toleration, TolerationOperator,
};
use borough_model::node::NodeState;
use borough_model::{JobId, JobSpec, NodeRow, Resources, TaskId, TaskState};
use std::collections::{BTreeMap, BTreeSet};

use borough_scheduler_core::{
    Ahead, FilterStep, NearestFit, OpenQueue, PLAN_SEED, PendingReason, ScoringProfile, Snapshot, WaitReason,
    explain, explain_job, plan,
};
use expect_test::expect;

use crate::place::{planned, stored_cell};
use crate::reference;
use crate::stored::{StoredCell, name, node, spec};

/// Checks a nearest fit against the rows: with the change made, as many more nodes fit as it says.
pub(crate) fn nearest_checked(stored: &StoredCell, spec: &JobSpec, index: u32, nearest: &NearestFit) {
    let mut stored = stored.clone();
    let mut changed = spec.clone();
    let fits = reference::fit_count(&stored, spec, index);
    match nearest {
        NearestFit::Together { changes, .. } => {
            for (place, change) in changes.iter().enumerate() {
                let before = reference::fit_count(&stored, &changed, index);
                assert_eq!(before, fits, "{place} of the changes of {nearest} are enough");
                change_made(&mut stored, &mut changed, index, change);
            }
        }
        nearest => {
            if let NearestFit::Resource { dimension, at_most, .. } = nearest {
                let mut more = changed.clone();
                let mut resources = spec.resources_for(index).into_owned();
                resources.amount_set(dimension, at_most + 1);
                more.overrides.clear();
                more.task.resources = resources;
                assert_eq!(
                    reference::fit_count(&stored, &more, index),
                    fits,
                    "more than {nearest} does not fit"
                );
            }
            change_made(&mut stored, &mut changed, index, nearest);
        }
    }
    let more = reference::fit_count(&stored, &changed, index) - fits;
    assert_eq!(more, nearest.nodes() as usize, "{nearest}");
}

/// Checks a nearest fit against the rows: with the change made, at least as many more nodes fit as it says.
pub(crate) fn nearest_enough(stored: &StoredCell, spec: &JobSpec, index: u32, nearest: &NearestFit) {
    let mut stored = stored.clone();
    let mut changed = spec.clone();
    let fits = reference::fit_count(&stored, spec, index);
    let changes = match nearest {
        NearestFit::Together { changes, .. } => changes.as_slice(),
        one => std::slice::from_ref(one),
    };
    for change in changes {
        change_made(&mut stored, &mut changed, index, change);
    }
    let more = reference::fit_count(&stored, &changed, index) - fits;
    assert!(more >= nearest.nodes() as usize, "{nearest}: {more}");
}

/// Makes one change of a nearest fit.
fn change_made(stored: &mut StoredCell, changed: &mut JobSpec, index: u32, nearest: &NearestFit) {
    match nearest {
        NearestFit::Together { .. } => unreachable!("sets of changes are not nested"),
        NearestFit::Resource { dimension, at_most, .. } => {
            let mut resources = changed.resources_for(index).into_owned();
            resources.amount_set(dimension, *at_most);
            changed.overrides.clear();
            changed.task.resources = resources;
        }
        NearestFit::Ports { at_most, .. } => {
            let mut left = usize::from(*at_most);
            changed.task.ports.retain(|port| {
                let stays = port.number.is_some() || left > 0;
                left -= usize::from(port.number.is_none() && left > 0);
                stays
            });
        }
        NearestFit::Without { filter: FilterStep::Constraint { constraint }, .. } => {
            let position = changed.constraints.iter().position(|known| known == constraint);
            changed.constraints.remove(position.expect("a constraint of the spec"));
        }
        NearestFit::Without { filter: FilterStep::Within { .. }, .. } => {
            (changed.task.within, changed.task.exclusive_cores) = (None, false);
        }
        NearestFit::Without { filter: FilterStep::Device { device, .. }, .. } => {
            changed.task.device_selectors.remove(device);
        }
        NearestFit::Without { filter: FilterStep::Taint { key, value, effect }, .. } => {
            changed.tolerations.push(Toleration {
                key: key.clone(),
                operator: TolerationOperator::Equal,
                value: value.clone(),
                effect: Some(*effect),
                evict_after_ms: None,
            });
        }
        NearestFit::Without { filter: FilterStep::PortFixed { number }, .. } => {
            changed.task.ports.retain(|port| port.number != Some(*number));
        }
        NearestFit::Without { filter, .. } => nodes_opened(stored, filter),
    }
}

#[test]
fn where_no_single_change_helps_the_fewest_that_do_are_told() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    stored.node_put(node(1, 8, 4));
    let mut big = spec("ann", "big", 1, 16_000, 64);
    big.constraints = vec![Constraint {
        attribute: "gpu.model".to_owned(),
        operator: ConstraintOperator::Exists,
        values: Vec::new(),
        preference: None,
    }];
    stored.job_submit(JobId(1), &big);
    let explanation = explain(&stored.snapshot(0), JobId(1), 0, stored.now_ms);
    expect!["fits on none of 2 nodes: 2 constraint gpu.model exists; no node has an attribute or label gpu.model; can never fit any node here; would fit on 1 node with cpu <= 8 cores and without constraint gpu.model exists"].assert_eq(&explanation.to_string());
    for nearest in &explanation.nearest {
        nearest_checked(&stored, &big, 0, nearest);
    }
}

fn nodes_opened(stored: &mut StoredCell, filter: &FilterStep) {
    for (row, _) in stored.nodes.values_mut() {
        match filter {
            FilterStep::Lost if row.state == NodeState::Lost => {
                (row.state, row.draining, row.schedulable) = (NodeState::Ready, false, true);
            }
            FilterStep::Recovering if row.state == NodeState::Recovering => {
                (row.state, row.draining, row.schedulable) = (NodeState::Ready, false, true);
            }
            FilterStep::Draining if row.state == NodeState::Ready && row.draining => {
                (row.draining, row.schedulable) = (false, true);
            }
            FilterStep::Cordoned if row.state == NodeState::Ready && !row.draining => row.schedulable = true,
            _ => {}
        }
    }
}

fn constrained(attribute: &str, operator: ConstraintOperator, values: &[&str]) -> Constraint {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    Constraint { attribute: attribute.to_owned(), operator, values, preference: None }
}

/// A cell in which a job fits nowhere, for every possible reason.
fn refused_for_every_reason() -> (StoredCell, JobSpec) {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let mut number = 0;
    let mut added = |stored: &mut StoredCell, gib: u64, change: &dyn Fn(&mut NodeRow)| {
        let mut row = node(number, 8, gib);
        number += 1;
        row.labels.insert("zone".to_owned(), "a".to_owned());
        row.capacity.device_millis.insert("gpu".to_owned(), 1000);
        change(&mut row);
        stored.node_put(row);
    };
    added(&mut stored, 64, &|row| row.state = NodeState::Recovering);
    added(&mut stored, 64, &|row| row.state = NodeState::Lost);
    added(&mut stored, 64, &|row| row.schedulable = false);
    added(&mut stored, 64, &|row| row.draining = true);
    added(&mut stored, 64, &|row| drop(row.labels.insert("zone".to_owned(), "c".to_owned())));
    added(&mut stored, 64, &|row| row.port_last = row.port_first);
    added(&mut stored, 8, &|row| row.capacity.memory_bytes = (3 << 29) + 1);
    added(&mut stored, 64, &|row| row.capacity.device_millis.clear());
    let mut job = spec("ann", "job", 2, 2500, 2048);
    job.constraints = vec![constrained("zone", ConstraintOperator::In, &["a", "b"])];
    job.task.resources.device_millis.insert("gpu".to_owned(), 500);
    let port = |port: &str| PortSpec { name: name(port), number: None };
    job.task.ports = vec![port("http"), port("admin")];
    (stored, job)
}

#[test]
fn an_explanation_names_each_filter_and_the_nearest_fit() {
    let (mut stored, job) = refused_for_every_reason();
    stored.job_submit(JobId(1), &job);
    let explanation = explain(&stored.snapshot(0), JobId(1), 0, stored.now_ms);
    assert_eq!((explanation.nodes, explanation.nodes_fit), (8, 0));
    expect!["fits on none of 8 nodes: 1 recovering, 1 lost, 1 cordoned, 1 drained, 1 constraint zone in [a, b], 1 fewer than 2 ports free, 1 too small for memory 2GiB, 1 too small for device gpu 0.5; waits for tasks to end on 1 node; would fit on 1 node with memory <= 1.5GiB, or on 1 node without device gpu, or on 1 node once not recovering, or on 1 node once not lost, or on 1 node once uncordoned, or on 1 node once uncordoned, or on 1 node without constraint zone in [a, b], or on 1 node with at most 1 port handed out"]
    .assert_eq(&explanation.to_string());
}

#[test]
fn what_is_in_use_is_told_from_what_is_not_there() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    stored.job_submit(JobId(1), &spec("ann", "first", 1, 3000, 64));
    stored.commit(&planned(&stored));
    let mut second = spec("ann", "second", 1, 2000, 64);
    second.task.ports = vec![PortSpec { name: name("http"), number: Some(80) }];
    stored.job_submit(JobId(2), &second);
    let explanation = explain(&stored.snapshot(0), JobId(2), 0, stored.now_ms);
    expect!["fits on none of 1 node: 1 less than cpu 2 cores free; waits for tasks to end on 1 node; would fit on 1 node with cpu <= 1 core"]
        .assert_eq(&explanation.to_string());
}

/// Two jobs that were submitted at the same time wait for each other.
#[test]
fn jobs_that_wait_for_each_other_never_start() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for (id, job, other) in [(1, "one", "two"), (2, "two", "one")] {
        let mut waiting = spec("ann", job, 1, 100, 64);
        waiting.after = vec![After { job: name(other), condition: AfterCondition::Succeeded }];
        stored.job_submit(JobId(id), &waiting);
        stored.job_change(JobId(id), |row| row.state = JobState::Waiting);
    }
    let text = explain(&stored.snapshot(0), JobId(1), 0, stored.now_ms).to_string();
    expect!["never starts: it waits for itself, by one -> two -> one; stop one of these jobs"]
        .assert_eq(&text);
    stored.job_change(JobId(2), |row| row.state = JobState::Running);
    let text = explain(&stored.snapshot(0), JobId(1), 0, stored.now_ms).to_string();
    expect!["waits for job two to succeed"].assert_eq(&text);
}

/// A service never succeeds, and ends only if somebody stops it.
#[test]
fn a_job_after_a_service_is_told_that_it_waits_in_vain() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let mut service = spec("ann", "web", 1, 100, 64);
    service.restart = RestartSpec::for_kind(JobKind::Service);
    stored.job_submit(JobId(1), &service);
    let mut explained = |condition| {
        let mut later = spec("ann", "later", 1, 100, 64);
        later.after = vec![After { job: name("web"), condition }];
        stored.job_submit(JobId(2), &later);
        stored.job_change(JobId(2), |row| row.state = JobState::Waiting);
        explain(&stored.snapshot(0), JobId(2), 0, stored.now_ms).to_string()
    };
    expect!["waits for job web to succeed, and web never does: it runs until somebody stops it; accepted in `after`: a batch job, or {job: web, condition: finished}"]
        .assert_eq(&explained(AfterCondition::Succeeded));
    expect!["waits for job web to end, and web runs until somebody stops it"]
        .assert_eq(&explained(AfterCondition::Finished));
}

#[test]
fn a_headline_leaves_out_what_is_listed() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    stored.job_submit(JobId(1), &spec("ann", "big", 1, 16_000, 64));
    let explanation = explain(&stored.snapshot(0), JobId(1), 0, stored.now_ms);
    expect!["fits on none of 1 node; can never fit any node here"].assert_eq(&explanation.headline());
    expect!["fits on none of 1 node: 1 too small for cpu 16 cores; can never fit any node here; would fit on 1 node with cpu <= 4 cores"]
        .assert_eq(&explanation.to_string());
}

#[test]
fn reasons_that_lie_in_no_node_are_reported() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    let explanation = |stored: &StoredCell, job: u64, index: u32| {
        explain(&stored.snapshot(0), JobId(job), index, stored.now_ms).to_string()
    };
    expect!["the cell has no such job"].assert_eq(&explanation(&stored, 1, 0));

    let mut later = spec("ann", "later", 1, 100, 64);
    later.after = vec![After { job: name("first"), condition: AfterCondition::Succeeded }];
    stored.job_submit(JobId(1), &later);
    stored.job_change(JobId(1), |row| row.state = JobState::Waiting);
    expect!["waits for job first, which does not exist"].assert_eq(&explanation(&stored, 1, 0));
    stored.job_submit(JobId(2), &spec("ann", "first", 1, 100, 64));
    expect!["waits for job first to succeed"].assert_eq(&explanation(&stored, 1, 0));
    expect!["waits for its turn: it is next; fits on 1 of 1 node"].assert_eq(&explanation(&stored, 2, 0));
    expect!["its job has 1 task"].assert_eq(&explanation(&stored, 2, 1));
    stored.commit(&planned(&stored));
    expect!["has a node: it is assigned"].assert_eq(&explanation(&stored, 2, 0));
    stored.task_end(TaskId { job: JobId(2), index: 0 }, None, |row| {
        (row.state, row.not_before_ms, row.failures) = (TaskState::Pending, 2_000_000, 3);
    });
    expect!["backs off until 1970-01-01T00:33:20Z after 3 failures in a row"]
        .assert_eq(&explanation(&stored, 2, 0));
    stored.job_change(JobId(2), |row| row.state = JobState::Ended { outcome: JobOutcome::Failed });
    expect!["never starts: job first had to succeed, and has ended otherwise; run this job again once first has succeeded"]
        .assert_eq(&explanation(&stored, 1, 0));
    expect!["its job has failed"].assert_eq(&explanation(&stored, 2, 0));
    stored.job_change(JobId(1), |row| row.state = JobState::Ended { outcome: JobOutcome::DependencyFailed });
    expect!["never starts: job first had to succeed, and has ended otherwise; run this job again once first has succeeded"]
        .assert_eq(&explanation(&stored, 1, 0));
    let of_whole_job = explain_job(&stored.snapshot(0), JobId(2), stored.now_ms);
    assert_eq!(of_whole_job.len(), 1, "a job that is over says so");
    assert_eq!(of_whole_job[0].1.to_string(), "its job has failed");

    let mut gang = spec("ann", "gang", 3, 2000, 64);
    gang.min_member = 3;
    stored.job_submit(JobId(3), &gang);
    expect!["3 tasks must be placed together and 2 fit; can never fit: 3 are needed together, and the empty cell can take 2; the next one fits on none of 1 node: 1 less than cpu 2 cores free; would fit on 1 node without cpu"]
    .assert_eq(&explanation(&stored, 3, 0));
    expect!["the cell has no nodes"].assert_eq(&{
        let mut empty = crate::place::stored_cell(ScoringProfile::BEST_FIT);
        empty.job_submit(JobId(1), &spec("ann", "job", 1, 100, 64));
        explanation(&empty, 1, 0)
    });
}

#[test]
fn tasks_of_a_job_are_explained_class_by_class() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    let mut job = spec("ann", "job", 4, 8000, 64);
    let resources = Some(Resources { cpu_millis: 9000, ..Resources::default() });
    job.overrides.insert(2, TaskOverride { resources, ..TaskOverride::default() });
    stored.job_submit(JobId(1), &job);
    let explanation = explain_job(&stored.snapshot(0), JobId(1), stored.now_ms);
    let indexes: Vec<&[u32]> = explanation.iter().map(|(indexes, _)| indexes.as_slice()).collect();
    assert_eq!(indexes, [&[0, 1, 3][..], &[2][..]]);
}

#[test]
fn the_position_in_the_queue_and_the_counted_reasons_say_who_waits_and_why() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    let submit =
        |stored: &mut StoredCell, number: u64, user: &str, priority: u32, count: u32, cpu_millis: u64| {
            stored.now_ms += 1;
            let mut job = spec(user, &format!("job-{number}"), count, cpu_millis, 1);
            job.priority = priority;
            stored.job_submit(JobId(number), &job);
        };
    submit(&mut stored, 1, "ann", 250, 3, 1000);
    submit(&mut stored, 2, "bob", 150, 2, 1000);
    submit(&mut stored, 3, "ann", 150, 5, 1000);
    submit(&mut stored, 4, "ann", 150, 1, 1000);
    submit(&mut stored, 5, "ann", 150, 7, 1000);
    submit(&mut stored, 6, "eve", 50, 9, 1000);
    submit(&mut stored, 7, "eve", 390, 2, 64_000);
    let mut snapshot = stored.snapshot(0);
    let ahead = |snapshot: &Snapshot, job| explain(snapshot, JobId(job), 0, stored.now_ms).waits;
    let turn = |higher, others, own| [WaitReason::Turn { ahead: Ahead { higher, others, own } }];
    assert_eq!(ahead(&snapshot, 4), turn(5, 2, 5));
    assert_eq!(ahead(&snapshot, 1), turn(2, 0, 0));
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    snapshot.remember(&outcome, stored.now_ms);
    snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    // A task that never fits is ahead of nobody.
    assert_eq!(ahead(&snapshot, 1), turn(0, 0, 0));
    let reasons = snapshot.queue_reasons(&OpenQueue::default());
    assert_eq!(reasons, BTreeMap::from([(PendingReason::Capacity, 2), (PendingReason::Turn, 27)]));
    let names: BTreeSet<&str> = PendingReason::ALL.map(PendingReason::as_str).into();
    assert_eq!(names.len(), PendingReason::ALL.len());
    let text = explain(&snapshot, JobId(5), 0, stored.now_ms).to_string();
    assert!(text.contains("3 of higher priority, 6 submitted before, 2 of others"), "{text}");
}
