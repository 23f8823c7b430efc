//! The auditor itself: correct histories pass, and each broken rule is detected in a history made by hand.

mod gang;
mod rollout;

use std::collections::BTreeMap;

use borough_model::job::{JobKind, JobOutcome, JobRow, JobSpec, JobState, job_new};
use borough_model::node::{NodeAlloc, NodeRow, NodeState, node_new};
use borough_model::task::{
    Charge, ChargeOwner, Endpoint, Evicted, Health, PortAssignment, TaskRow, TaskState,
};
use borough_model::{Delta, Incarnation, JobId, JournalEntry, NodeId, RequestId, Resources, TaskId};
use borough_scheduler_core::shard_of;
use borough_testkit::{job_spec, name, node_facts};

use borough_simulation::audit::Auditor;

const NODE: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);
const JOB: JobId = JobId(7);
const SHARDS: u32 = 4;

/// A cell made by hand, and the entries that made it.
struct Hand {
    entries: Vec<JournalEntry>,
    nodes: BTreeMap<NodeId, NodeRow>,
    allocs: BTreeMap<NodeId, NodeAlloc>,
    job: JobRow,
    at_ms: i64,
}

impl Hand {
    /// Two ready nodes of one core, a running job of three tasks of half a core with a port.
    fn new() -> Self {
        let spec = job_spec("ada", "web", JobKind::Service);
        let spec = JobSpec { count: 3, ..spec };
        let job = job_new(JOB, &spec, RequestId(1), 1_000);
        let mut hand = Self {
            entries: Vec::new(),
            nodes: BTreeMap::new(),
            allocs: BTreeMap::new(),
            job: job.clone(),
            at_ms: 1_000,
        };
        for node in [NODE, OTHER] {
            let facts = node_facts(Resources { cpu_millis: 1_000, ..Resources::default() });
            let row = NodeRow { state: NodeState::Ready, ..node_new(node, name("n"), facts, 1_000) };
            hand.nodes.insert(node, row);
            hand.allocs.insert(node, NodeAlloc::default());
            hand.node(node, |_| ());
        }
        hand.push("job_submit", vec![Delta::Job { row: job.into(), spec: Some(Box::new(spec)) }]);
        hand
    }

    fn push(&mut self, action: &str, deltas: Vec<Delta>) {
        self.at_ms += 100;
        let request = RequestId(u128::try_from(self.entries.len()).unwrap());
        let actor = format!("scheduler/{}", shard_of(JOB, SHARDS));
        self.entries.push(JournalEntry {
            request,
            actor,
            action: action.to_owned(),
            at_ms: self.at_ms,
            deltas,
            values: None,
            calls: None,
        });
    }

    fn node(&mut self, node: NodeId, change: impl FnOnce(&mut NodeRow)) {
        let row = self.nodes.get_mut(&node).unwrap();
        change(row);
        row.revision += 1;
        let row = row.clone();
        let alloc = self.alloc(node, |_| ());
        self.push("node", vec![Delta::Node { row }, alloc]);
    }

    fn alloc(&mut self, node: NodeId, change: impl FnOnce(&mut NodeAlloc)) -> Delta {
        let alloc = self.allocs.get_mut(&node).unwrap();
        change(alloc);
        alloc.epoch += 1;
        Delta::NodeAlloc { node, alloc: alloc.clone() }
    }

    fn take(&mut self, row: &TaskRow, sign: i64) -> Delta {
        let row = row.clone();
        self.alloc(row.node.unwrap(), move |alloc| {
            let cpu = i64::try_from(row.charge.resources.cpu_millis).unwrap() * sign;
            alloc.used.cpu_millis = alloc.used.cpu_millis.checked_add_signed(cpu).unwrap();
            alloc.tasks = alloc.tasks.checked_add_signed(i32::try_from(sign).unwrap()).unwrap();
            for port in row.port_numbers() {
                let _ = if sign > 0 { alloc.ports.insert(port) } else { alloc.ports.remove(&port) };
            }
        })
    }

