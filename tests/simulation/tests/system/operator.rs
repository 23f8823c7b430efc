//! Operators: they submit, change, scale, stop, restart, cordon and drain through the client library, order rollouts,
//! repeat answered requests, and remember what was acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use borough_client::{Client, ClientError, DrainMode, EndpointItem, JobRef, LabelChange, TaskRef};
use borough_kv::env::Rng;
use borough_model::RequestId;
use borough_model::job::JobSpec;
use borough_proto::convert::{job_spec_from_message, job_spec_to_message};
use borough_proto::v1;
use borough_proto::v1::order_rollout_request::Order;
use borough_testkit::{below, index};
use futures::StreamExt as _;
use parking_lot::Mutex;
use tonic::Code;

use crate::jobs::{ALLOC_NAMES, LABEL, LABELLED, NAMES, USERS, change, in_allocs, large, spec};
use crate::plan::Plan;
use crate::world::{NODES, Wrong, node_host};

/// The key of the operators' taints.
const TAINT: &str = "own";

/// Acknowledged changes, and observations.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Job ids that an acknowledged submit named.
    pub jobs: Vec<String>,
    /// Calls by method and outcome.
    pub calls: BTreeMap<String, u64>,
}

/// The surroundings of an operator.
#[derive(Clone)]
pub(crate) struct Desk {
    pub plan: Plan,
    pub ledger: Arc<Mutex<Ledger>>,
    pub wrong: Wrong,
    /// Operators make no more changes.
    pub calm: Arc<AtomicBool>,
}

pub(crate) struct Operator {
    client: Client,
    desk: Desk,
    rng: Arc<dyn Rng>,
}

impl Operator {
    /// An operator whose decisions follow from `rng`.
    pub(crate) fn new(client: Client, desk: Desk, rng: Arc<dyn Rng>) -> Self {
        Self { client, desk, rng }
    }

