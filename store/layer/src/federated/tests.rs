//! Rows of federated jobs, and what the journal, the mirror and the check say of them.

use std::collections::BTreeMap;

use borough_kv::Idempotency;
use borough_model::federation::{
    FEDERATED_QUESTIONS_MAX, FederatedAnswer, FederatedPart, FederatedQuestion, FederatedStatus,
    FederationSpec, PartSeen, ReleasePhase, ReleaseState,
};
use borough_model::job::JobSpec;

use super::*;
use crate::check::{CheckMode, cell_check};
use crate::journal::cell_list_chunked;
use crate::mirror::MirrorState;
use crate::testing::{TestCell, change, name};

fn spec(count: u32, word: &str) -> FederatedJob {
    let file = serde_json::json!({
        "name": "web", "count": count, "task": {"command": ["true"], "environment": {"WORD": word}}
    });
    let (job, _) = JobSpec::from_file(&(&file).into(), &name("ada")).unwrap();
    FederatedJob { job, federation: FederationSpec::default() }
}

impl TestCell {
    async fn federated<T>(
        &self,
        number: u128,
        step: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let (change, space, step) = (&change(number, "federated"), &self.space, &step);
        let done = self.db.run("federated", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let value = step(&tx, &mut changes).await?;
            changes.append(&tx)?;
            Ok(value)
        });
        done.await
    }

    async fn submit(
        &self,
        number: u64,
        spec: &FederatedJob,
        revision: u64,
    ) -> StoreResult<FederatedSubmitted> {
        let (new, expected) = (FederatedJobId(number), revision);
        self.federated(number.into(), async |tx, changes| {
            federated_submit(tx, changes, new, spec, expected).await
        })
        .await
    }

    async fn record(&self, job: &FederatedJobRow, change: &FederatedChange) -> bool {
        let space = &self.space;
        let recorded = self.db.run("federated_record", Idempotency::Natural, |tx, _| async move {
            federated_record(&tx, space, job, change).await
        });
        recorded.await.unwrap()
    }

    async fn parts(&self, job: FederatedJobId) -> BTreeMap<Name, FederatedPart> {
        let space = &self.space;
        let parts = self.db.run("federated_parts_of", Idempotency::ReadOnly, |tx, _| async move {
            federated_parts_of(&tx, space, job).await
        });
        parts.await.unwrap()
    }

    /// The jobs as a mirror has them that follows, and as one has them that begins now.
    async fn mirrored(&self) -> BTreeMap<(Name, Name), FederatedJobRow> {
        let mut listed = MirrorState::default();
        let from = cell_list_chunked(&self.db, &self.space, 2, |row| {
            listed.list(row);
        });
        from.await.unwrap();
        let rows = listed.federated_jobs().iter();
        rows.map(|(key, row)| (key.clone(), row.as_ref().clone())).collect()
    }

    async fn is_sound(&self) {
        let space = &self.space;
        let found = self.db.run("cell_check", Idempotency::ReadOnly, |tx, _| async move {
            cell_check(&tx, space, CheckMode::Always).await
        });
        assert_eq!(found.await.unwrap(), Vec::new());
    }
}

#[tokio::test]
async fn a_change_of_the_count_is_no_version_and_the_same_again_is_no_change() {
    let cell = TestCell::new().await;
    let first = cell.submit(1, &spec(3, "a"), 0).await.unwrap();
    assert_eq!((first.row.version, first.row.revision, first.changed), (1, 1, true));
    let again = cell.submit(2, &spec(3, "a"), 0).await.unwrap();
    assert_eq!((again.row.clone(), again.changed), (first.row, false));
    let more = cell.submit(3, &spec(5, "a"), 0).await.unwrap();
    assert_eq!((more.row.version, more.row.revision, more.row.id), (1, 2, FederatedJobId(1)));
    let other = cell.submit(4, &spec(5, "b"), 2).await.unwrap();
    assert_eq!((other.row.version, other.row.revision), (2, 3));
    let late = cell.submit(5, &spec(5, "c"), 2).await.unwrap_err();
    assert!(late.to_string().contains("revision 3"), "{late}");
    let (user, name) = (name("ada"), name("web"));
    let scaled =
        cell.federated(6, async |tx, changes| federated_scale(tx, changes, &user, &name, 9).await).await;
    assert_eq!(scaled.unwrap().spec.job.count, 9);
    let space = &cell.space;
    let versions = cell.db.run("federated_versions", Idempotency::ReadOnly, |tx, _| async move {
        federated_versions(&tx, space, FederatedJobId(1)).await
    });
    let versions: Vec<u64> = versions.await.unwrap().into_iter().map(|(version, _)| version).collect();
    assert_eq!(versions, [2, 1]);
    assert_eq!(cell.mirrored().await.len(), 1);
    cell.is_sound().await;
}