    fn job(&mut self, change: impl FnOnce(&mut JobRow)) {
        change(&mut self.job);
        self.job.revision += 1;
        let row = self.job.clone();
        self.push("job", vec![Delta::Job { row: row.into(), spec: None }]);
    }

    fn place(&mut self, row: &TaskRow) {
        let alloc = self.take(row, 1);
        self.push("placement_commit", vec![alloc, Delta::Task { row: row.clone() }]);
    }

    fn leave(&mut self, row: &TaskRow) -> TaskRow {
        let alloc = self.take(row, -1);
        let left = TaskRow { state: TaskState::Pending, node: None, ports: Vec::new(), ..next(row) };
        self.push("task_report", vec![alloc, Delta::Task { row: left.clone() }]);
        left
    }

    fn publish(&mut self, row: &TaskRow) -> TaskRow {
        let row = TaskRow { state: TaskState::Running, health: Health::Healthy, ..next(row) };
        let endpoint = Delta::Endpoint { endpoint: endpoint(&row), revision: row.revision };
        self.push("task_report", vec![Delta::Task { row: row.clone() }, endpoint]);
        row
    }

    /// The broken rules, each once, in the order in which they were found.
    fn rules(&self) -> Vec<&'static str> {
        let mut auditor = Auditor::new(SHARDS, Vec::new());
        self.entries.iter().for_each(|entry| auditor.entry(entry));
        let mut rules: Vec<&'static str> = auditor.broken.iter().map(|broken| broken.rule).collect();
        rules.dedup();
        rules
    }
}

fn next(row: &TaskRow) -> TaskRow {
    TaskRow { revision: row.revision + 1, ..row.clone() }
}

fn endpoint(row: &TaskRow) -> Endpoint {
    Endpoint {
        task: row.id,
        user: name("ada"),
        job: name("web"),
        incarnation: row.incarnation,
        host: "127.0.0.1".to_owned(),
        ports: row.ports.clone(),
        health: row.health,
        weight: 1,
        node: name("n"),
        healthy_since_ms: 0,
        domains: Vec::new(),
    }
}

/// A first attempt of a task.
fn attempt(index: u32, node: NodeId, cpu_millis: u64, port: u16) -> TaskRow {
    let resources = Resources { cpu_millis, ..Resources::default() };
    TaskRow {
        state: TaskState::Assigned,
        node: Some(node),
        incarnation: Incarnation(1),
        ports: vec![PortAssignment { name: name("http"), number: port }],
        charge: Charge { owner: ChargeOwner::Task, resources },
        spec_version: 1,
        revision: 1,
        ..TaskRow::never_placed(TaskId { job: JOB, index })
    }
}

fn again(before: &TaskRow, attempt: TaskRow) -> TaskRow {
    TaskRow { incarnation: before.incarnation.next(), revision: before.revision + 1, ..attempt }
}

#[test]
fn what_is_right_passes() {
    let mut hand = Hand::new();
    let first = attempt(0, NODE, 500, 20_000);
    hand.place(&first);
    hand.place(&attempt(1, NODE, 500, 20_001));
    let running = hand.publish(&first);
    let withdrawn = Delta::EndpointWithdrawn {
        user: name("ada"),
        job: name("web"),
        task: running.id,
        revision: running.revision + 1,
    };
    let stopping = TaskRow { state: TaskState::Stopping, ..next(&running) };
    hand.push("task_stop", vec![Delta::Task { row: stopping.clone() }, withdrawn]);
    let left = hand.leave(&stopping);
    hand.at_ms += 10_000;
    let second = again(&left, attempt(0, NODE, 500, 20_000));
    hand.place(&second);
    hand.publish(&second);
    hand.node(NODE, |row| row.schedulable = false);
    hand.place(&attempt(2, OTHER, 500, 20_000));
    hand.job(|job| job.count = 1);
    assert_eq!(hand.rules(), [] as [&str; 0]);
}

