//! Keyed requests over a store that leaves the result of every commit unknown. Each request takes effect once and keeps
//! its answer, even if the cell has changed since.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_kv::env::{Clock, ManualClock, SeededRng};
use borough_kv::{FaultPlan, Transaction};
use borough_model::job::{JobKind, JobSpec};
use borough_model::task::{Attempt, Health, TaskEvent};
use borough_model::{Incarnation, JobId, NodeId, RequestId, Resources, TaskId};
use borough_proto::convert::job_spec_to_message;
use borough_proto::v1;
use borough_proto::v1::cell_service_server::CellService;
use borough_proto::v1::job_service_server::JobService;
use borough_proto::v1::node_service_server::NodeService;
use borough_store::StoreResult;
use borough_store::cell::{CellMeta, CellState, cell_gate_set};
use borough_store::job::job_submit;
use borough_store::journal::ChangeSet;
use borough_store::mirror::MirrorFollower;
use borough_store::node::{NodeRegistration, node_register, node_reported};
use borough_store::task::TaskBook;
use borough_testkit::{MemoryStore, OpenCell, change, job_spec, name, node_facts, placed_on};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request};

use super::*;
use crate::auth::Principal;
use crate::job::JobServer;
use crate::node::NodeServer;
use crate::session::metrics::DeliveryMetrics;

const NODE: NodeId = NodeId(1);
/// The task that runs.
pub(crate) const TASK: TaskId = TaskId { job: JobId(1), index: 0 };

/// The context of a request with an id.
pub(crate) fn context(request: u128) -> Option<v1::RequestContext> {
    Some(v1::RequestContext { request_id: RequestId(request).to_string(), user: "ada".to_owned() })
}

/// A request that the authentication layer has let through as an operator's.
pub(crate) fn operator_asks<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Principal::Operator);
    request
}

/// A request to submit a job to the gateway's cell.
pub(crate) fn submission(request: u128, spec: &JobSpec) -> v1::SubmitJobRequest {
    v1::SubmitJobRequest {
        context: context(request),
        cell: "alpha".to_owned(),
        spec: Some(job_spec_to_message(spec)),
        expected_revision: 0,
        expected_job: String::new(),
        expected_absent: false,
    }
}

/// A gateway on a store that commits and reports that the result is unknown.
pub(crate) struct TestGateway {
    pub(crate) cells: Arc<Cells>,
    /// The cell without faults.
    quiet: OpenCell,
    pub(crate) clock: Arc<ManualClock>,
}

impl TestGateway {
    /// Removes the whole journal.
    pub(crate) async fn journal_trim(&self) {
        let trimmed = self.quiet.write(async |tx, space| {
            borough_store::journal::journal_trim(tx, space, borough_kv::Versionstamp::MAX, 1).await
        });
        assert!(trimmed.await.unwrap().is_some());
    }

    /// Starts a gateway with one cell, one node, and a task that runs there.
    pub(crate) async fn new() -> Self {
        Self::with_faults(FaultPlan { commit_then_unknown: 1.0, ..FaultPlan::none() }).await
    }

    /// The same, on a store with the faults of `plan`.
    pub(crate) async fn with_faults(plan: FaultPlan) -> Self {
        let manual = ManualClock::at(1_000);
        let clock: Arc<dyn Clock> = manual.clone();
        let store = MemoryStore::new(Arc::clone(&clock), SeededRng::shared(1));
        let db = store.faulty(plan, SeededRng::shared(2));
        let quiet = OpenCell::create(store.quiet(), &CellMeta::default()).await;
        let space = quiet.space.clone();
        let mirror =
            MirrorFollower::spawn(quiet.db.clone(), space.clone(), Arc::clone(&clock), SeededRng::shared(3));
        let cell = CellContext::open(
            CellConnection { space, name: name("alpha"), db, mirror, identity_url: Default::default() },
            Arc::clone(&clock),
            SeededRng::shared(4),
            DeliveryMetrics::default(),
            &CancellationToken::new(),
        );
        let cells = Arc::new(Cells(BTreeMap::from([(name("alpha"), cell)])));
        let gateway = Self { cells, quiet, clock: manual };
        gateway.furnish().await;
        gateway
    }

