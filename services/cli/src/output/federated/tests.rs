//! How far a federated job is, and what a plan would change.

use borough_proto::v1;

use super::super::Style;
use super::*;

fn part(cell: &str, count: u32, running: u32) -> v1::FederatedPart {
    v1::FederatedPart {
        cell: cell.to_owned(),
        count,
        target: count,
        version: 1,
        arrived: true,
        running,
        healthy: running,
        rollout: v1::PartRollout::Done.into(),
        seen_ms: 1,
        ..v1::FederatedPart::default()
    }
}

fn release(version: u64, phase: v1::ReleasePhase) -> v1::FederatedRelease {
    v1::FederatedRelease { version, from: 1, phase: phase.into(), ..v1::FederatedRelease::default() }
}

fn job(parts: Vec<v1::FederatedPart>) -> v1::FederatedJob {
    v1::FederatedJob {
        user: "ann".to_owned(),
        name: "web".to_owned(),
        state: v1::FederatedJobState::Active.into(),
        count: parts.iter().map(|part| part.target).sum(),
        version: 1,
        revision: 3,
        divided_revision: 3,
        release: Some(release(1, v1::ReleasePhase::Done)),
        parts,
        ..v1::FederatedJob::default()
    }
}

/// A cell that does not answer ends its tasks when it is back, and nobody waits for that.
#[test]
fn a_smaller_job_is_settled_once_the_cells_that_lose_it_have_ended_their_tasks() {
    let of = |part: v1::FederatedPart| FederatedJobView::from(job(vec![self::part("alpha", 2, 2), part]));
    let told = v1::FederatedPart { arrived: false, ..part("beta", 0, 1) };
    assert!(!of(told.clone()).is_settled(&[], Judged::Every), "it is not told yet");
    assert_eq!(of(told.clone()).cells_ending(), ["beta"]);
    assert!(of(told.clone()).is_settled(&["beta".to_owned()], Judged::Every), "it does not answer");
    assert!(!of(told).is_settled(&["alpha".to_owned()], Judged::Every));
    assert!(!of(part("beta", 0, 1)).is_settled(&[], Judged::Every), "a task runs on");
    assert!(of(part("beta", 0, 0)).is_settled(&[], Judged::Every));
    assert!(!of(part("beta", 1, 2)).is_settled(&[], Judged::Every), "one more than it should have");
    let over = v1::FederatedPart { arrived: false, failed_over_ms: 9, ..part("beta", 0, 1) };
    assert!(of(over).is_settled(&[], Judged::Every));
}

#[test]
fn after_a_release_that_was_taken_back_each_cell_is_current() {
    let mut taken = job(vec![part("alpha", 1, 1), part("beta", 1, 1)]);
    taken.version = 2;
    let states = |job: &v1::FederatedJob| {
        let view = FederatedJobView::from(job.clone());
        view.parts.iter().map(|part| part.state_text(view.goal())).collect::<Vec<_>>()
    };
    taken.release = Some(release(2, v1::ReleasePhase::Rolling));
    assert_eq!(states(&taken), ["waits for its turn", "waits for its turn"]);
    assert_eq!(FederatedJobView::from(taken.clone()).taken_back(2, &[]), TakenBack::NotYet);
    taken.release = Some(release(2, v1::ReleasePhase::Reverted));
    assert_eq!(states(&taken), ["current", "current"]);
    assert_eq!(FederatedJobView::from(taken.clone()).taken_back(2, &[]), TakenBack::Done);
    taken.parts[1].healthy = 0;
    assert_eq!(FederatedJobView::from(taken.clone()).taken_back(2, &[]), TakenBack::NotYet);
    taken.version = 3;
    assert_eq!(FederatedJobView::from(taken).taken_back(2, &[]), TakenBack::Overtaken);
}