#[tokio::test]
async fn versions_beyond_the_last_twenty_are_dropped() {
    let cell = TestCell::new().await;
    for number in 1..=25 {
        cell.submit(number, &spec(1, &number.to_string()), 0).await.unwrap();
    }
    let space = &cell.space;
    let versions = cell.db.run("federated_versions", Idempotency::ReadOnly, |tx, _| async move {
        federated_versions(&tx, space, FederatedJobId(1)).await
    });
    let versions: Vec<u64> = versions.await.unwrap().into_iter().map(|(version, _)| version).collect();
    assert_eq!(versions, (6..=25).rev().collect::<Vec<_>>());
    cell.is_sound().await;
}

#[tokio::test]
async fn what_was_promised_is_of_the_present_job_and_goes_with_it() {
    let cell = TestCell::new().await;
    let job = cell.submit(1, &spec(3, "a"), 0).await.unwrap().row;
    let mut part = FederatedPart::new(name("beta"));
    part.promise(3, 3, 1, 5);
    let status = FederatedStatus { divided: 1, ..FederatedStatus::default() };
    let promised =
        FederatedChange { parts: vec![part.clone()], status: Some(status), ..FederatedChange::default() };
    assert!(cell.record(&job, &promised).await);
    assert_eq!(cell.parts(job.id).await, BTreeMap::from([(name("beta"), part.clone())]));
    cell.is_sound().await;

    // Stopped, and submitted again: another job of the name.
    let (user, web) = (name("ada"), name("web"));
    let stop =
        async |tx: &Transaction, changes: &mut ChangeSet| federated_stop(tx, changes, &user, &web).await;
    let stopping = cell.federated(2, stop).await.unwrap();
    assert_eq!(stopping.state, FederatedState::Stopping);
    let refused = cell.submit(3, &spec(3, "b"), 0).await.unwrap_err();
    assert!(refused.to_string().contains("is being stopped"), "{refused}");
    let end =
        async |tx: &Transaction, changes: &mut ChangeSet| federated_stopped(tx, changes, &stopping).await;
    assert_eq!(cell.federated(4, end).await.unwrap().map(|row| row.state), Some(FederatedState::Stopped));
    let overtaken = cell.submit(5, &spec(3, "b"), job.revision).await.unwrap_err();
    assert!(overtaken.to_string().contains("no active federated job ada/web"), "{overtaken}");
    let next = cell.submit(5, &spec(3, "b"), 0).await.unwrap().row;
    assert_eq!((next.id, next.version, next.state), (FederatedJobId(5), 1, FederatedState::Active));
    assert_eq!(cell.parts(job.id).await, BTreeMap::new());
    // A leader that has not heard of it yet records nothing.
    assert!(!cell.record(&job, &promised).await);
    assert!(cell.record(&next, &promised).await);
    cell.is_sound().await;

    let forget =
        async |tx: &Transaction, changes: &mut ChangeSet| federated_forget(tx, changes, &user, &web).await;
    cell.federated(6, forget).await.unwrap();
    assert_eq!((cell.parts(next.id).await, cell.mirrored().await), (BTreeMap::new(), BTreeMap::new()));
    cell.is_sound().await;
}