    async fn furnish(&self) {
        let capacity = Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, ..Resources::default() };
        let facts = node_facts(capacity);
        let spec = job_spec("ada", "web", JobKind::Service);
        let registration = NodeRegistration::new(name("n1"), facts, NODE, 1);
        let (registration, spec) = (&registration, &spec);
        self.change(async |tx, changes| {
            let (_, writer) = node_register(tx, changes, registration).await?;
            node_reported(&writer, changes, &[]).await?;
            job_submit(tx, changes, spec, TASK.job).await.map(drop)
        })
        .await;
        self.task_starts(1).await;
    }

    /// Changes the store without faults, and waits until the gateway has seen it.
    pub(crate) async fn change<T>(
        &self,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> T {
        let changed = self.quiet.change_at(change(7, "test", self.clock.wall_ms()), closure).await;
        let (value, cursor) = changed.unwrap();
        self.cells.get("alpha").unwrap().mirror.wait_for(cursor).await.unwrap();
        value
    }

    /// As [`TestGateway::change`], of what leaves no journal entry. So no mirror ever shows it.
    pub(crate) async fn write<T>(
        &self,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> T {
        let changed = self.quiet.change_at(change(7, "test", self.clock.wall_ms()), closure).await;
        changed.unwrap().0
    }

    /// Places the task's attempt of that number and runs it.
    pub(crate) async fn task_starts(&self, incarnation: u64) {
        let incarnation = Incarnation(incarnation);
        let resources = Resources { cpu_millis: 100, ..Resources::default() };
        let place = placed_on(NODE, incarnation, resources);
        let attempt = Attempt { node: NODE, incarnation };
        let (pid, started_ms, health) = (10, 1_000, Health::Healthy);
        let started = TaskEvent::ProcessStarted { attempt, pid, started_ms, health, cores: Vec::new() };
        self.task_events(&[place, started]).await;
    }

    /// Applies events to the task.
    pub(crate) async fn task_events(&self, events: &[TaskEvent]) {
        self.change(async |tx, changes| {
            let mut book = TaskBook::read(tx, changes.space(), [TASK]).await?;
            book.extend_nodes(tx, changes.space(), [NODE]).await?;
            for event in events {
                book.apply(TASK, event, changes.at_ms())?.unwrap();
            }
            book.write(tx, changes).await
        })
        .await;
    }

    async fn gate_set(&self, state: CellState) {
        let set = self.quiet.write(async |tx, space| cell_gate_set(tx, space, state, 1_000).await);
        set.await.unwrap();
    }

    pub(crate) async fn submit(
        &self,
        request: u128,
        job: &str,
    ) -> Result<v1::SubmitJobResponse, tonic::Status> {
        let spec = job_spec("ada", job, JobKind::Service);
        let answer = JobServer::new(Arc::clone(&self.cells))
            .submit_job(operator_asks(submission(request, &spec)))
            .await;
        answer.map(tonic::Response::into_inner)
    }

    async fn lost_per_minute(&self, request: u128, most: u32, expected: u64) -> Result<u64, tonic::Status> {
        let settings = v1::CellSettings { lost_per_minute_max: Some(most), ..Default::default() };
        let message = v1::UpdateCellRequest {
            context: context(request),
            name: "alpha".to_owned(),
            settings: Some(settings),
            expected_revision: expected,
        };
        let answer = CellServer::new(Arc::clone(&self.cells)).update_cell(operator_asks(message)).await;
        Ok(answer?.into_inner().cell.unwrap().settings.unwrap().revision)
    }

    async fn cordoned(&self) -> bool {
        let message =
            v1::GetNodeRequest { context: context(0), cell: "alpha".to_owned(), name: "n1".to_owned() };
        let answer = NodeServer::new(Arc::clone(&self.cells), std::time::Duration::ZERO)
            .get_node(operator_asks(message))
            .await;
        !answer.unwrap().into_inner().node.unwrap().schedulable
    }
}

#[tokio::test(start_paused = true)]
async fn an_applied_submission_keeps_its_answer_when_the_cell_drains_or_has_moved() {
    let gateway = TestGateway::new().await;
    let first = gateway.submit(1, "api").await.unwrap();
    assert!(first.changed);
    for state in [CellState::Draining, CellState::Moved] {
        gateway.gate_set(state).await;
        let again = gateway.submit(1, "api").await.unwrap();
        assert_eq!(
            (again.job.unwrap().id, again.changed),
            (first.job.clone().unwrap().id, true),
            "{state:?}"
        );
        let other = gateway.submit(2 + state as u128, "other").await.unwrap_err();
        assert_eq!(other.code(), Code::FailedPrecondition, "{state:?} takes no new work");
    }
}

#[tokio::test(start_paused = true)]
async fn an_applied_submission_keeps_its_answer_when_the_cell_has_no_room_for_others() {
    let gateway = TestGateway::new().await;
    let first = gateway.submit(1, "api").await.unwrap();
    let ended = &gateway.cells.get("alpha").unwrap().ended_jobs;
    ended.kept_note(usize::MAX);
    let other = gateway.submit(2, "other").await.unwrap_err();
    assert_eq!(other.code(), Code::ResourceExhausted, "{other}");
    ended.kept_note(usize::MAX);
    assert_eq!(gateway.submit(1, "api").await.unwrap().job.unwrap().id, first.job.unwrap().id);
}

#[tokio::test(start_paused = true)]
async fn settings_for_a_revision_are_set_though_the_result_was_unknown() {
    let gateway = TestGateway::new().await;
    assert_eq!(gateway.lost_per_minute(1, 10, 1).await.unwrap(), 2);
    assert_eq!(gateway.lost_per_minute(1, 10, 1).await.unwrap(), 2, "the call is repeated");
    let late = gateway.lost_per_minute(2, 20, 1).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition, "another one was made for what is no more");
    // A request that changes nothing is answered at once.
    let unchanged =
        tokio::time::timeout(std::time::Duration::from_secs(1), gateway.lost_per_minute(3, 10, 2));
    assert_eq!(unchanged.await.expect("nobody waits for an entry that is not there").unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_order_to_a_node_that_is_repeated_late_does_not_undo_the_next_one() {
    let gateway = TestGateway::new().await;
    let nodes = NodeServer::new(Arc::clone(&gateway.cells), std::time::Duration::ZERO);
    let cordon =
        || v1::CordonNodeRequest { context: context(1), cell: "alpha".to_owned(), name: "n1".to_owned() };
    nodes.cordon_node(operator_asks(cordon())).await.unwrap();
    assert!(gateway.cordoned().await);
    let uncordon =
        v1::UncordonNodeRequest { context: context(2), cell: "alpha".to_owned(), name: "n1".to_owned() };
    nodes.uncordon_node(operator_asks(uncordon)).await.unwrap();
    nodes.cordon_node(operator_asks(cordon())).await.unwrap();
    assert!(!gateway.cordoned().await, "the first order was carried out once");
}

/// Each hold of the mirror's lock looks at 1,024 nodes. The parts together are all of them, each once and in order.
#[tokio::test(start_paused = true)]
async fn a_list_of_nodes_goes_over_several_parts_of_the_mirror() {
    let gateway = TestGateway::with_faults(FaultPlan::none()).await;
    for hundreds in 0..21_u64 {
        gateway
            .change(async |tx, changes| {
                for number in hundreds * 100..(hundreds + 1) * 100 {
                    let facts = node_facts(Resources::default());
                    let named = name(&format!("m{number:04}"));
                    let registration =
                        NodeRegistration::new(named, facts, NodeId(1_000 + number), number + 2);
                    node_register(tx, changes, &registration).await?;
                }
                Ok(())
            })
            .await;
    }
    let nodes = NodeServer::new(Arc::clone(&gateway.cells), std::time::Duration::ZERO);
    let listed = async |selector: Vec<v1::LabelMatch>, limit: u32| {
        let (mut names, mut page) = (Vec::new(), String::new());
        loop {
            let message = v1::ListNodesRequest {
                context: context(0),
                cell: "alpha".to_owned(),
                page: Some(v1::PageRequest { limit, page }),
                selector: selector.clone(),
                ..v1::ListNodesRequest::default()
            };
            let answer = nodes.list_nodes(operator_asks(message)).await.unwrap().into_inner();
            names.extend(answer.nodes.into_iter().map(|node| node.name));
            page = answer.next_page;
            if page.is_empty() {
                return names;
            }
        }
    };
    let all: Vec<String> =
        (0..2_100).map(|number| format!("m{number:04}")).chain(["n1".to_owned()]).collect();
    assert_eq!(listed(Vec::new(), 0).await, all);
    let is = |value: &str, not| v1::LabelMatch { key: "node.name".to_owned(), value: value.to_owned(), not };
    for wanted in ["m0000", "m1023", "m1024", "m2099", "n1"] {
        assert_eq!(listed(vec![is(wanted, false)], 0).await, [wanted]);
    }
    assert!(listed(vec![is("m2100", false)], 0).await.is_empty());
    assert_eq!(listed(vec![is("m1024", true)], 700).await.len(), all.len() - 1);
}