/// A scale makes no release: what becomes of the one before keeps it from nothing, and its tasks count all the same.
#[test]
fn a_scale_waits_for_tasks_and_not_for_the_release_before_it() {
    let mut scaled = job(vec![part("alpha", 2, 1)]);
    (scaled.version, scaled.release) = (2, Some(release(2, v1::ReleasePhase::Reverted)));
    let judged = Judged::after(&scaled);
    let is_settled = |job: &v1::FederatedJob| FederatedJobView::from(job.clone()).is_settled(&[], judged);
    let view = FederatedJobView::from(scaled.clone());
    assert_eq!((view.failure_text(judged), is_settled(&scaled)), (None, false));
    assert!(view.failure_text(Judged::Every).unwrap().contains("reverted"));
    assert!(!view.can_undo());
    scaled.parts = vec![part("alpha", 2, 2)];
    assert!(is_settled(&scaled));
    assert!(!FederatedJobView::from(scaled.clone()).is_settled(&[], Judged::Every));
    // It may be taken back meanwhile, or wait for a person.
    for phase in [v1::ReleasePhase::Reverting, v1::ReleasePhase::Rolling, v1::ReleasePhase::Failed] {
        scaled.release = Some(release(2, phase));
        assert!(is_settled(&scaled), "{phase:?}");
        assert_eq!(FederatedJobView::from(scaled.clone()).failure_text(judged), None);
    }
    // A cell in which it has failed keeps it, and its tasks that crash are none that it has.
    let failed = |healthy| v1::FederatedPart {
        version: 2,
        rollout: v1::PartRollout::Failed.into(),
        ..part("beta", 1, healthy)
    };
    scaled.parts = vec![part("alpha", 2, 2), failed(0)];
    assert!(!is_settled(&scaled));
    let second = std::time::Duration::from_secs;
    let mut progress = FederatedProgress::begin(second(0));
    let mut is_within =
        |at| progress.is_within(&FederatedJobView::from(scaled.clone()), second(5), second(at));
    assert!(is_within(1) && !is_within(6), "the wait ends");
    scaled.parts = vec![part("alpha", 2, 2), failed(1)];
    assert!(is_settled(&scaled));
    // A rollout runs more than the count for a while.
    let rolling = v1::FederatedPart { rollout: v1::PartRollout::Rolling.into(), ..part("beta", 1, 2) };
    scaled.parts = vec![rolling];
    assert!(is_settled(&scaled));
}

#[test]
fn without_another_healthy_task_the_progress_deadline_passes() {
    let second = std::time::Duration::from_secs;
    let mut crashing = job(vec![part("alpha", 2, 0)]);
    let mut progress = FederatedProgress::begin(second(0));
    let mut is_within = |job: &v1::FederatedJob, at| {
        progress.is_within(&FederatedJobView::from(job.clone()), second(5), second(at))
    };
    assert!(is_within(&crashing, 1));
    crashing.healthy = 1;
    assert!(is_within(&crashing, 5), "one more");
    crashing.healthy = 0;
    assert!(is_within(&crashing, 9));
    crashing.healthy = 1;
    assert!(!is_within(&crashing, 10), "the same again is no progress");
    let told = v1::FederatedJob { healthy: 2, parts: vec![part("alpha", 2, 2)], ..crashing.clone() };
    assert!(is_within(&told, 11) && is_within(&told, 90), "nothing is missing: a stage proves itself");
}

#[test]
fn a_cell_that_refuses_its_part_says_why_wherever_it_is_named() {
    let problem = "the cell has a job ann/web of its own".to_owned();
    let refusing = v1::FederatedPart { arrived: false, problem, problem_since_ms: 1, ..part("alpha", 1, 0) };
    let words = "this is its part, and no task is without a cell".to_owned();
    let reason = |cell: &str| v1::CellsReason { words: words.clone(), cells: vec![cell.to_owned()] };
    let refused = v1::FederatedJob {
        reasons: vec![reason("alpha"), reason("beta")],
        ..job(vec![refusing, part("beta", 1, 1)])
    };
    let view = FederatedJobView::from(refused);
    let waits = view.progress_text();
    assert!(waits.contains("alpha (refused: the cell has a job ann/web of its own)"), "{waits}");
    let text = view.text(&Style::default());
    assert!(text.contains("  beta: this is its part") && !text.contains("alpha: this"), "{text}");
}

