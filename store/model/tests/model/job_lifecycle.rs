//! The lifecycle of a job, and when a waiting job may start.

use std::cell::Cell;

use borough_model::id::{JobId, Name, RequestId};
use borough_model::job::TaskEnd;
use borough_model::job::{
    After, AfterCondition, AfterDecision, JobEvent, JobKind, JobOutcome, JobRefused, JobRow, JobSpec,
    JobState, JobTransition, Rollout, WantedSize, after_cycle, after_decide, job_new, job_transition,
};
use proptest::prelude::*;

use crate::sample::{NOW, name, spec};

const REQUEST: RequestId = RequestId(2);

fn after(job: &str, condition: AfterCondition) -> After {
    After { job: name(job), condition }
}

fn job(count: u32) -> JobRow {
    job_new(JobId(1), &JobSpec { count, ..spec(JobKind::Batch) }, RequestId(1), NOW)
}

fn waiting() -> JobRow {
    let waits = vec![after("db", AfterCondition::Succeeded)];
    job_new(JobId(1), &JobSpec { after: waits, ..spec(JobKind::Batch) }, RequestId(1), NOW)
}

fn step(row: &JobRow, event: JobEvent) -> Result<JobTransition, JobRefused> {
    job_transition(row, &event, REQUEST, NOW + 1)
}

fn state(row: &JobRow, events: &[JobEvent]) -> JobState {
    events.iter().fold(row.clone(), |row, event| step(&row, event.clone()).unwrap().row).state
}

fn ended(outcome: JobOutcome) -> JobState {
    JobState::Ended { outcome }
}

const SUCCEEDED: JobEvent = JobEvent::TaskEnded { end: TaskEnd::Succeeded };
const FAILED: JobEvent = JobEvent::TaskEnded { end: TaskEnd::Failed };
const STOPPED: JobEvent = JobEvent::TaskEnded { end: TaskEnd::Stopped };

fn count_set(count: u32, succeeded: u32, failed: u32) -> JobEvent {
    JobEvent::CountSet { count, succeeded, failed, rollout: None, moves: None }
}

#[test]
fn a_job_is_over_when_every_task_is_and_failed_when_one_has() {
    assert_eq!(state(&job(2), &[SUCCEEDED]), JobState::Running);
    assert_eq!(state(&job(2), &[SUCCEEDED, STOPPED]), JobState::Running);
    assert_eq!(state(&job(2), &[SUCCEEDED, SUCCEEDED]), ended(JobOutcome::Succeeded));
    assert_eq!(state(&job(2), &[SUCCEEDED, FAILED]), ended(JobOutcome::Failed));
    assert_eq!(state(&job(0), &[STOPPED]), JobState::Running);
}

#[test]
fn a_stopped_job_ends_when_its_tasks_are_gone() {
    assert_eq!(state(&job(2), &[JobEvent::StopRequested]), JobState::Stopping);
    let tasks_end = [JobEvent::StopRequested, SUCCEEDED, SUCCEEDED];
    assert_eq!(state(&job(2), &tasks_end), JobState::Stopping);
    assert_eq!(state(&job(2), &[JobEvent::StopRequested, JobEvent::TasksGone]), ended(JobOutcome::Stopped));
    let refused = step(&job(2), JobEvent::TasksGone);
    assert_eq!(refused, Err(JobRefused::NotStopping(JobState::Running)));
}

#[test]
fn a_waiting_job_goes_ends_or_is_stopped() {
    assert_eq!(waiting().state, JobState::Waiting);
    assert_eq!(state(&waiting(), &[JobEvent::DependenciesMet]), JobState::Running);
    assert_eq!(state(&waiting(), &[JobEvent::DependencyFailed]), ended(JobOutcome::DependencyFailed));
    assert_eq!(state(&waiting(), &[JobEvent::StopRequested]), ended(JobOutcome::Stopped));
    let late = [JobEvent::DependenciesMet, JobEvent::DependencyFailed];
    assert_eq!(state(&waiting(), &late), JobState::Running);
}