    /// Works until the calm phase. In some runs the first job is a large one.
    pub(crate) async fn run(self, with_large: bool) {
        if with_large {
            tokio::time::sleep(Duration::from_millis(3_000 + below(&*self.rng, 5_000))).await;
            *self.desk.ledger.lock().calls.entry("large_specs".to_owned()).or_default() += 1;
            self.submit(large(&*self.rng)).await;
        }
        while !self.desk.calm.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20 + below(&*self.rng, 500))).await;
            self.step().await;
        }
    }

    async fn step(&self) {
        match below(&*self.rng, 30) {
            0..=6 => self.submit(spec(&*self.rng)).await,
            7..=11 => self.scale().await,
            12..=14 => self.stop().await,
            15 => self.restart().await,
            16..=19 => self.node().await,
            20..=22 => self.change().await,
            25..=27 => self.submit(in_allocs(&*self.rng)).await,
            28 | 29 => self.in_allocs().await,
            _ => self.rollout().await,
        }
    }

    fn request(&self) -> RequestId {
        RequestId((u128::from(self.rng.next_u64()) << 64) | u128::from(self.rng.next_u64()))
    }

    fn job(&self) -> JobRef {
        JobRef::new(USERS[index(&*self.rng, USERS.len())], format!("job-{}", below(&*self.rng, NAMES)))
    }

    fn drain_mode(&self) -> DrainMode {
        if below(&*self.rng, 2) == 0 { DrainMode::Wait } else { DrainMode::Force }
    }

    fn repeats(&self) -> bool {
        self.desk.plan.is_on("request_repeated") && below(&*self.rng, 3) == 0
    }

    async fn submit(&self, spec: JobSpec) {
        let message = job_spec_to_message(&spec);
        let client = self.client.with_user(spec.user.as_str()).with_request_id(self.request());
        let first = client.job_submit(message.clone(), 0).await;
        self.noted("submit", &first);
        let Ok(answer) = first else { return };
        let id = answer.job.map(|job| job.id).unwrap_or_default();
        self.desk.ledger.lock().jobs.push(id.clone());
        if self.repeats() {
            tokio::time::sleep(Duration::from_millis(below(&*self.rng, 2_000))).await;
            let again = client.job_submit(message, 0).await;
            self.same("submit", &id, again.map(|answer| answer.job.map(|job| job.id).unwrap_or_default()));
        }
    }

    /// A repeated request gets the same answer.
    fn same(&self, what: &str, first: &str, again: Result<String, ClientError>) {
        match again {
            Ok(again) if again == first => {}
            Ok(again) => {
                self.wrong("keyed_once", format!("{what} answered {first}, and {again} when repeated"))
            }
            Err(ClientError::Refused(refusal)) => {
                self.wrong(
                    "keyed_once",
                    format!("{what} answered {first}, and was refused when repeated: {refusal}"),
                );
            }
            Err(_) => {}
        }
    }

    async fn scale(&self) {
        let (job, count) = (self.job(), u32::try_from(below(&*self.rng, 9)).unwrap());
        let client = self.client.with_user(&job.user).with_request_id(self.request());
        let first = client.job_scale(&job, count).await;
        self.noted("scale", &first);
        let Ok(answer) = first else { return };
        if self.repeats() {
            tokio::time::sleep(Duration::from_millis(below(&*self.rng, 2_000))).await;
            let id = |answer: v1::ScaleJobResponse| answer.job.map(|job| job.id).unwrap_or_default();
            let again = client.job_scale(&job, count).await;
            self.same("scale", &id(answer), again.map(id));
        }
    }

    /// Submits another spec for a job that runs: usually a rollout begins.
    async fn change(&self) {
        let job = self.job();
        let answer = self.client.with_user(&job.user).job_get(&job).await;
        let spec = answer.ok().and_then(|answer| job_spec_from_message(&answer.spec?).ok());
        let Some(mut spec) = spec else { return };
        let what = change(&mut spec, &*self.rng);
        *self.desk.ledger.lock().calls.entry(format!("change {what}")).or_default() += 1;
        self.submit(spec).await;
    }

    /// Scales, stops or restarts an alloc set, or a job in it.
    async fn in_allocs(&self) {
        let user = USERS[index(&*self.rng, USERS.len())];
        let job = JobRef::new(user, ALLOC_NAMES[index(&*self.rng, ALLOC_NAMES.len())]);
        let client = self.client.with_user(user).with_request_id(self.request());
        match below(&*self.rng, 4) {
            0 => self.noted("stop", &client.job_stop(&job).await),
            1 => {
                let count = u32::try_from(below(&*self.rng, 4)).unwrap();
                self.noted("scale", &client.job_scale(&job, count).await);
            }
            _ => {
                let task = TaskRef { job, index: u32::try_from(below(&*self.rng, 3)).unwrap() };
                self.noted("restart", &client.task_restart(&task).await);
            }
        }
    }

    /// Pauses, resumes, promotes or takes back a rollout.
    async fn rollout(&self) {
        let job = self.job();
        let (method, order) = match below(&*self.rng, 6) {
            0 => ("rollout pause", Order::Pause),
            1 | 2 => ("rollout resume", Order::Resume),
            3 | 4 => ("rollout promote", Order::Promote),
            _ => ("rollout undo", Order::Undo),
        };
        let version = match order {
            Order::Undo => u32::try_from(below(&*self.rng, 4)).unwrap(),
            _ => 0,
        };
        let client = self.client.with_user(&job.user).with_request_id(self.request());
        let first = client.rollout_order(&job, order, version, 0).await;
        self.noted(method, &first);
        let Ok(answer) = first else { return };
        if self.repeats() {
            tokio::time::sleep(Duration::from_millis(below(&*self.rng, 2_000))).await;
            let id = |answer: v1::OrderRolloutResponse| answer.job.map(|job| job.id).unwrap_or_default();
            let again = client.rollout_order(&job, order, version, 0).await;
            self.same("rollout", &id(answer), again.map(id));
        }
    }

    async fn stop(&self) {
        let job = self.job();
        let client = self.client.with_user(&job.user);
        self.noted("stop", &client.job_stop(&job).await);
    }

    async fn restart(&self) {
        let task = TaskRef { job: self.job(), index: u32::try_from(below(&*self.rng, 3)).unwrap() };
        let client = self.client.with_user(&task.job.user);
        if below(&*self.rng, 2) == 0 {
            self.noted("restart", &client.task_restart(&task).await);
        } else {
            self.noted("task stop", &client.task_stop(&task).await);
        }
    }

    async fn node(&self) {
        let node = node_host(index(&*self.rng, NODES));
        match below(&*self.rng, 8) {
            0 => self.noted("cordon", &self.client.node_cordon(&node).await),
            1 => self.noted("drain", &self.client.node_drain(&node, self.drain_mode()).await),
            2 => {
                let effect = [v1::TaintEffect::NoSchedule, v1::TaintEffect::NoExecute];
                let taint = taint_of(effect[index(&*self.rng, 2)]);
                self.noted("taint", &self.client.node_taint(&node, vec![taint]).await);
            }
            3 => self.noted("untaint", &self.client.node_untaint(&node, vec![taint_match()]).await),
            4 => self.noted("label", &self.client.node_label(&node, self.label()).await),
            _ => self.noted("uncordon", &self.client.node_uncordon(&node).await),
        }
    }

    /// Gives a node the label that some daemon jobs ask for, or takes it away.
    fn label(&self) -> LabelChange {
        let mut change = LabelChange::default();
        if below(&*self.rng, 3) == 0 {
            change.remove.push(LABEL.to_owned());
        } else {
            change.set.insert(LABEL.to_owned(), LABELLED.to_owned());
        }
        change
    }

    fn wrong(&self, rule: &str, what: String) {
        self.desk.wrong.lock().push(format!("{rule}: {what}"));
    }

    /// A refusal counts as success: requests come at any time. An internal error of a gateway does not.
    fn noted<T>(&self, method: &str, result: &Result<T, ClientError>) {
        let outcome = match result {
            Ok(_) => "ok",
            Err(ClientError::Refused(refusal)) => {
                if matches!(refusal.code, Code::Internal | Code::DataLoss | Code::Unknown) {
                    self.wrong("call", format!("{method}: {refusal}"));
                }
                "refused"
            }
            Err(_) => "unanswered",
        };
        *self.desk.ledger.lock().calls.entry(format!("{method} {outcome}")).or_default() += 1;
    }
}

