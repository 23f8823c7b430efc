//! Rules that are checked after every step: in the journal, in the rows, and on the machines.

use std::collections::{BTreeMap, BTreeSet};

use borough_agent::AttemptId;
use borough_kv::{Idempotency, Version};
use borough_model::node::{NodeRow, NodeState};
use borough_model::task::{Endpoint, TaskRow, TaskState};
use borough_model::{Delta, JobId, JournalEntry, NodeId, RequestId, TaskId};
use borough_simulation::audit::Auditor;
use borough_simulation::rest::unsettled;
use borough_store::StoreError;
use borough_store::check::{CellRows, CheckMode, cell_rows_read, cell_violations};
use borough_store::journal::{Cursor, journal_tail};
use borough_store::keys::{self, NodeLiveAtKey, NodeLiveChangeKey, NodeSessionKey, Prefix, RangeOptions};
use borough_store::lease::lease_read;
use borough_store::node::node_live_list;

use crate::clock::WALL_BEGIN_MS;
use crate::operator::Ledger;
use crate::processes::ConcurrentAttempt;
use crate::world::{LEASE_MS, LOST_AFTER_MS, WORKERS, World};

/// Entries of the journal per page.
const PAGE_ENTRIES: usize = 1_024;
/// The longest allowed message: the default limit of gRPC.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Milliseconds for which an endpoint may outlive its process while its node is there: the time of a report, over a
/// paused gateway and its successor.
const ENDPOINT_DEAD_MS: u64 = 20_000;
/// Milliseconds in which a controller that leads without a break declares a silent node lost: the tolerance, and the
/// time for which a gateway still renews for its last session. Each controller counts from its own start.
const LEADS_MS: u64 = LOST_AFTER_MS + 4_000;
/// The most renewals of a lease between two checks in one session, with a margin for late ones.
const BEATS_MAX: u64 = 10;
/// Requests that run in several transactions, each of which checks what it changes.
const IN_STEPS: [&str; 1] = ["node_drain_force"];
/// Milliseconds by which commits may be later than their decisions, without the pause of a role.
const COMMIT_MS: i64 = 1_000;

/// A broken rule, and when it was first seen.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub rule: String,
    pub at_ms: u64,
    pub what: String,
}

/// When the process of a published endpoint went missing, and since when an agent is there that can report it.
#[derive(Clone, Copy)]
struct ProcessGone {
    since_ms: u64,
    agent_since_ms: u64,
}

/// The controller that leads.
#[derive(Default)]
struct LeaderSeen {
    /// Since when it leads without a break.
    since_ms: u64,
    /// The epoch and the beat of its lease, and when they changed.
    beat: (u64, u64),
    beat_ms: u64,
}

/// The audit of one run.
pub(crate) struct Audit {
    auditor: Auditor,
    known: usize,
    cursor: Cursor,
    nodes: BTreeMap<NodeId, NodeRow>,
    tasks: BTreeMap<TaskId, TaskRow>,
    jobs: BTreeSet<JobId>,
    endpoints: BTreeMap<TaskId, Endpoint>,
    /// Published endpoints whose processes are missing.
    dead: BTreeMap<(TaskId, u64), ProcessGone>,
    requests: BTreeMap<(RequestId, String), u64>,
    leader: LeaderSeen,
    /// The session and the beat of each node's lease.
    beats: BTreeMap<NodeId, (u64, u64)>,
    first_version: Option<Version>,
    /// The first violation of each rule.
    pub broken: BTreeMap<String, Broken>,
}

impl Audit {
    /// An audit before the first entry.
    pub(crate) fn new() -> Self {
        Self {
            auditor: Auditor::new(WORKERS, Vec::new()),
            known: 0,
            cursor: Cursor::start(1),
            nodes: BTreeMap::new(),
            tasks: BTreeMap::new(),
            jobs: BTreeSet::new(),
            endpoints: BTreeMap::new(),
            dead: BTreeMap::new(),
            requests: BTreeMap::new(),
            leader: LeaderSeen::default(),
            beats: BTreeMap::new(),
            first_version: None,
            broken: BTreeMap::new(),
        }
    }

    /// Records a broken rule.
    pub(crate) fn note(&mut self, now_ms: u64, rule: &str, what: String) {
        let broken = Broken { rule: rule.to_owned(), at_ms: now_ms, what };
        self.broken.entry(rule.to_owned()).or_insert(broken);
    }