#[test]
fn counts_and_priorities_change_until_the_job_ends() {
    let shrunk = step(&job(5), count_set(2, 1, 0)).unwrap();
    assert_eq!((shrunk.row.count, shrunk.row.succeeded, shrunk.gate), (2, 1, true));
    let grown = step(&job(5), count_set(6, 0, 0)).unwrap();
    assert_eq!((grown.row.count, grown.changed, grown.gate), (6, true, false));
    assert_eq!(state(&job(5), &[count_set(2, 2, 0)]), ended(JobOutcome::Succeeded));
    let priority = step(&job(5), JobEvent::PrioritySet { priority: 7 }).unwrap();
    assert_eq!((priority.row.priority, priority.gate), (7, true));
    let stopping = step(&job(5), JobEvent::StopRequested).unwrap().row;
    let rollout = Box::new(Rollout::begin(&job(2), 0, "user/ada", NOW));
    let updates = [
        JobEvent::SpecReplaced { rollout: None },
        JobEvent::SpecUpdated { rollout: rollout.clone() },
        JobEvent::RolloutSet { rollout },
    ];
    for event in [count_set(6, 0, 0), JobEvent::PrioritySet { priority: 7 }].into_iter().chain(updates) {
        assert_eq!(step(&stopping, event), Err(JobRefused::Over(JobState::Stopping)));
    }
}

#[test]
fn what_can_make_a_placement_wrong_writes_the_gate() {
    let gate = |row: &JobRow, event| step(row, event).unwrap().gate;
    assert!(gate(&job(2), JobEvent::StopRequested) && gate(&job(1), SUCCEEDED));
    assert!(gate(&job(2), JobEvent::SpecReplaced { rollout: None }));
    let rollout = Box::new(Rollout::begin(&job(2), 0, "user/ada", NOW));
    assert!(gate(&job(2), JobEvent::SpecUpdated { rollout: rollout.clone() }));
    assert!(!gate(&job(2), JobEvent::RolloutSet { rollout }), "no placement depends on it");
    assert!(!gate(&job(2), SUCCEEDED) && !gate(&waiting(), JobEvent::DependenciesMet));
}

/// Each version knows the size of the job before the change that made it. A scale in between made none.
#[test]
fn a_version_knows_the_size_before_it() {
    let mut row = job(3);
    row.change_record(None, "user/ada");
    let request = std::cell::Cell::new(2_u128);
    let changed = |before: &JobRow, event: &JobEvent| {
        let mut row = job_transition(before, event, RequestId(request.get()), NOW).unwrap().row;
        row.change_record(Some(before), "user/ada");
        row
    };
    let count = |count| JobEvent::CountSet { count, succeeded: 0, failed: 0, rollout: None, moves: None };
    let next = |row: &JobRow| {
        let rollout = Box::new(Rollout::begin(row, 0, "user/ada", NOW));
        changed(row, &JobEvent::SpecUpdated { rollout })
    };
    let scaled = changed(&row, &count(5));
    request.set(3);
    let second = next(&scaled);
    // A file that changes both: the size first, in one request.
    request.set(4);
    let third = next(&changed(&second, &count(2)));
    let before = |row: &JobRow| row.changes.as_ref().unwrap().versions.last().unwrap().before;
    let size = |count| Some(WantedSize { count, priority: row.priority });
    assert_eq!((before(&row), before(&second), before(&third)), (None, size(5), size(5)));
}

#[test]
fn a_change_records_who_and_when_and_a_repeat_is_none() {
    let first = step(&job(2), JobEvent::StopRequested).unwrap();
    assert_eq!((first.row.revision, first.row.request, first.row.changed_ms), (2, REQUEST, NOW + 1));
    let again = step(&first.row, JobEvent::StopRequested).unwrap();
    assert!(!again.changed && !again.gate && again.row == first.row);
}

