//! What a gateway records of the calls that come to it, and what it lists.

use borough_kv::FaultPlan;
use borough_model::audit::{AuditRefusal, AuditedCall};
use borough_model::job::JobKind;
use borough_proto::v1::audit_service_server::AuditService as _;
use borough_proto::v1::job_service_server::JobService as _;
use borough_proto::v1::node_service_server::NodeService as _;
use borough_store::audit::audit_seal;
use borough_testkit::job_spec;

use super::*;
use crate::cell::tests::{TestGateway, context, operator_asks, submission};
use crate::job::JobServer;
use crate::node::NodeServer;

impl TestGateway {
    /// Seals what the journal has, as a controller does.
    async fn seal(&self) {
        let cell = self.cells.get("alpha").unwrap();
        audit_flush(cell).await.unwrap();
        let space = &cell.space;
        let sealed = cell.db.run("audit_seal", Idempotency::Natural, |tx, _| async move {
            audit_seal(&tx, space, None).await
        });
        sealed.await.unwrap();
    }

    async fn audit(&self, filter: v1::AuditFilter, limit: u32, page: String) -> v1::ListAuditResponse {
        let request = v1::ListAuditRequest {
            context: context(1),
            cell: "alpha".to_owned(),
            page: Some(v1::PageRequest { limit, page }),
            filter: Some(filter),
        };
        let listed = AuditServer::new(Arc::clone(&self.cells)).list_audit(operator_asks(request)).await;
        listed.unwrap().into_inner()
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_recorded_with_what_it_made_also_if_the_store_does_not_say_so() {
    // The plan of this gateway commits and reports that the result is unknown.
    let gateway = TestGateway::new().await;
    let jobs = JobServer::new(Arc::clone(&gateway.cells));
    let spec = job_spec("ada", "shop", JobKind::Service);
    for request in [21, 22] {
        jobs.submit_job(operator_asks(submission(request, &spec))).await.unwrap();
    }
    // The same request again is no other call.
    jobs.submit_job(operator_asks(submission(21, &spec))).await.unwrap();
    let nodes = NodeServer::new(Arc::clone(&gateway.cells), Duration::from_secs(1));
    let cordon =
        v1::CordonNodeRequest { context: context(23), cell: "alpha".to_owned(), name: "n1".to_owned() };
    nodes.cordon_node(operator_asks(cordon)).await.unwrap();
    gateway.seal().await;
    let listed = gateway.audit(v1::AuditFilter::default(), 0, String::new()).await;
    let seen: Vec<_> = listed
        .calls
        .iter()
        .map(|call| {
            let revisions = (call.revision_before, call.revision_after);
            (call.method.as_str(), call.object.as_str(), call.user.as_str(), revisions)
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("NodeService/CordonNode", "node/n1", "ada", (2, 3)),
            ("JobService/SubmitJob", "job/ada/shop", "ada", (0, 0)),
            ("JobService/SubmitJob", "job/ada/shop", "ada", (0, 1)),
        ]
    );
    assert!(listed.calls.iter().all(|call| call.by == "operator" && call.refused.is_none()));
    let ids: Vec<&str> = listed.calls.iter().map(|call| call.request_id.trim_start_matches('0')).collect();
    assert_eq!(ids, ["17", "16", "15"]);
}

fn refusal(number: u32) -> AuditedCall {
    AuditedCall {
        method: if number.is_multiple_of(2) { "JobService/StopJob" } else { "NodeService/DrainNode" }
            .to_owned(),
        by: format!("user/u{}", number % 3),
        user: None,
        from: Some("127.0.0.1".to_owned()),
        request: None,
        object: Some(format!("job/ada/j{number}")),
        revisions: None,
        refused: Some(AuditRefusal { code: "code".to_owned(), reason: String::new(), times: 1 }),
        at_ms: None,
    }
}

/// Pages of every size have each call once, the newest first, whatever the filter leaves out.
#[tokio::test(start_paused = true)]
async fn pages_have_each_call_once() {
    let gateway = TestGateway::with_faults(FaultPlan::none()).await;
    let cell = gateway.cells.get("alpha").unwrap();
    let mut all = Vec::new();
    for number in 0..60_u32 {
        cell.audit.done(refusal(number), 0);
        all.push(format!("job/ada/j{number}"));
        if number % 7 == 0 {
            gateway.seal().await;
        }
    }
    gateway.seal().await;
    all.reverse();
    let collect = async |filter: v1::AuditFilter, limit| {
        let (mut objects, mut page) = (Vec::new(), String::new());
        loop {
            let listed = gateway.audit(filter.clone(), limit, page).await;
            assert!(listed.calls.len() <= usize::try_from(limit).unwrap());
            objects.extend(listed.calls.into_iter().map(|call| call.object));
            page = listed.next_page;
            if page.is_empty() {
                return objects;
            }
        }
    };
    for limit in [1, 2, 7, 59, 60, 61, 1_000] {
        assert_eq!(collect(v1::AuditFilter::default(), limit).await, all, "{limit}");
        let stops = v1::AuditFilter { method: "StopJob".to_owned(), ..v1::AuditFilter::default() };
        let even: Vec<String> = all.iter().skip(1).step_by(2).cloned().collect();
        assert_eq!(collect(stops, limit).await, even, "{limit}");
    }
    let by = v1::AuditFilter { by: "u1".to_owned(), ..v1::AuditFilter::default() };
    assert_eq!(collect(by, 1_000).await.len(), 20);
    let part = v1::AuditFilter { object: "job/ada/j1".to_owned(), ..v1::AuditFilter::default() };
    assert_eq!(collect(part, 1_000).await, ["job/ada/j1"], "a name that begins alike is another one");
    let done = v1::AuditFilter { outcome: v1::AuditOutcome::Done.into(), ..v1::AuditFilter::default() };
    assert_eq!(collect(done, 1_000).await, [""; 0]);
}