    /// How often each action was seen.
    pub(crate) fn seen(&self) -> &BTreeMap<String, u64> {
        &self.auditor.seen
    }

    pub(crate) fn step(&mut self, world: &World) {
        // A role may be paused between a decision and its commit.
        self.auditor.late_ms = COMMIT_MS.saturating_add_unsigned(world.pause_max_ms);
        self.journal(world);
        for twice in world.processes.twice_take() {
            self.note(world.now_ms, "attempt_twice", twice);
        }
        self.processes(world);
        self.leader(world);
        self.published(world);
        self.leases(world);
        let ((length, who), _) = world.network.most();
        if length > MESSAGE_BYTES_MAX {
            self.note(world.now_ms, "message_bound", format!("{who} sends {length} bytes in one message"));
        }
    }

    /// Checks the present rows, each against all others.
    pub(crate) fn rows(&mut self, world: &World) -> CellRows {
        let space = &world.space;
        let rows = world
            .quiet
            .run("rows", Idempotency::ReadOnly, |tx, _| async move { cell_rows_read(&tx, space).await });
        let rows = world.alone(rows).unwrap();
        for violation in cell_violations(&rows, CheckMode::Always) {
            self.note(world.now_ms, violation.rule, violation.to_string());
        }
        rows
    }

    /// The unfinished work of the cell.
    pub(crate) fn open(&mut self, world: &World) -> Vec<String> {
        let rows = self.rows(world);
        unsettled(&rows, WALL_BEGIN_MS.saturating_add_unsigned(world.now_ms))
    }

    fn journal(&mut self, world: &World) {
        loop {
            let (space, after) = (&world.space, self.cursor);
            let page = world.quiet.run("audit", Idempotency::ReadOnly, |tx, _| async move {
                journal_tail(&tx, space, after, PAGE_ENTRIES).await
            });
            let page = world.alone(page).unwrap();
            for (cursor, entry) in &page.entries {
                let version = cursor.stamp.version();
                let first = *self.first_version.get_or_insert(version);
                self.entry(world, (version, (version - first) / 1_000), entry);
            }
            self.cursor = page.next;
            if !page.more {
                return;
            }
        }
    }

    fn entry(&mut self, world: &World, (version, at_ms): (Version, i64), entry: &JournalEntry) {
        let deltas: Vec<String> = entry.deltas.iter().map(delta_text).collect();
        world.trace.note(format_args!("entry {} {}: {}", entry.actor, entry.action, deltas.join("; ")));
        let closed = |(from, until): &(Version, Version)| *from < version && version < *until;
        if entry.action == "placement_commit" && world.gate_closed.iter().any(closed) {
            self.note(
                world.now_ms,
                "gate",
                format!("{} places while the cell's gate is not open", entry.actor),
            );
        }
        if entry.actor.starts_with("user/") && !IN_STEPS.contains(&entry.action.as_str()) {
            for request in requests_of(entry) {
                let times = self.requests.entry((request, entry.action.clone())).or_default();
                *times += 1;
                if *times > 1 {
                    let what = format!("{} of {} has taken effect {times} times", entry.action, entry.actor);
                    self.note(world.now_ms, "keyed_once", what);
                }
            }
        }
        for delta in &entry.deltas {
            self.delta(world, delta);
        }
        // Durations are those of the store: the writers' wall clocks may be off.
        self.auditor.entry(&JournalEntry { at_ms, ..entry.clone() });
        let fresh: Vec<_> = self.auditor.broken[self.known..].to_vec();
        self.known = self.auditor.broken.len();
        for broken in fresh {
            self.note(
                world.now_ms,
                broken.rule,
                format!("{} of {}: {}", entry.action, entry.actor, broken.what),
            );
        }
    }