#[test]
fn what_the_cells_say_stands_below_the_job() {
    let mut view = FederatedJobView::from(job(vec![part("alpha", 2, 1), part("beta", 1, 1)]));
    assert_eq!(view.cells_unhealthy(), ["alpha"]);
    let target = borough_client::JobRef::new("ann", "web");
    let words = "task 0: fails again and again\n  exit code 4\n  on n1: borough node status n1\n".to_owned();
    view.causes_set(vec![
        CellCauseView::new("alpha", &target, words),
        CellCauseView::new("beta", &target, String::new()),
    ]);
    let text = view.text(&Style::default());
    let expected = "\n\nalpha says (borough --cell alpha why ann/web):\n  task 0: fails again and again\n    exit code 4\n    \
                    on n1: borough --cell alpha node status n1\n\
                    beta: what keeps its tasks from being healthy: borough --cell beta why ann/web";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn a_failed_release_names_the_command_that_shows_the_cause() {
    let mut failed = job(vec![part("alpha", 1, 1)]);
    failed.version = 2;
    let why = v1::CellsReason { words: "it exits".to_owned(), cells: vec!["ap".to_owned()] };
    failed.release = Some(v1::FederatedRelease { failed: vec![why], ..release(2, v1::ReleasePhase::Failed) });
    let text = FederatedJobView::from(failed).text(&Style::default());
    assert!(text.contains("borough --cell ap job status ann/web; borough --cell ap why ann/web"), "{text}");
    assert!(text.contains("stays at version 1"), "{text}");
}

#[test]
fn a_plan_begins_with_what_would_change() {
    let change = |before: [u32; 3], after: [u32; 3], version: u64| {
        let of = |counts: [u32; 3], version| {
            let parts = ["a", "b", "c"].into_iter().zip(counts);
            let parts = parts.map(|(cell, count)| part(cell, count, count)).collect();
            v1::FederatedJob { version, ..job(parts) }
        };
        let plan = v1::PlanFederatedJobResponse {
            changed: true,
            before: Some(of(before, 1)),
            after: Some(of(after, version)),
        };
        let text = FederatedPlanView::from(plan).text(&Style::default());
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(change([1, 1, 1], [0, 0, 0], 1), "ann/web: 3 tasks in 3 cells would end");
    assert_eq!(change([0, 0, 0], [3, 0, 0], 1), "ann/web: 3 tasks in 1 cell would begin");
    assert_eq!(change([2, 0, 0], [0, 1, 1], 1), "ann/web: 2 tasks would move");
    assert_eq!(change([2, 0, 1], [0, 1, 1], 1), "ann/web: 1 task would move, and 1 task would end");
    assert_eq!(change([1, 1, 1], [1, 1, 1], 1), "ann/web: its cells would go on with what they run");
    assert_eq!(
        change([1, 1, 1], [1, 1, 2], 2),
        "ann/web: version 2 would follow version 1, in one stage after the other; 1 task in 1 cell would begin"
    );
}

/// The federation keeps it as active: its owner stops it, or runs it again.
#[test]
fn batch_work_that_has_ended_says_how() {
    let part = |cell: &str, failed| v1::FederatedPart { failed, finished: true, ..part(cell, 3, 0) };
    let of = |ended, failed| {
        let parts = vec![part("alpha", 0), part("beta", failed)];
        let view = FederatedJobView::from(v1::FederatedJob { ended, failed, ..job(parts) });
        (view.state.clone(), view.end().map(|end| (end.failed, end.cells)))
    };
    assert_eq!(of(true, 0), ("succeeded".to_owned(), Some((0, vec![]))));
    assert_eq!(of(true, 2), ("failed".to_owned(), Some((2, vec!["beta".to_owned()]))));
    assert_eq!(of(false, 2), ("active".to_owned(), None));
}

/// Cells whose turn it is not would hide that a person has to approve the stage.
#[test]
fn a_wait_says_what_a_stage_waits_for() {
    let mut staged = job(vec![v1::FederatedPart { version: 2, ..part("alpha", 1, 1) }, part("beta", 1, 1)]);
    let waits = "a person lets the next stage begin: borough federation job approve web".to_owned();
    staged.version = 2;
    staged.release = Some(v1::FederatedRelease { waits, ..release(2, v1::ReleasePhase::Rolling) });
    let text = |job: &v1::FederatedJob| FederatedJobView::from(job.clone()).progress_text();
    let end = "; a person lets the next stage begin: borough federation job approve web";
    assert!(text(&staged).ends_with(end), "{}", text(&staged));
    staged.parts[0].healthy = 0;
    assert!(text(&staged).contains("; waits for alpha (1 not healthy yet)"), "{}", text(&staged));
}
