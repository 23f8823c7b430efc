//! Submissions that come at the same time: over a store without faults, and over one that leaves the result of every
//! commit unknown.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_kv::FaultPlan;
use borough_model::job::JobKind;
use borough_model::{JobSpec, JournalEntry};
use borough_proto::v1;
use borough_proto::v1::job_service_server::JobService;
use borough_store::journal::{Cursor, journal_tail};
use borough_testkit::{job_spec, name};
use futures::future::join_all;
use tonic::{Code, Response, Status};

use super::*;
use crate::cell::tests::{TestGateway, operator_asks, submission};

/// Submits all at once, each under its request id.
async fn submit_all(
    gateway: &TestGateway,
    asked: &[(u128, JobSpec)],
) -> Vec<Result<v1::SubmitJobResponse, Status>> {
    let server = JobServer::new(Arc::clone(&gateway.cells));
    let all =
        asked.iter().map(|(request, spec)| server.submit_job(operator_asks(submission(*request, spec))));
    let all = join_all(all).await;
    all.into_iter().map(|answer| answer.map(Response::into_inner)).collect()
}

fn asked(request: u128, job: &str) -> (u128, JobSpec) {
    (request, job_spec("ada", job, JobKind::Service))
}

/// The entries of submissions, with their numbers of jobs.
async fn entries(gateway: &TestGateway) -> Vec<JournalEntry> {
    let cell = gateway.cells.get("alpha").unwrap();
    let page = gateway
        .change(async |tx, changes| {
            journal_tail(tx, &cell.space, Cursor::start(changes.store_epoch()), 10_000).await
        })
        .await;
    let entries = page.entries.into_iter().map(|(_, entry)| entry);
    entries.filter(|entry| entry.action == "job_submit").collect()
}

#[tokio::test(start_paused = true)]
async fn submissions_at_the_same_time_share_transactions_and_have_one_effect_each() {
    many_are_admitted(&TestGateway::new().await).await;
    many_are_admitted(&TestGateway::with_faults(FaultPlan::none()).await).await;
}

async fn many_are_admitted(gateway: &TestGateway) {
    let asked: Vec<_> = (1..=100).map(|number| asked(number, &format!("job-{number}"))).collect();
    let first = submit_all(gateway, &asked).await;
    let ids: BTreeSet<String> =
        first.iter().map(|answer| answer.as_ref().unwrap().job.as_ref().unwrap().id.clone()).collect();
    assert_eq!(ids.len(), 100);
    for (answer, (_, spec)) in first.iter().zip(&asked) {
        let job = answer.as_ref().unwrap().job.as_ref().unwrap();
        assert_eq!(job.name, spec.name.as_str(), "each caller gets its own answer");
    }
    let counted = &gateway.cells.get("alpha").unwrap().admissions;
    assert_eq!(
        counted.jobs.get() + counted.alone.get(),
        100,
        "each is decided once, with others or by itself"
    );
    let entries = entries(gateway).await;
    assert_eq!(entries.iter().map(|entry| entry.deltas.len()).sum::<usize>(), 100);
    assert!(entries.len() < 10, "{} entries", entries.len());
    assert!(entries.iter().all(|entry| entry.actor == "user/ada"));
    let again = submit_all(gateway, &asked).await;
    for (first, again) in first.iter().zip(&again) {
        let (first, again) = (first.as_ref().unwrap(), again.as_ref().unwrap());
        assert_eq!(first.job.as_ref().unwrap().id, again.job.as_ref().unwrap().id);
        assert!(again.changed, "the answer of the first time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_submission_is_not_refused_for_another_one() {
    some_are_refused(&TestGateway::new().await).await;
    some_are_refused(&TestGateway::with_faults(FaultPlan::none()).await).await;
}

async fn some_are_refused(gateway: &TestGateway) {
    let mut too_large = asked(3, "large");
    too_large.1.task.resources.cpu_millis = u64::MAX;
    too_large.1.count = 2;
    let mut update = asked(4, "web");
    update.1.scheduler = Some(name("gpu"));
    let answers = submit_all(
        gateway,
        &[
            asked(1, "first"),
            asked(2, "second"),
            too_large,
            update,
            // The same call, sent twice; the same name under another id; another job under a used id.
            asked(2, "second"),
            asked(5, "second"),
            asked(1, "other"),
            asked(6, "last"),
        ],
    )
    .await;
    let shown: Vec<Result<bool, Code>> = answers
        .iter()
        .map(|answer| answer.as_ref().map(|answer| answer.changed).map_err(Status::code))
        .collect();
    let (invalid, refused, reused) = (Code::InvalidArgument, Code::FailedPrecondition, Code::AlreadyExists);
    assert_eq!(
        shown,
        [Ok(true), Ok(true), Err(invalid), Err(refused), Ok(true), Ok(false), Err(reused), Ok(true)]
    );
    let users = gateway
        .cells
        .get("alpha")
        .unwrap()
        .state(|state| state.jobs().values().filter(|row| row.user == name("ada")).count());
    assert_eq!(users.unwrap(), 4, "with the job that was there");
}
