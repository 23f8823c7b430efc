//! Samples of what the journal has beside rows of nodes, jobs and tasks.

use std::collections::BTreeMap;

use borough_model::audit::{AuditRefusal, AuditRevisions, AuditedCall};
use borough_model::federation::{
    FederatedJob, FederatedJobRow, FederatedState, FederationSpec, RebalanceOrder, RebalancedTasks,
    ReleaseOrder, ReleaseOrderKind,
};
use borough_model::job::JobKind;
use borough_model::journal::{JournalEntry, ValueChange};
use borough_model::member::MemberRow;
use borough_model::merged::{LabelCondition, LabelOperator, MergedServiceRow};
use borough_model::node::{LoadMeasured, NodeLoad};
use borough_model::task::{Endpoint, Health, PortAssignment};
use borough_model::{FederatedJobId, Incarnation, JobId, MemberId, MergedServiceId, RequestId, TaskId};

use crate::sample::{name, spec};

/// A measured load.
pub(crate) fn node_load() -> NodeLoad {
    let (covered_cpu_millis, covered_memory_bytes) = (4_000, 2 << 30);
    let (cpu_millis, memory_bytes) = (1_500, 1 << 30);
    let measured = LoadMeasured { cpu_millis, memory_bytes, covered_cpu_millis, covered_memory_bytes };
    NodeLoad { revision: 3, changed_ms: 1_700_000_000_000, measured: Some(measured), unjournalled: None }
}

/// An entry that has changed labels.
pub(crate) fn journal_values(entry: JournalEntry) -> JournalEntry {
    let value = |text: &str| Some(text.to_owned());
    let values = vec![
        ValueChange { key: "tier".to_owned(), old: None, new: value("db") },
        ValueChange { key: "app".to_owned(), old: value("shop"), new: None },
    ];
    JournalEntry { deltas: Vec::new(), values: Some(values), ..entry }
}

/// An entry with a call of every field, and with a refused one of as few as possible.
pub(crate) fn journal_calls(entry: JournalEntry) -> JournalEntry {
    let text = |text: &str| Some(text.to_owned());
    let done = AuditedCall {
        method: "JobService/ScaleJob".to_owned(),
        by: "operator".to_owned(),
        user: text("ada"),
        from: text("10.0.0.5"),
        request: Some(RequestId(9)),
        object: text("job/ada/web"),
        revisions: Some(AuditRevisions { before: 3, after: 4 }),
        refused: None,
        at_ms: None,
    };
    let refused = AuditedCall {
        method: "JobService/StopJob".to_owned(),
        by: "nobody".to_owned(),
        user: None,
        from: None,
        request: None,
        object: None,
        revisions: None,
        refused: Some(AuditRefusal {
            code: "UNAUTHENTICATED".to_owned(),
            reason: "CREDENTIAL_MISSING".to_owned(),
            times: 7,
        }),
        at_ms: Some(11),
    };
    JournalEntry { deltas: Vec::new(), calls: Some(vec![done, refused]), ..entry }
}

/// A member cell with every field.
pub(crate) fn member_row() -> MemberRow {
    MemberRow {
        id: MemberId(5),
        cell: name("beta"),
        gateways: vec!["cell7.example.com:7400".to_owned(), "[::1]:7400".to_owned()],
        labels: [("region".to_owned(), "eu".to_owned())].into(),
        cordoned: true,
        revision: 3,
        joined_ms: 4,
        changed_ms: 5,
        changed_by: "user/ada".to_owned(),
        draining: true,
    }
}

/// A federated job.
pub(crate) fn federated_row() -> FederatedJobRow {
    let federation = FederationSpec { cells: vec![name("beta")], ..FederationSpec::default() };
    FederatedJobRow {
        id: FederatedJobId(6),
        spec: FederatedJob { job: spec(JobKind::Service), federation },
        version: 2,
        state: FederatedState::Stopping,
        revision: 3,
        submitted_ms: 4,
        changed_ms: 5,
        changed_by: "user/ada".to_owned(),
        order: Some(ReleaseOrder { number: 1, kind: ReleaseOrderKind::Approve { stage: 2 } }),
        rebalance: Some(RebalanceOrder { number: 3, which: RebalancedTasks::Stuck }),
    }
}

/// A merged service.
pub(crate) fn merged_row() -> MergedServiceRow {
    let condition = |operator| LabelCondition { key: "app".to_owned(), value: "shop".to_owned(), operator };
    MergedServiceRow {
        id: MergedServiceId(8),
        user: name("ada"),
        name: name("shop"),
        selector: vec![condition(LabelOperator::Is), condition(LabelOperator::IsNot)],
        shares: BTreeMap::from([(name("canary"), 5)]),
        revision: 3,
        changed_ms: 1_700_000_000_000,
        changed_by: "user/ada".to_owned(),
    }
}

/// An endpoint with every field.
pub(crate) fn endpoint_full() -> Endpoint {
    Endpoint {
        task: TaskId { job: JobId(0x11), index: 2 },
        user: name("ada"),
        job: name("web"),
        incarnation: Incarnation(7),
        host: "127.0.0.1".to_owned(),
        ports: vec![PortAssignment { name: name("http"), number: 20_001 }],
        health: Health::Unknown,
        weight: 1,
        node: name("alpha"),
        healthy_since_ms: 1_700_000_000_006,
        domains: vec!["eu1".to_owned(), String::new()],
    }
}
