//! Admission and changes of jobs, against a store.

mod large;
mod together;
mod versions;

use std::collections::BTreeMap;

use borough_kv::Version;
use borough_model::job::{
    After, AfterCondition, AfterDecision, Band, JobKind, JobOutcome, JobSpec, JobState, TaskOverride,
};
use borough_model::{JobId, NodeId, Resources};

use super::*;
use crate::cell::cell_meta_change;
use crate::check::{CheckMode, cell_check};
use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::keys::{self, JobGateKey, JobPastKey, NodeReservedKey};
use crate::quota::{quota_set, quota_usage};
use crate::row::QuotaRow;
use crate::testing::{TestCell, change, name};

fn spec(job: &str, count: u32) -> JobSpec {
    let mut spec = JobSpec::defaults(name("ada"), name(job), JobKind::Batch, vec!["true".to_owned()]);
    spec.count = count;
    spec
}

async fn submit(cell: &TestCell, spec: &JobSpec, candidate: u64) -> StoreResult<JobSubmitted> {
    let change = change(u128::from(candidate), "job_submit");
    cell.change(change, async |tx, changes| job_submit(tx, changes, spec, JobId(candidate)).await).await
}

async fn row(cell: &TestCell, job: u64) -> borough_model::JobRow {
    cell.run(async |tx| job_get(&tx, &cell.space, JobId(job)).await).await.unwrap()
}

async fn check(cell: &TestCell) {
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Settled).await).await.unwrap();
    assert_eq!(found, []);
}

async fn stop(cell: &TestCell, job: u64) {
    cell.change(change(900, "job_stop"), async |tx, changes| {
        job_stop(tx, changes, JobId(job)).await?;
        job_tasks_gone(tx, changes, JobId(job)).await
    })
    .await
    .unwrap();
}

/// The version that a plan is made at.
async fn version(cell: &TestCell) -> Version {
    cell.run(async |tx| Ok(tx.read_version().await?)).await.unwrap()
}

/// Whether a placement of a job's task that was planned at `version` is committed. It guards the job's gate, as a
/// worker's does.
async fn may_place(cell: &TestCell, job: u64, version: Version) -> bool {
    let placed = cell.db.commit_at("placement", version, |tx| {
        keys::guard(tx, &cell.space, &JobGateKey { job: JobId(job) })?;
        keys::write(tx, &cell.space, &NodeReservedKey { node: NodeId(1) }, &Resources::default())
    });
    placed.await.is_ok()
}

#[tokio::test]
async fn a_job_of_ten_thousand_tasks_is_a_small_transaction() {
    let cell = TestCell::new().await;
    let spec = spec("wide", 10_000);
    let bytes = cell
        .change(change(1, "job_submit"), async |tx, changes| {
            job_submit(tx, changes, &spec, JobId(1)).await?;
            Ok(tx.approximate_size().await?)
        })
        .await
        .unwrap();
    assert!(bytes < 4_000, "{bytes} bytes");
    check(&cell).await;
}

#[tokio::test]
async fn the_same_spec_changes_nothing_and_count_and_priority_are_applied() {
    let cell = TestCell::new().await;
    let first = submit(&cell, &spec("web", 3), 1).await.unwrap();
    assert_eq!((first.job, first.outcome), (JobId(1), SubmitOutcome::Created));
    let again = submit(&cell, &spec("web", 3), 2).await.unwrap();
    assert_eq!(again, JobSubmitted { outcome: SubmitOutcome::Unchanged, ..first });
    let wider = JobSpec { count: 5, priority: 250, ..spec("web", 3) };
    let updated = submit(&cell, &wider, 3).await.unwrap();
    assert_eq!((updated.job, updated.outcome), (JobId(1), SubmitOutcome::Updated));
    let now = row(&cell, 1).await;
    assert_eq!((now.count, now.priority, now.revision), (5, 250, updated.revision));
    check(&cell).await;
    assert_eq!(submit(&cell, &wider, 4).await.unwrap().outcome, SubmitOutcome::Unchanged);
}