#[test]
fn a_node_over_its_capacity_is_caught() {
    let mut hand = Hand::new();
    hand.place(&attempt(0, NODE, 600, 20_000));
    hand.place(&attempt(1, NODE, 600, 20_001));
    assert_eq!(hand.rules(), ["over_capacity"]);
}

#[test]
fn a_lost_update_of_a_commitment_is_caught() {
    let mut hand = Hand::new();
    hand.place(&attempt(0, NODE, 500, 20_000));
    let row = attempt(1, NODE, 600, 20_001);
    let alloc = hand.alloc(NODE, |alloc| alloc.tasks = 1);
    hand.push("placement_commit", vec![alloc, Delta::Task { row }]);
    assert_eq!(hand.rules(), ["over_capacity", "alloc_sum"]);
}

#[test]
fn a_port_given_twice_or_too_soon_is_caught() {
    let mut hand = Hand::new();
    hand.place(&attempt(0, NODE, 100, 20_000));
    hand.place(&attempt(1, NODE, 100, 20_000));
    assert_eq!(hand.rules(), ["port_twice"]);
    let mut hand = Hand::new();
    let first = attempt(0, NODE, 100, 20_000);
    hand.place(&first);
    hand.leave(&first);
    hand.at_ms += 9_000;
    hand.place(&attempt(1, NODE, 100, 20_000));
    assert_eq!(hand.rules(), ["port_cooling"]);
}

#[test]
fn a_second_concurrent_attempt_and_an_old_attempt_are_caught() {
    let mut hand = Hand::new();
    let first = attempt(0, NODE, 100, 20_000);
    hand.place(&first);
    let second = again(&first, attempt(0, OTHER, 100, 20_000));
    let allocs = [hand.take(&first, -1), hand.take(&second, 1)];
    let deltas = allocs.into_iter().chain([Delta::Task { row: second.clone() }]).collect();
    hand.push("placement_commit", deltas);
    assert_eq!(hand.rules(), ["attempt_twice"]);
    let mut hand = Hand::new();
    hand.place(&second);
    let left = hand.leave(&second);
    hand.place(&TaskRow { incarnation: Incarnation(1), ..again(&left, first) });
    assert_eq!(hand.rules(), ["attempt_back"]);
}

#[test]
fn an_attempt_that_was_over_and_is_charged_again_is_caught() {
    let mut hand = Hand::new();
    let first = attempt(0, NODE, 100, 20_000);
    hand.place(&first);
    let left = hand.leave(&first);
    hand.place(&TaskRow { revision: left.revision + 1, ..first });
    assert_eq!(hand.rules(), ["attempt_again"]);
}

#[test]
fn a_placement_for_a_job_that_was_stopped_ended_or_shrunk_is_caught() {
    for state in [JobState::Stopping, JobState::Ended { outcome: JobOutcome::Stopped }, JobState::Waiting] {
        let mut hand = Hand::new();
        hand.job(|job| job.state = state);
        hand.place(&attempt(0, NODE, 100, 20_000));
        assert_eq!(hand.rules(), ["placed_job"], "{state:?}");
    }
    let mut hand = Hand::new();
    hand.job(|job| job.count = 2);
    hand.place(&attempt(1, NODE, 100, 20_000));
    hand.place(&attempt(2, NODE, 100, 20_001));
    assert_eq!(hand.rules(), ["placed_index"]);
}

#[test]
fn a_placement_on_a_closed_node_is_caught() {
    type Close = fn(&mut NodeRow);
    let closings: [(Close, &str); 4] = [
        (|row| row.schedulable = false, "placed_closed"),
        (|row| row.draining = true, "placed_closed"),
        (|row| row.state = NodeState::Lost, "placed_lost"),
        (|row| row.state = NodeState::Recovering, "placed_lost"),
    ];
    for (close, rule) in closings {
        let mut hand = Hand::new();
        hand.node(NODE, close);
        hand.place(&attempt(0, NODE, 100, 20_000));
        assert_eq!(hand.rules(), [rule]);
    }
}