/// A load balancer: follows every endpoint of a user, through all faults of gateways.
pub(crate) async fn watch(client: Client, user: &'static str, desk: Desk) {
    let mut items = client.with_user(user).watch_endpoints(user, "", None);
    while let Some(item) = items.next().await {
        let what = match item {
            Ok(EndpointItem::Published(_)) => "watch published",
            Ok(EndpointItem::Withdrawn(_)) => "watch withdrawn",
            Ok(EndpointItem::Resync(_)) => "watch resync",
            Ok(_) => "watch other",
            Err(error) => {
                desk.wrong.lock().push(format!("watch: it ended: {error}"));
                return;
            }
        };
        *desk.ledger.lock().calls.entry(what.to_owned()).or_default() += 1;
    }
}

/// A taint that no job tolerates.
fn taint_of(effect: v1::TaintEffect) -> v1::Taint {
    v1::Taint { key: TAINT.to_owned(), effect: effect.into(), ..v1::Taint::default() }
}

fn taint_match() -> v1::TaintMatch {
    v1::TaintMatch { key: TAINT.to_owned(), ..v1::TaintMatch::default() }
}

/// Lets every node take tasks again.
pub(crate) async fn uncordon_all(client: Client, done: Arc<AtomicBool>) {
    for node in 0..NODES {
        while !matches!(client.node_uncordon(&node_host(node)).await, Ok(_) | Err(ClientError::Refused(_))) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let untainted = |client: Client| async move {
            let answer = client.node_untaint(&node_host(node), vec![taint_match()]).await;
            matches!(answer, Ok(_) | Err(ClientError::Refused(_)))
        };
        while !untainted(client.clone()).await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    done.store(true, Ordering::Relaxed);
}