#[tokio::test]
async fn other_metadata_is_a_new_version_of_the_spec_and_voids_placements_in_flight() {
    let cell = TestCell::new().await;
    submit(&cell, &spec("web", 3), 1).await.unwrap();
    let mut labelled = spec("web", 4);
    labelled.labels = BTreeMap::from([("team".to_owned(), "web".to_owned())]);
    let planned = version(&cell).await;
    assert_eq!(submit(&cell, &labelled, 2).await.unwrap().outcome, SubmitOutcome::Updated);
    let now = row(&cell, 1).await;
    assert_eq!((now.count, now.spec_version, now.revision), (4, 2, 3));
    let (in_force, token) = cell
        .run(async |tx| {
            let token = crate::keys::read(&tx, &cell.space, &crate::keys::ConstraintKey::of_all()).await?;
            Ok((job_spec_in_force(&tx, &cell.space, &now).await?, token))
        })
        .await
        .unwrap();
    assert_eq!(in_force, labelled);
    assert!(!may_place(&cell, 1, planned).await, "placements of its own tasks");
    assert!(token.is_some(), "placements that are held against it");
    assert_eq!(submit(&cell, &labelled, 3).await.unwrap().outcome, SubmitOutcome::Unchanged);
    check(&cell).await;
}

#[tokio::test]
async fn the_cells_rules_choose_the_scheduler_of_a_new_job_and_of_no_other() {
    let cell = TestCell::new().await;
    let rule = async |request: u128, rules: &[(&str, &str)]| {
        let rules: BTreeMap<_, _> =
            rules.iter().map(|(work, scheduler)| ((*work).to_owned(), name(scheduler))).collect();
        let set = cell.change(change(request, "rules"), async |tx, changes| {
            cell_meta_change(tx, changes, |meta| meta.schedulers = Some(rules.clone())).await
        });
        set.await.unwrap();
    };
    let scheduler = async |job: u64| {
        let row = row(&cell, job).await;
        let spec = cell.run(async |tx| job_spec_in_force(&tx, &cell.space, &row).await).await.unwrap();
        spec.scheduler.map(|name| name.to_string())
    };
    submit(&cell, &spec("before", 1), 1).await.unwrap();
    rule(100, &[("batch", "fast"), ("band:best_effort", "spare")]).await;
    submit(&cell, &spec("ruled", 1), 2).await.unwrap();
    submit(&cell, &JobSpec { priority: 20, ..spec("low", 1) }, 3).await.unwrap();
    submit(&cell, &JobSpec { scheduler: Some(name("gpu")), ..spec("named", 1) }, 4).await.unwrap();
    assert_eq!(scheduler(1).await, None);
    assert_eq!(scheduler(2).await.as_deref(), Some("fast"));
    assert_eq!(scheduler(3).await.as_deref(), Some("spare"));
    assert_eq!(scheduler(4).await.as_deref(), Some("gpu"));
    // A running job keeps its scheduler, whatever the rules are by now. Naming another one is a change like any other.
    rule(101, &[("batch", "slow")]).await;
    for (job, candidate) in [("before", 5), ("ruled", 6)] {
        let again = submit(&cell, &spec(job, 1), candidate).await.unwrap();
        assert_eq!(again.outcome, SubmitOutcome::Unchanged, "{job}");
    }
    assert_eq!(submit(&cell, &spec("ruled", 2), 7).await.unwrap().outcome, SubmitOutcome::Updated);
    assert_eq!(scheduler(2).await.as_deref(), Some("fast"));
    let other = JobSpec { scheduler: Some(name("slow")), ..spec("ruled", 2) };
    let refused = submit(&cell, &other, 8).await;
    assert!(matches!(refused, Err(StoreError::NeedsUpdate { job: JobId(2), .. })), "{refused:?}");
    // After its end, a job of its name is a new one.
    stop(&cell, 2).await;
    submit(&cell, &spec("ruled", 1), 9).await.unwrap();
    assert_eq!(scheduler(9).await.as_deref(), Some("slow"));
    check(&cell).await;
}