#[test]
fn a_placement_by_another_shard_or_twice_in_one_batch_is_caught() {
    let mut hand = Hand::new();
    hand.place(&attempt(0, NODE, 100, 20_000));
    hand.entries.last_mut().unwrap().actor = format!("scheduler/{}", (shard_of(JOB, SHARDS) + 1) % SHARDS);
    assert_eq!(hand.rules(), ["placed_shard"]);
    let mut hand = Hand::new();
    hand.place(&attempt(0, NODE, 100, 20_000));
    hand.place(&attempt(1, NODE, 100, 20_001));
    hand.entries.last_mut().unwrap().request = hand.entries[hand.entries.len() - 2].request;
    assert_eq!(hand.rules(), ["batch_once"]);
}

#[test]
fn a_gang_in_pieces_is_caught() {
    let mut hand = Hand::new();
    let Some(Delta::Job { spec: Some(spec), .. }) = hand.entries.last_mut().unwrap().deltas.first_mut()
    else {
        panic!("the last entry is the job's")
    };
    spec.min_member = 2;
    hand.place(&attempt(0, NODE, 100, 20_000));
    assert_eq!(hand.rules(), ["gang_short"]);
}

#[test]
fn a_node_that_changes_without_its_token_is_caught() {
    let mut hand = Hand::new();
    hand.node(NODE, |row| row.schedulable = false);
    hand.entries.last_mut().unwrap().deltas.truncate(1);
    assert_eq!(hand.rules(), ["token"]);
}

#[test]
fn an_endpoint_that_stays_or_comes_back_is_caught() {
    let mut hand = Hand::new();
    let first = attempt(0, NODE, 100, 20_000);
    hand.place(&first);
    let running = hand.publish(&first);
    let stopping = TaskRow { state: TaskState::Stopping, ..next(&running) };
    hand.push("task_stop", vec![Delta::Task { row: stopping }]);
    assert_eq!(hand.rules(), ["endpoint_row"]);
    let last = hand.entries.last_mut().unwrap();
    let (user, job) = (name("ada"), name("web"));
    last.deltas = vec![Delta::EndpointWithdrawn { user, job, task: running.id, revision: running.revision }];
    hand.publish(&running);
    assert_eq!(hand.rules(), ["published_again"]);
}

#[test]
fn two_endpoints_at_one_port_are_caught() {
    let mut hand = Hand::new();
    let (first, second) = (attempt(0, NODE, 100, 20_000), attempt(1, OTHER, 100, 20_000));
    hand.place(&first);
    hand.place(&second);
    hand.publish(&first);
    hand.publish(&second);
    // Both nodes have one name here.
    assert_eq!(hand.rules(), ["endpoint_clash"]);
}

/// Another job, of a priority, in the same shard.
fn other_job(hand: &mut Hand, priority: u32, revision: u64) -> JobId {
    let id = (100..).map(JobId).find(|id| shard_of(*id, SHARDS) == shard_of(JOB, SHARDS)).unwrap();
    let row = JobRow { id, name: name("low"), priority, revision, ..hand.job.clone() };
    hand.push("job", vec![Delta::Job { row: row.into(), spec: None }]);
    id
}

/// A task preempts another, and is held until that has exited.
fn evict(hand: &mut Hand, victim: &TaskRow, preemptor: TaskRow) -> (TaskRow, TaskRow) {
    let evicted = Some(Evicted { by: preemptor.id, notice_max_ms: None, attempt: preemptor.incarnation });
    let stopping = TaskRow { state: TaskState::Stopping, evicted: evicted.map(Box::new), ..next(victim) };
    let held = TaskRow { state: TaskState::Held, promised: true, ports: Vec::new(), ..preemptor };
    let cpu_millis = held.charge.resources.cpu_millis;
    let alloc = hand.alloc(NODE, |alloc| {
        alloc.promised.cpu_millis += cpu_millis;
        alloc.tasks += 1;
    });
    let rows = [&stopping, &held].map(|row| Delta::Task { row: row.clone() });
    hand.push("placement_commit", [vec![alloc], rows.to_vec()].concat());
    (stopping, held)
}