#[test]
fn a_job_goes_when_all_it_waits_for_has_ended_as_it_should() {
    use AfterCondition::{Finished, Succeeded};
    let over = |outcome| Some(JobState::Ended { outcome });
    let decide = |a: Option<JobState>, b: Option<JobState>| {
        let waits = vec![after("a", Finished), after("b", Succeeded)];
        let spec = JobSpec { after: waits, ..spec(JobKind::Batch) };
        after_decide(&spec.after, |job: &Name| if job.as_str() == "a" { a } else { b })
    };
    let (done, failed) = (over(JobOutcome::Succeeded), over(JobOutcome::Failed));
    assert_eq!(decide(failed, done), AfterDecision::Go);
    assert_eq!(decide(done, None), AfterDecision::Wait(name("b")));
    assert_eq!(decide(Some(JobState::Stopping), Some(JobState::Running)), AfterDecision::Wait(name("a")));
    assert_eq!(decide(None, failed), AfterDecision::Never(name("b")));
    assert_eq!(after_decide(&spec(JobKind::Batch).after, |_| None), AfterDecision::Go);
}

#[test]
fn a_job_that_waits_for_itself_is_found_by_the_shortest_way() {
    let cycle = |edges: &[(&str, &str)]| {
        let found = after_cycle(&name("a"), |job| {
            let of_job = edges.iter().filter(|(waiter, _)| *waiter == job.as_str());
            of_job.map(|(_, other)| name(other)).collect()
        });
        found.map(|jobs| jobs.iter().map(Name::to_string).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(cycle(&[("a", "b"), ("b", "a")]).as_deref(), Some("a b a"));
    assert_eq!(
        cycle(&[("a", "b"), ("b", "c"), ("c", "a"), ("b", "d"), ("d", "b")]).as_deref(),
        Some("a b c a")
    );
    assert_eq!(cycle(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]), None);
    assert_eq!(cycle(&[("a", "b"), ("b", "c"), ("c", "b")]), None, "others wait for each other");
    assert_eq!(cycle(&[]), None);
}

/// A tenant may have any number of jobs that wait for each other, and each search decodes their specs.
#[test]
fn a_search_for_a_circle_ends() {
    let of_jobs = |jobs: u32| {
        let asked = Cell::new(0);
        let found = after_cycle(&name("j0"), |job| {
            asked.set(asked.get() + 1);
            let number: u32 = job.as_str()[1..].parse().unwrap();
            vec![name(&format!("j{}", (number + 1) % jobs))]
        });
        (found.map(|jobs| jobs.len()), asked.get())
    };
    assert_eq!(of_jobs(1_000), (Some(1_001), 1_000));
    assert_eq!(of_jobs(1_001), (None, 1_000));
    assert_eq!(of_jobs(100_000), (None, 1_000));
}

fn events() -> impl Strategy<Value = Vec<JobEvent>> {
    let event = prop_oneof![
        Just(JobEvent::DependenciesMet),
        Just(JobEvent::DependencyFailed),
        Just(JobEvent::StopRequested),
        Just(JobEvent::TasksGone),
        Just(JobEvent::SpecReplaced { rollout: None }),
        (0u32..6, 0u32..6, 0u32..6)
            .prop_map(|(count, succeeded, failed)| count_set(count, succeeded, failed)),
        (0u32..400).prop_map(|priority| JobEvent::PrioritySet { priority }),
        prop_oneof![Just(SUCCEEDED), Just(FAILED), Just(STOPPED)],
    ];
    prop::collection::vec(event, 1..40)
}

proptest! {
    #[test]
    fn an_ended_job_keeps_its_outcome_and_revisions_count_changes(events in events(), waits in any::<bool>()) {
        let mut row = if waits { waiting() } else { job(3) };
        for event in events {
            let Ok(JobTransition { row: next, changed, gate }) = step(&row, event) else { continue };
            prop_assert_eq!(next.revision, row.revision + u64::from(changed));
            prop_assert!(changed || !gate);
            if matches!(row.state, JobState::Ended { .. }) {
                prop_assert_eq!(next.state, row.state);
            }
            if row.state == JobState::Stopping {
                prop_assert!(next.state == JobState::Stopping || next.state == ended(JobOutcome::Stopped));
            }
            prop_assert!(gate || next.count >= row.count, "a shrink without a gate");
            row = next;
        }
    }
}