#[tokio::test]
async fn what_a_running_job_keeps_is_refused_with_the_rest() {
    let cell = TestCell::new().await;
    submit(&cell, &spec("web", 3), 1).await.unwrap();
    let mut other = spec("web", 4);
    other.task.command = vec!["false".to_owned()];
    other.scheduler = Some(name("gpu"));
    match submit(&cell, &other, 2).await {
        Err(StoreError::NeedsUpdate { job: JobId(1), changes }) => {
            let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
            assert_eq!(paths, ["scheduler"]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(row(&cell, 1).await.count, 3, "nothing of it was applied");
}

#[tokio::test]
async fn a_name_passes_to_a_new_job_and_an_id_is_never_used_again() {
    let cell = TestCell::new().await;
    submit(&cell, &spec("web", 3), 1).await.unwrap();
    cell.change(change(5, "stop"), async |tx, changes| job_stop(tx, changes, JobId(1)).await).await.unwrap();
    let stopping = submit(&cell, &spec("web", 3), 2).await;
    let waits = RefusalRemedy::Wait;
    assert!(matches!(stopping, Err(StoreError::Refused { remedy, .. }) if remedy == waits), "{stopping:?}");
    stop(&cell, 1).await;
    assert!(matches!(submit(&cell, &spec("web", 3), 1).await, Err(StoreError::AlreadyExists { .. })));
    assert_eq!(submit(&cell, &spec("web", 3), 2).await.unwrap().outcome, SubmitOutcome::Created);
    let read = cell.run(async |tx| job_history(&tx, &cell.space, &name("ada"), &name("web"), 10).await);
    let history = read.await.unwrap();
    let jobs: Vec<(JobId, JobState)> =
        history.iter().map(|version| (version.job.id, version.job.state)).collect();
    let over = JobState::Ended { outcome: JobOutcome::Stopped };
    assert_eq!(jobs, [(JobId(2), JobState::Running), (JobId(1), over)]);
    let present = cell.run(async |tx| {
        let submitted_ms = row(&cell, 2).await.submitted_ms;
        let past = JobPastKey { user: name("ada"), name: name("web"), submitted_ms, job: JobId(2) };
        keys::write(&tx, &cell.space, &past, &())?;
        job_history(&tx, &cell.space, &name("ada"), &name("web"), 10).await
    });
    assert_eq!(
        present.await.unwrap(),
        history,
        "with an entry that earlier commits wrote for the present job"
    );
    cell.change(change(6, "remove"), async |tx, changes| {
        jobs_remove(tx, changes, &[JobId(1)], usize::MAX).await
    })
    .await
    .unwrap();
    let named = cell.run(async |tx| job_by_name(&tx, &cell.space, &name("ada"), &name("web")).await);
    assert_eq!(named.await.unwrap().id, JobId(2));
    check(&cell).await;
}

#[tokio::test]
async fn a_purge_removes_every_ended_job_of_a_name_and_no_other() {
    let cell = TestCell::new().await;
    let purge = async |bytes_max: usize| {
        let purging = cell.change(change(7, "job_purge"), async |tx, changes| {
            job_purge(tx, changes, &name("ada"), &name("web"), bytes_max).await
        });
        purging.await
    };
    let absent = purge(usize::MAX).await;
    assert!(matches!(absent, Err(StoreError::NotFound { .. })), "{absent:?}");
    submit(&cell, &spec("other", 1), 9).await.unwrap();
    for job in 1..=3 {
        submit(&cell, &spec("web", 3), job).await.unwrap();
        let refused = purge(usize::MAX).await.unwrap_err().to_string();
        assert!(refused.contains("borough job stop ada/web"), "{refused}");
        stop(&cell, job).await;
    }
    // A step of few bytes takes one job at a time, the present one last.
    assert_eq!(purge(1).await.unwrap(), JobPurged { removed: 1, more: true });
    let named = cell.run(async |tx| job_by_name(&tx, &cell.space, &name("ada"), &name("web")).await);
    assert_eq!(named.await.unwrap().id, JobId(3));
    check(&cell).await;
    assert_eq!(purge(usize::MAX).await.unwrap(), JobPurged { removed: 2, more: false });
    let history = cell.run(async |tx| job_history(&tx, &cell.space, &name("ada"), &name("web"), 10).await);
    assert_eq!(history.await.unwrap(), []);
    assert!(matches!(purge(usize::MAX).await, Err(StoreError::NotFound { .. })));
    assert_eq!(row(&cell, 9).await.state, JobState::Running);
    check(&cell).await;
    assert_eq!(submit(&cell, &spec("web", 3), 10).await.unwrap().outcome, SubmitOutcome::Created);
}

#[tokio::test]
async fn labels_of_a_job_are_set_and_removed_while_it_runs() {
    let cell = TestCell::new().await;
    submit(&cell, &spec("web", 3), 1).await.unwrap();
    let label = async |set: &[(&str, &str)], remove: &[&str]| {
        let set: BTreeMap<_, _> =
            set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let remove = remove.iter().map(|key| key.to_string()).collect();
        let setting = cell.change(change(7, "job_label"), async |tx, changes| {
            job_labels_set(tx, changes, JobId(1), &set, &remove).await
        });
        setting.await
    };
    let labels = async || {
        let row = row(&cell, 1).await;
        cell.run(async |tx| job_spec_in_force(&tx, &cell.space, &row).await).await.unwrap().labels
    };
    let before = row(&cell, 1).await;
    let first = label(&[("team", "web"), ("tier", "front")], &[]).await.unwrap();
    assert_eq!((first.spec_version, first.revision), (2, before.revision + 1));
    assert_eq!(label(&[("team", "web")], &["nothing"]).await.unwrap().revision, first.revision, "no change");
    label(&[("team", "shop")], &["tier"]).await.unwrap();
    assert_eq!(labels().await, BTreeMap::from([("team".to_owned(), "shop".to_owned())]));
    let wrong = label(&[("a b", "c")], &[]).await;
    assert!(matches!(wrong, Err(StoreError::InvalidSpec { .. })), "{wrong:?}");
    check(&cell).await;
    stop(&cell, 1).await;
    let over = label(&[("team", "late")], &[]).await.unwrap_err();
    assert!(matches!(over, StoreError::Refused { .. }), "{over}");
}

#[tokio::test]
async fn a_job_that_is_over_refuses_any_count_also_its_own() {
    let cell = TestCell::new().await;
    submit(&cell, &spec("web", 3), 1).await.unwrap();
    stop(&cell, 1).await;
    for count in [3, 5] {
        let scaled = cell
            .change(change(7, "scale"), async |tx, changes| job_scale(tx, changes, JobId(1), count).await)
            .await;
        assert!(matches!(scaled, Err(StoreError::Refused { .. })), "{count}: {scaled:?}");
    }
}

#[tokio::test]
async fn only_what_can_make_a_placement_wrong_writes_the_gate() {
    let cell = TestCell::new().await;
    submit(&cell, &spec("web", 3), 1).await.unwrap();
    let scale = async |count| {
        let scaling = cell
            .change(change(7, "scale"), async |tx, changes| job_scale(tx, changes, JobId(1), count).await);
        scaling.await.unwrap()
    };
    let planned = version(&cell).await;
    scale(9).await;
    assert!(may_place(&cell, 1, planned).await, "growth");
    cell.change(change(8, "priority"), async |tx, changes| job_priority_set(tx, changes, JobId(1), 50).await)
        .await
        .unwrap();
    assert!(!may_place(&cell, 1, planned).await, "who gives way to whom is decided by priority");
    let planned = version(&cell).await;
    assert!(may_place(&cell, 1, planned).await, "what is planned after the change");
    scale(2).await;
    assert!(!may_place(&cell, 1, planned).await, "shrinking");
    let planned = version(&cell).await;
    stop(&cell, 1).await;
    assert!(!may_place(&cell, 1, planned).await, "stopping");
}

#[tokio::test]
async fn quota_refuses_with_its_line_and_the_shortfall_and_follows_the_job() {
    let cell = TestCell::new().await;
    let limit = Resources { cpu_millis: 1_000, ..Resources::default() };
    cell.run(async |tx| {
        let limit = QuotaRow { limit: limit.clone(), tasks_max: Some(8), ..QuotaRow::default() };
        quota_set(&tx, &cell.space, &name("ada"), Band::Batch, Some(&limit)).await
    })
    .await
    .unwrap();
    let mut spec = spec("web", 4);
    let resources = Some(Resources { cpu_millis: 500, memory_bytes: 1 << 20, ..Resources::default() });
    spec.overrides.insert(0, TaskOverride { resources, ..TaskOverride::default() });
    submit(&cell, &spec, 1).await.unwrap();
    let scale = async |count| {
        cell.change(change(7, "scale"), async |tx, changes| job_scale(tx, changes, JobId(1), count).await)
            .await
    };
    let refused = scale(10).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { remedy: RefusalRemedy::Quota, .. }), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "the quota of ada for batch (priority 100-199) does not allow it: cpu: 1400m of 1 would be used, 400m too \
         many (600m asked, 800m used, 200m would fit now); tasks: 10 of 8 would be admitted, 2 too many (6 asked, \
         4 used, 4 would fit now)"
    );
    scale(6).await.unwrap();
    scale(2).await.unwrap();
    check(&cell).await;
    let used = async |band| {
        let read = cell.run(async |tx| quota_usage(&tx, &cell.space, &name("ada"), band).await);
        let used = read.await.unwrap();
        (used.used.cpu_millis, used.tasks)
    };
    assert_eq!(used(Band::Batch).await, (600, 2));
    cell.change(change(8, "priority"), async |tx, changes| {
        job_priority_set(tx, changes, JobId(1), 250).await
    })
    .await
    .unwrap();
    assert_eq!((used(Band::Batch).await, used(Band::Production).await), ((0, 0), (600, 2)));
    check(&cell).await;
    stop(&cell, 1).await;
    assert_eq!(used(Band::Production).await, (0, 0));
    check(&cell).await;
}

#[tokio::test]
async fn a_job_waits_for_others_and_never_starts_after_a_failure() {
    let cell = TestCell::new().await;
    let after = |condition| vec![After { job: name("first"), condition }];
    let finished = JobSpec { after: after(AfterCondition::Finished), ..spec("second", 1) };
    let succeeded = JobSpec { after: after(AfterCondition::Succeeded), ..spec("third", 1) };
    submit(&cell, &finished, 2).await.unwrap();
    submit(&cell, &succeeded, 3).await.unwrap();
    let decide = async |job| {
        let deciding = cell.change(change(9, "dependencies"), async |tx, changes| {
            job_dependencies_check(tx, changes, JobId(job)).await
        });
        deciding.await.unwrap()
    };
    assert_eq!(decide(2).await, AfterDecision::Wait(name("first")));
    submit(&cell, &spec("first", 1), 1).await.unwrap();
    assert_eq!(decide(3).await, AfterDecision::Wait(name("first")));
    stop(&cell, 1).await;
    assert_eq!(decide(2).await, AfterDecision::Go);
    assert_eq!(decide(3).await, AfterDecision::Never(name("first")));
    assert_eq!(row(&cell, 2).await.state, JobState::Running);
    assert_eq!(row(&cell, 3).await.state, JobState::Ended { outcome: JobOutcome::DependencyFailed });
    check(&cell).await;
}

#[tokio::test]
async fn a_bad_spec_is_refused_by_its_fields() {
    let cell = TestCell::new().await;
    let refused = submit(&cell, &spec("web", 1_000_000_000), 1).await;
    match refused {
        Err(StoreError::InvalidSpec { errors }) => assert_eq!(errors[0].path, "count"),
        other => panic!("{other:?}"),
    }
    submit(&cell, &spec("empty", 0), 2).await.unwrap();
    check(&cell).await;
}