    fn delta(&mut self, world: &World, delta: &Delta) {
        match delta {
            Delta::Node { row } => {
                let was = self.nodes.insert(row.id, row.clone()).map(|row| row.state);
                let ready = row.state == NodeState::Ready && was.is_some_and(|was| was != NodeState::Ready);
                let lost = |task: &&TaskRow| task.node == Some(row.id) && task.state == TaskState::Lost;
                if ready && let Some(task) = self.tasks.values().find(lost) {
                    let what = format!("{} is ready, and {} is lost on it", row.name, task.id);
                    self.note(world.now_ms, "ready_with_lost", what);
                }
            }
            Delta::NodeRemoved { node, .. } => drop(self.nodes.remove(node)),
            Delta::Job { row, .. } => drop(self.jobs.insert(row.id)),
            Delta::Task { row } => drop(self.tasks.insert(row.id, row.clone())),
            Delta::TaskRemoved { task, .. } => drop(self.tasks.remove(task)),
            Delta::JobRemoved { job, .. } => self.tasks.retain(|task, _| task.job != *job),
            Delta::Endpoint { endpoint, .. } => drop(self.endpoints.insert(endpoint.task, endpoint.clone())),
            Delta::EndpointWithdrawn { task, .. } => drop(self.endpoints.remove(task)),
            _ => {}
        }
    }

    fn node_by_name(&self, name: &str) -> Option<&NodeRow> {
        self.nodes.values().find(|row| row.name.as_str() == name)
    }

    /// A new process is the only one of its task. The exception is a node that is lost, or has not reported since its
    /// return. An agent that is cut off keeps its attempts running, and nobody can know better.
    fn processes(&mut self, world: &World) {
        for concurrent in world.processes.concurrent_take() {
            // A copy of a machine claims the node of the original.
            let ready = |machine: &str| {
                let node = machine.strip_suffix("-twin").unwrap_or(machine);
                self.node_by_name(node).is_some_and(|row| row.state == NodeState::Ready)
            };
            if ready(&concurrent.machine) && ready(&concurrent.other_machine) {
                let ConcurrentAttempt { id, machine, other, other_machine } = concurrent;
                let what = format!("{id} begins on {machine} while attempt {other} runs on {other_machine}");
                self.note(world.now_ms, "task_twice", what);
            }
        }
    }

    /// An endpoint has a process, or its node is lost, or its process has only just ended.
    fn published(&mut self, world: &World) {
        let (mut dead, mut old) = (BTreeMap::new(), None);
        self.addresses(world);
        let leads = world.now_ms - self.leader.since_ms >= LEADS_MS;
        for endpoint in self.endpoints.values() {
            let Some(node) = self.node_by_name(endpoint.node.as_str()) else { continue };
            let Some(machine) = world.machines.get(node.name.as_str()) else { continue };
            let (task, number) = (endpoint.task, endpoint.incarnation.0);
            let Ok(id) = AttemptId::new(&task.job.to_string(), task.index, number) else { continue };
            if node.state != NodeState::Ready || machine.runs(&id) {
                continue;
            }
            let now_ms = world.now_ms;
            let known = self.dead.get(&(task, number)).copied();
            let mut gone = known.unwrap_or(ProcessGone { since_ms: now_ms, agent_since_ms: now_ms });
            // Without its agent only a controller notices, and none can while they relieve one another.
            if !world.roles.contains_key(node.name.as_str()) {
                gone.agent_since_ms = now_ms;
            }
            dead.insert((task, number), gone);
            let counted_ms = if leads { gone.since_ms } else { gone.agent_since_ms };
            if now_ms - counted_ms > ENDPOINT_DEAD_MS {
                old.get_or_insert((task, number, gone.since_ms));
            }
        }
        self.dead = dead;
        if let Some((task, number, since)) = old {
            let what = format!("attempt {number} of {task} is published and has no process since {since} ms");
            self.note(world.now_ms, "endpoint_dead", what);
        }
    }

    /// Notices when another controller begins to lead, and when the leader does nothing: while all controllers are
    /// paused, nobody relieves it.
    fn leader(&mut self, world: &World) {
        let space = &world.space;
        let read = world.quiet.run("leader", Idempotency::ReadOnly, |tx, _| async move {
            lease_read(&tx, space, "controller", 0).await
        });
        let state = world.alone(read).unwrap();
        let (now_ms, beat) = (world.now_ms, (state.row.epoch, state.beat.beat));
        let paused = now_ms - self.leader.beat_ms > LEASE_MS;
        if beat.0 != self.leader.beat.0 || paused {
            self.leader.since_ms = now_ms;
        }
        if beat != self.leader.beat {
            self.leader.beat_ms = now_ms;
        }
        self.leader.beat = beat;
    }