#[tokio::test]
async fn questions_are_refused_once_many_are_open_and_one_is_answered_once() {
    let cell = TestCell::new().await;
    let ask = async |number: u64| {
        let (space, question) = (
            &cell.space,
            &FederatedQuestion { spec: spec(1, "a"), asked_ms: 1, answer: None, rebalance: None },
        );
        let asked = cell.db.run("federated_ask", Idempotency::Natural, |tx, _| async move {
            federated_ask(&tx, space, FederatedJobId(number), question).await
        });
        asked.await
    };
    let open = u64::try_from(FEDERATED_QUESTIONS_MAX).unwrap();
    for number in 1..=open {
        ask(number).await.unwrap();
    }
    let refused = ask(open + 1).await.unwrap_err();
    assert!(refused.to_string().contains("plans of federated jobs are being made; try again"), "{refused}");

    let space = &cell.space;
    let answer = &FederatedAnswer { parts: Vec::new(), status: FederatedStatus::default() };
    let of = async |step: &'static str| {
        let done = cell.db.run("question", Idempotency::Natural, |tx, _| async move {
            match step {
                "answer" => federated_answer(&tx, space, FederatedJobId(1), answer).await?,
                "end" => federated_question_end(&tx, space, FederatedJobId(1)).await?,
                _ => {}
            }
            Ok::<_, StoreError>(federated_answer_watch(&tx, space, FederatedJobId(1)).await?.0)
        });
        done.await.unwrap().map(|question| question.answer.is_some())
    };
    assert_eq!((of("look").await, of("answer").await, of("end").await), (Some(false), Some(true), None));
    assert_eq!(of("answer").await, None, "nobody waits for it");
    ask(open + 1).await.unwrap();
}

/// Whoever runs a file wants its version in the cells. A scale asks for no version.
#[tokio::test]
async fn a_version_that_was_taken_back_comes_again_with_its_file_only() {
    let cell = TestCell::new().await;
    cell.submit(1, &spec(3, "a"), 0).await.unwrap();
    let second = cell.submit(2, &spec(3, "b"), 0).await.unwrap().row;
    let mut release = ReleaseState::first(1).superseded_by(2).unwrap();
    let lost = |release: &ReleaseState| FederatedChange {
        status: Some(FederatedStatus { release: Some(release.clone()), ..FederatedStatus::default() }),
        ..FederatedChange::default()
    };
    assert!(cell.record(&second, &lost(&release)).await);
    assert!(!cell.submit(3, &spec(3, "b"), 0).await.unwrap().changed, "it is on its way");
    release.phase = ReleasePhase::Reverted;
    assert!(cell.record(&second, &lost(&release)).await);
    let (user, web) = (name("ada"), name("web"));
    let scale =
        async |tx: &Transaction, changes: &mut ChangeSet| federated_scale(tx, changes, &user, &web, 4).await;
    assert_eq!(cell.federated(4, scale).await.unwrap().version, 2);
    let again = cell.submit(5, &spec(4, "b"), 0).await.unwrap();
    assert_eq!((again.changed, again.row.version), (true, 3));
    assert!(!cell.submit(6, &spec(4, "b"), 0).await.unwrap().changed, "version 3 is on its way");
    cell.is_sound().await;
}

#[tokio::test]
async fn a_job_whose_tasks_have_all_ended_is_run_anew_and_not_scaled() {
    let cell = TestCell::new().await;
    let job = cell.submit(1, &spec(3, "a"), 0).await.unwrap().row;
    let mut part = FederatedPart::new(name("beta"));
    part.promise(3, 3, 1, 5);
    part.arrived = part.promise;
    part.seen = Some(PartSeen { failed: 3, finished: true, ..PartSeen::default() });
    let status = Some(FederatedStatus { divided: 1, ..FederatedStatus::default() });
    let ended = FederatedChange { parts: vec![part], status, ..FederatedChange::default() };
    assert!(cell.record(&job, &ended).await);
    let (user, web) = (name("ada"), name("web"));
    let scale =
        async |tx: &Transaction, changes: &mut ChangeSet| federated_scale(tx, changes, &user, &web, 4).await;
    let refused = cell.federated(2, scale).await.unwrap_err().to_string();
    assert!(refused.contains("all its tasks have ended; to run it again: "), "{refused}");
    let next = cell.submit(3, &spec(3, "a"), 0).await.unwrap();
    assert_eq!((next.changed, next.row.id, next.row.version), (true, FederatedJobId(3), 1));
    assert_eq!(cell.parts(job.id).await, BTreeMap::new());
    cell.is_sound().await;
}