/// A task of a running job of priority `higher` preempts one of `lower`. Returns the broken rules.
fn rules_of_eviction(higher: u32, lower: u32) -> Vec<&'static str> {
    let mut hand = Hand::new();
    hand.job(|job| job.priority = higher);
    let job = other_job(&mut hand, lower, 1);
    let victim = TaskRow { id: TaskId { job, index: 0 }, ..attempt(0, NODE, 800, 20_000) };
    hand.place(&victim);
    evict(&mut hand, &victim, attempt(0, NODE, 800, 20_001));
    hand.rules()
}

#[test]
fn an_eviction_of_an_equal_or_protected_task_is_caught() {
    for (higher, lower) in [(200, 100), (150, 100), (99, 98), (300, 299), (350, 0)] {
        assert_eq!(rules_of_eviction(higher, lower), Vec::<&str>::new(), "{higher} before {lower}");
    }
    assert_eq!(rules_of_eviction(200, 300), ["evicted_priority"]);
    assert_eq!(rules_of_eviction(150, 150), ["evicted_priority"]);
    assert_eq!(rules_of_eviction(250, 200), ["evicted_band"]);
    assert_eq!(rules_of_eviction(350, 300), ["evicted_band"]);
}

#[test]
fn an_eviction_by_one_that_was_displaced_within_its_band_is_caught() {
    for (lower, broken) in [(100, vec!["evicted_cascade"]), (50, Vec::new())] {
        let mut hand = Hand::new();
        hand.job(|job| job.priority = 150);
        let job = other_job(&mut hand, 160, 1);
        let first = attempt(0, NODE, 500, 20_000);
        hand.place(&first);
        let other = TaskRow { id: TaskId { job, index: 0 }, ..attempt(0, NODE, 800, 20_001) };
        let (stopping, held) = evict(&mut hand, &first, other);
        let displaced = hand.leave(&stopping);
        let assigned = TaskRow { state: TaskState::Assigned, promised: false, ..next(&held) };
        let alloc = hand.alloc(NODE, |alloc| {
            std::mem::swap(&mut alloc.used, &mut alloc.promised);
        });
        hand.push("task_report", vec![alloc, Delta::Task { row: assigned.clone() }]);
        // It was of higher priority and no longer is: its victim may not evict it within the band.
        other_job(&mut hand, lower, 2);
        evict(&mut hand, &assigned, again(&displaced, attempt(0, NODE, 500, 20_002)));
        assert_eq!(hand.rules(), broken);
    }
}

#[test]
fn a_victim_of_two_preemptors_or_of_none_is_caught() {
    let mut hand = Hand::new();
    let job = other_job(&mut hand, 100, 1);
    let victim = TaskRow { id: TaskId { job, index: 0 }, ..attempt(0, NODE, 800, 20_000) };
    hand.place(&victim);
    let (stopping, _) = evict(&mut hand, &victim, attempt(0, NODE, 400, 20_001));
    evict(&mut hand, &stopping, attempt(1, NODE, 400, 20_002));
    assert_eq!(hand.rules(), ["evicted_twice"]);
    // The preemptor is missing in the commit.
    hand.entries.pop();
    hand.entries.last_mut().unwrap().deltas.pop();
    let alloc = hand.entries.last_mut().unwrap().deltas.remove(0);
    assert!(matches!(alloc, Delta::NodeAlloc { .. }));
    assert_eq!(hand.rules(), ["evicted_for_nobody"]);
}