    /// A node's liveness is that of the session in force, and the order of changes has each node once, where its row
    /// says. The beats of a session count up: a leap means that a session with a successor has written.
    fn leases(&mut self, world: &World) {
        let space = &world.space;
        let read = world.quiet.run("leases", Idempotency::ReadOnly, |tx, _| async move {
            let all = (Prefix::all(), Prefix::all(), Prefix::all());
            let sessions =
                keys::range::<NodeSessionKey>(&tx, space, &all.0, RangeOptions::snapshot()).await?;
            let places = keys::range::<NodeLiveAtKey>(&tx, space, &all.1, RangeOptions::snapshot()).await?;
            let changes =
                keys::range::<NodeLiveChangeKey>(&tx, space, &all.2, RangeOptions::snapshot()).await?;
            Ok::<_, StoreError>((node_live_list(&tx, space).await?, sessions, places, changes))
        });
        let (lives, sessions, places, changes) = world.alone(read).unwrap();
        let sessions: BTreeMap<NodeId, u64> =
            sessions.into_iter().map(|(key, row)| (key.node, row.session)).collect();
        for (node, live) in lives {
            let before = self.beats.insert(node, (live.session, live.beat));
            let leap = before
                .filter(|(session, beat)| *session == live.session && beat.abs_diff(live.beat) > BEATS_MAX);
            if let Some((session, beat)) = leap {
                let what = format!("session {session} of node {node} beats {} after {beat}", live.beat);
                self.note(world.now_ms, "session_deposed", what);
            }
            // An operator who gives a node away ends its session, and leaves the row.
            let other = sessions.get(&node).filter(|session| **session != live.session && **session != 0);
            if let Some(other) = other {
                let what = format!("session {} lives at node {node} under session {other}", live.session);
                self.note(world.now_ms, "session_deposed", what);
            }
        }
        let places: BTreeSet<_> = places.into_iter().map(|(key, stamp)| (stamp.0, key.node)).collect();
        let changes: BTreeSet<_> = changes.into_iter().map(|(key, ())| (key.stamp, key.node)).collect();
        if places != changes {
            self.note(world.now_ms, "live_order", format!("places {places:?} in the order {changes:?}"));
        }
    }

    /// No two tasks are published at one address.
    fn addresses(&mut self, world: &World) {
        let mut taken: BTreeMap<(String, u16), TaskId> = BTreeMap::new();
        let mut twice = None;
        for endpoint in self.endpoints.values() {
            for port in &endpoint.ports {
                let address = (endpoint.host.clone(), port.number);
                if let Some(other) = taken.insert(address, endpoint.task) {
                    twice = Some(format!(
                        "{other} and {} are both at {}:{}",
                        endpoint.task, endpoint.host, port.number
                    ));
                }
            }
        }
        if let Some(what) = twice {
            self.note(world.now_ms, "endpoint_address", what);
        }
    }

    /// Everything acknowledged is stored.
    pub(crate) fn acknowledged(&mut self, world: &World, ledger: &Ledger) {
        for id in &ledger.jobs {
            if !self.jobs.iter().any(|job| job.to_string() == *id) {
                self.note(world.now_ms, "acknowledged", format!("job {id} was acknowledged and never was"));
            }
        }
    }
}

/// A delta on one line.
/// The requests that an entry has done: its own, or those of the jobs that it admits.
fn requests_of(entry: &JournalEntry) -> Vec<RequestId> {
    let admitted = entry.deltas.iter().filter_map(|delta| match delta {
        Delta::Job { row, .. } if row.revision == 1 => Some(row.request),
        _ => None,
    });
    let admitted: Vec<RequestId> = admitted.collect();
    if admitted.is_empty() { vec![entry.request] } else { admitted }
}

fn delta_text(delta: &Delta) -> String {
    match delta {
        Delta::Task { row } => {
            format!("{} {:?} attempt {} on {:?}", row.id, row.state, row.incarnation, row.node)
        }
        Delta::Node { row } => {
            format!("{} {:?} takes {} drains {}", row.name, row.state, row.schedulable, row.draining)
        }
        Delta::Job { row, .. } => {
            format!("{} {}/{} {:?} of {}", row.id, row.user, row.name, row.state, row.count)
        }
        other => format!("{:?}", other.key()),
    }
}
