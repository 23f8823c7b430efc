//! Calls: retries under one request id, rotation, deadlines, decoded refusals, the caller's token.

use std::time::Duration;

use borough_proto::v1::JobSpec;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{client, fake};
use crate::{ClientError, ClientToken, JobFilter, JobRef};

/// An address where nothing listens: the port was free a moment ago.
async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    listener.local_addr().expect("bound").to_string()
}

#[tokio::test]
async fn a_mutation_is_repeated_under_its_one_request_id() {
    let fake = fake::start().await;
    let failures = [Status::unavailable("starting"), Status::unavailable("still starting")];
    fake.script.submit_failures.lock().extend(failures);
    let client = client(&[&fake.address], |_| {});
    assert!(client.job_submit(JobSpec::default(), 0).await.unwrap().changed);
    client.job_submit(JobSpec::default(), 0).await.unwrap();
    let ids = fake.script.request_ids.lock().clone();
    assert_eq!(ids.len(), 4);
    assert!(ids[0] == ids[1] && ids[1] == ids[2], "one intent, one id: {ids:?}");
    assert_ne!(ids[2], ids[3], "another intent has another id");
    assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
}

#[tokio::test]
async fn a_given_request_id_is_sent() {
    let fake = fake::start().await;
    let client = client(&[&fake.address], |_| {}).with_request_id(borough_model::RequestId(255));
    client.job_submit(JobSpec::default(), 0).await.unwrap();
    assert_eq!(fake.script.request_ids.lock().as_slice(), [format!("{:032x}", 255)]);
}

#[tokio::test]
async fn the_budget_of_attempts_ends() {
    let fake = fake::start().await;
    fake.script.submit_failures.lock().extend((0..10).map(|_| Status::unavailable("never")));
    let client = client(&[&fake.address], |_| {});
    let error = client.job_submit(JobSpec::default(), 0).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { attempts: 4, .. }), "{error:?}");
    assert_eq!(fake.script.request_ids.lock().len(), 4);
}

#[tokio::test]
async fn a_call_comes_back_when_a_busy_gateway_has_said_and_no_other_limit_is_repeated() {
    let fake = fake::start().await;
    let busy = |reason: &str| {
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "borough", [("class".to_owned(), "change".to_owned())]);
        details.set_retry_info(Some(Duration::from_millis(20)));
        Status::with_error_details(Code::ResourceExhausted, "too much", details)
    };
    // Oftener than a gateway that is away is asked.
    fake.script.submit_failures.lock().extend((0..9).map(|_| busy("OVERLOADED")));
    let patient = client(&[&fake.address], |_| {});
    assert!(patient.job_submit(JobSpec::default(), 0).await.unwrap().changed);
    assert_eq!(fake.script.request_ids.lock().len(), 10);
    fake.script.submit_failures.lock().extend((0..100).map(|_| busy("OVERLOADED")));
    let hasty = client(&[&fake.address], |config| config.deadline = Duration::from_secs(1));
    let refused = hasty.job_submit(JobSpec::default(), 0).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::ResourceExhausted), "{refused:?}");
    // A gateway of its own: the call cut off above may still reach the first one.
    let full = fake::start().await;
    full.script.submit_failures.lock().push_back(busy("JOURNAL_FULL"));
    let full = client(&[&full.address], |_| {}).job_submit(JobSpec::default(), 0).await.unwrap_err();
    assert_eq!(full.code(), Some(Code::ResourceExhausted), "{full:?}");
}

#[tokio::test]
async fn the_next_gateway_answers_for_one_that_is_gone() {
    let (gone, fake) = (nobody().await, fake::start().await);
    let client = client(&[&gone, &fake.address], |_| {});
    assert!(client.job_submit(JobSpec::default(), 0).await.unwrap().changed);
    assert_eq!(fake.script.request_ids.lock().len(), 1);
}

#[tokio::test]
async fn an_unreachable_gateway_is_reported_with_every_address() {
    let (first, second) = (nobody().await, nobody().await);
    let error = client(&[&first, &second], |_| {}).cell_list().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    assert!(text.contains(&first) && text.contains(&second), "{text}");
}

#[tokio::test]
async fn a_call_ends_with_its_deadline() {
    let fake = fake::start().await;
    let client = client(&[&fake.address], |config| config.deadline = Duration::from_millis(50));
    let error = client.job_get(&JobRef::new("alice", "web")).await.unwrap_err();
    assert!(matches!(error, ClientError::Deadline { method: "GetJob", changes: false, .. }), "{error:?}");
    assert!(error.to_string().contains(&fake.address), "{error}");
}

/// One gateway is gone, and the next one takes calls and never answers.
#[tokio::test]
async fn a_change_under_way_may_have_been_made_also_after_another_try_has_failed() {
    let gone = nobody().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let held = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            held.push(stream);
        }
    });
    let client = client(&[&gone, &address], |config| config.deadline = Duration::from_millis(300));
    let change = client.job_submit(JobSpec::default(), 0).await.unwrap_err();
    assert!(matches!(change, ClientError::Deadline { changes: true, .. }), "{change:?}");
    held.abort();
}

#[tokio::test]
async fn a_refusal_is_not_repeated_and_keeps_its_details() {
    let fake = fake::start().await;
    let mut details = ErrorDetails::new();
    details.add_bad_request_violation("spec.count", "is 2000000; accepted: 0 to 1000000");
    details.set_error_info("JOB_INVALID", "borough", [("job".to_owned(), "alice/web".to_owned())]);
    details.add_precondition_failure_violation("JOB", "alice/web", "is stopping");
    let status = Status::with_error_details(Code::InvalidArgument, "the spec cannot be taken", details);
    fake.script.submit_failures.lock().push_back(status);
    let error = client(&[&fake.address], |_| {}).job_submit(JobSpec::default(), 0).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidArgument));
    assert_eq!(error.to_string(), "the spec cannot be taken");
    let refusal = error.refusal().unwrap();
    assert_eq!(refusal.reason, "JOB_INVALID");
    assert_eq!(refusal.metadata["job"], "alice/web");
    assert_eq!(refusal.fields[0].field, "spec.count");
    assert_eq!(refusal.preconditions[0].subject, "alice/web");
    assert_eq!(fake.script.request_ids.lock().len(), 1);
}

#[tokio::test]
async fn every_page_is_fetched() {
    let fake = fake::start().await;
    let filter = JobFilter { ended: true, ..JobFilter::default() };
    let jobs = client(&[&fake.address], |_| {}).job_list(&filter).await.unwrap();
    let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["job-0", "job-1", "job-2"]);
}

#[tokio::test]
async fn the_token_of_a_file_is_sent_without_its_line_end() {
    let fake = fake::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "s3cret\n").unwrap();
    let client = client(&[&fake.address], |config| config.token = Some(ClientToken::File(path)));
    client.job_submit(JobSpec::default(), 0).await.unwrap();
    assert_eq!(fake.script.authorizations.lock().as_slice(), ["Bearer s3cret"]);
    assert!(!format!("{client:?}").contains("s3cret"));
}

/// A login renews the file of a user, and an agent that of a task, while a client goes on.
#[tokio::test]
async fn a_token_that_is_refused_is_read_again_and_a_new_one_is_sent_once() {
    let fake = fake::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "old\n").unwrap();
    let client = client(&[&fake.address], |config| config.token = Some(ClientToken::File(path.clone())));
    let refuse = || fake.script.submit_failures.lock().push_back(Status::unauthenticated("it has expired"));
    refuse();
    let refused = client.job_submit(JobSpec::default(), 0).await.unwrap_err();
    assert!(matches!(refused, ClientError::TokenRefused { .. }), "{refused:?}");
    std::fs::write(&path, "new\n").unwrap();
    refuse();
    client.job_submit(JobSpec::default(), 0).await.unwrap();
    let sent = fake.script.authorizations.lock().clone();
    assert_eq!(sent, ["Bearer old", "Bearer old", "Bearer new"]);
    let ids = fake.script.request_ids.lock().clone();
    assert_eq!(ids[1], ids[2], "one change");
}

#[test]
fn a_token_that_cannot_be_sent_is_refused() {
    for (bad, problem) in
        [("", "is empty"), (" \n", "is empty"), ("two words", "has other"), ("ü", "has other")]
    {
        let error = ClientToken::Value(bad.to_owned()).text_read("the variable T").unwrap_err();
        assert!(matches!(error, ClientError::TokenText { .. }), "{bad:?}");
        assert!(error.to_string().starts_with(&format!("the token of the variable T {problem}")), "{error}");
    }
    let missing = ClientToken::File("/nonexistent/token".into()).text_read("").unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/token"));
}
