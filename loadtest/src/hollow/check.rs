//! Checks the control plane from the hollow nodes. No task may have two attempts at once, no attempt may begin after a
//! later one, and no node may get more than its capacity or a port twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_agent::AttemptId;
use borough_proto::v1;
use parking_lot::Mutex;

/// Locks that divide the tasks.
const SHARDS: usize = 64;
/// Violations whose text is kept.
const KEPT_MAX: usize = 20;

type Task = (String, u32);

/// The state of a task in the whole cell.
#[derive(Clone, Copy, Debug, Default)]
struct KnownTask {
    /// The latest begun attempt.
    latest: u64,
    /// The attempt that is not over, and its node.
    live: Option<(u64, usize)>,
}

/// The cell as its nodes see it.
pub(crate) struct Checker {
    tasks: Vec<Mutex<BTreeMap<Task, KnownTask>>>,
    /// When each node's session ended (microseconds, monotonic); 0 while it has one.
    away_since_us: Vec<AtomicU64>,
    /// Silence after which other nodes may get a node's attempts.
    lost_after: Duration,
    violations: Mutex<Vec<String>>,
    count: AtomicU64,
}

impl Checker {
    /// For so many nodes.
    pub(crate) fn new(nodes: usize, lost_after: Duration) -> Self {
        Self {
            tasks: (0..SHARDS).map(|_| Mutex::default()).collect(),
            away_since_us: (0..nodes).map(|_| AtomicU64::new(1)).collect(),
            lost_after,
            violations: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }

    /// The number of violations, and the first of them.
    pub(crate) fn violations(&self) -> (u64, Vec<String>) {
        (self.count.load(Ordering::Relaxed), self.violations.lock().clone())
    }

    fn violation(&self, text: String) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.violations.lock();
        if kept.len() < KEPT_MAX {
            kept.push(text);
        }
    }

    fn known<T>(&self, id: &AttemptId, look: impl FnOnce(&mut KnownTask) -> T) -> T {
        let digits =
            id.job_id.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let place = digits.wrapping_add(usize::try_from(id.index).unwrap_or(0)) % SHARDS;
        look(self.tasks[place].lock().entry((id.job_id.clone(), id.index)).or_default())
    }

    /// Records that an attempt was begun on `node`.
    fn begun(&self, id: &AttemptId, node: usize, now: Duration) {
        let before = self.known(id, |known| {
            let before = *known;
            known.latest = known.latest.max(id.incarnation);
            known.live = Some((id.incarnation, node));
            before
        });
        if before.latest > id.incarnation {
            self.violation(format!("{id} was begun on node {node} after attempt {}", before.latest));
        }
        if let Some((incarnation, other)) = before.live
            && !self.is_lost(other, now)
        {
            self.violation(format!(
                "{id} was begun on node {node} while attempt {incarnation} was on node {other}"
            ));
        }
    }

    /// Records that an attempt is over, or that other nodes may get it because its node was away.
    fn over(&self, id: &AttemptId) {
        self.known(id, |known| {
            if known.live.is_some_and(|(incarnation, _)| incarnation == id.incarnation) {
                known.live = None;
            }
        });
    }

    fn is_lost(&self, node: usize, now: Duration) -> bool {
        let since = self.away_since_us[node].load(Ordering::Relaxed);
        since > 0 && now.saturating_sub(Duration::from_micros(since)) >= self.lost_after
    }
}

/// The checks of one node.
pub(crate) struct Ledger {
    checker: Arc<Checker>,
    node: usize,
    capacity: v1::Resources,
    attempts: BTreeMap<AttemptId, LedgerAttempt>,
    used: v1::Resources,
}

/// An attempt with what it has.
struct LedgerAttempt {
    assignment: Arc<v1::Assignment>,
    resources: v1::Resources,
}

impl Ledger {
    /// Of a node with that capacity.
    pub(crate) fn new(checker: Arc<Checker>, node: usize, capacity: v1::Resources) -> Self {
        Self { checker, node, capacity, attempts: BTreeMap::new(), used: v1::Resources::default() }
    }

    /// The node has a session again. After a long silence, other nodes may have got its attempts.
    pub(crate) fn connected(&self, now: Duration) {
        if self.checker.is_lost(self.node, now) {
            self.attempts.keys().for_each(|id| self.checker.over(id));
        }
        self.checker.away_since_us[self.node].store(0, Ordering::Relaxed);
    }

    /// The node has lost its session.
    pub(crate) fn away(&self, now: Duration) {
        let us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX).max(1);
        self.checker.away_since_us[self.node].store(us, Ordering::Relaxed);
    }

    /// An attempt was begun.
    pub(crate) fn begun(&mut self, id: &AttemptId, assignment: &Arc<v1::Assignment>, now: Duration) {
        self.checker.begun(id, self.node, now);
        let ports = |assignment: &v1::Assignment| -> Vec<u32> {
            assignment.ports.iter().map(|port| port.number).collect()
        };
        let own = ports(assignment);
        let twice = self
            .attempts
            .iter()
            .find(|(_, other)| ports(&other.assignment).iter().any(|port| own.contains(port)));
        if let Some((other, _)) = twice.filter(|_| !own.is_empty()) {
            self.checker.violation(format!("{id} was given a port of {other} on node {}", self.node));
        }
        let resources = assignment.spec.as_ref().and_then(|spec| spec.resources.clone()).unwrap_or_default();
        charge(&mut self.used, &resources, u64::checked_add);
        self.attempts.insert(id.clone(), LedgerAttempt { assignment: Arc::clone(assignment), resources });
        self.capacity_check(id);
    }

    /// An attempt has other amounts now. Its devices stay.
    pub(super) fn resized(&mut self, id: &AttemptId, resources: &v1::Resources) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let device_millis = attempt.resources.device_millis.clone();
        let resources = v1::Resources { device_millis, ..resources.clone() };
        charge(&mut self.used, &attempt.resources, u64::checked_sub);
        charge(&mut self.used, &resources, u64::checked_add);
        attempt.resources = resources;
        self.capacity_check(id);
    }

    fn capacity_check(&self, id: &AttemptId) {
        if let Some(dimension) = exceeded(&self.used, &self.capacity) {
            self.checker.violation(format!("node {} has not the {dimension} for {id}", self.node));
        }
    }

    /// An attempt is over.
    pub(crate) fn released(&mut self, id: &AttemptId) {
        self.checker.over(id);
        if let Some(attempt) = self.attempts.remove(id) {
            charge(&mut self.used, &attempt.resources, u64::checked_sub);
        }
    }
}

fn charge(used: &mut v1::Resources, asked: &v1::Resources, step: fn(u64, u64) -> Option<u64>) {
    let apply = |used: &mut u64, asked: u64| *used = step(*used, asked).unwrap_or(u64::MAX);
    apply(&mut used.cpu_millis, asked.cpu_millis);
    apply(&mut used.memory_bytes, asked.memory_bytes);
    apply(&mut used.disk_bytes, asked.disk_bytes);
    for (kind, &millis) in &asked.device_millis {
        apply(used.device_millis.entry(kind.clone()).or_default(), millis);
    }
}

/// The first dimension whose use exceeds the capacity. Unknown rates of disks and networks are unlimited.
fn exceeded(used: &v1::Resources, capacity: &v1::Resources) -> Option<String> {
    let device = used
        .device_millis
        .iter()
        .find(|(kind, millis)| capacity.device_millis.get(*kind).copied().unwrap_or(0) < **millis);
    match () {
        () if used.cpu_millis > capacity.cpu_millis => Some("cpu".to_owned()),
        () if used.memory_bytes > capacity.memory_bytes => Some("memory".to_owned()),
        () if used.disk_bytes > capacity.disk_bytes => Some("disk".to_owned()),
        () => device.map(|(kind, _)| kind.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn attempt(incarnation: u64) -> AttemptId {
        AttemptId::new("j0000000000000001", 0, incarnation).unwrap()
    }

    fn assignment(cpu_millis: u64, port: u32) -> Arc<v1::Assignment> {
        let resources = Some(v1::Resources { cpu_millis, ..v1::Resources::default() });
        let spec = Some(v1::TaskSpec { resources, ..v1::TaskSpec::default() });
        let ports = vec![v1::Port { name: "main".to_owned(), number: port }];
        Arc::new(v1::Assignment { spec, ports, ..v1::Assignment::default() })
    }

    fn ledgers() -> (Arc<Checker>, Ledger, Ledger) {
        let checker = Arc::new(Checker::new(2, SECOND * 10));
        let capacity = v1::Resources { cpu_millis: 1_000, ..v1::Resources::default() };
        let ledger = |node| Ledger::new(Arc::clone(&checker), node, capacity.clone());
        let (first, second) = (ledger(0), ledger(1));
        first.connected(SECOND);
        second.connected(SECOND);
        (checker, first, second)
    }

    #[test]
    fn an_attempt_after_the_end_of_the_one_before_is_well() {
        let (checker, mut first, mut second) = ledgers();
        first.begun(&attempt(1), &assignment(1_000, 1), SECOND);
        first.released(&attempt(1));
        second.begun(&attempt(2), &assignment(1_000, 1), SECOND);
        assert_eq!(checker.violations().0, 0);
    }

    #[test]
    fn two_attempts_at_once_and_an_attempt_out_of_order_are_found() {
        let (checker, mut first, mut second) = ledgers();
        first.begun(&attempt(2), &assignment(1, 1), SECOND);
        second.begun(&attempt(3), &assignment(1, 1), SECOND);
        assert_eq!(checker.violations().0, 1);
        second.released(&attempt(3));
        second.begun(&attempt(1), &assignment(1, 1), SECOND);
        assert_eq!(checker.violations().0, 2);
    }

    #[test]
    fn a_node_that_was_away_for_long_has_nothing_of_its_own() {
        let (checker, mut first, mut second) = ledgers();
        first.begun(&attempt(1), &assignment(1, 1), SECOND);
        first.away(SECOND * 2);
        second.begun(&attempt(2), &assignment(1, 1), SECOND * 12);
        assert_eq!(checker.violations().0, 0);
        first.connected(SECOND * 13);
        first.released(&attempt(1));
        assert_eq!(checker.violations().0, 0);
    }

    #[test]
    fn a_node_that_is_given_too_much_or_a_port_twice_is_found() {
        let (checker, mut first, _) = ledgers();
        first.begun(&attempt(1), &assignment(600, 1), SECOND);
        let other = AttemptId::new("j0000000000000002", 0, 1).unwrap();
        first.begun(&other, &assignment(600, 1), SECOND);
        assert_eq!(checker.violations().0, 2, "{:?}", checker.violations().1);
    }

    #[test]
    fn a_resized_attempt_counts_with_what_it_has_now() {
        let (checker, mut first, _) = ledgers();
        let amounts = |cpu_millis| v1::Resources { cpu_millis, ..v1::Resources::default() };
        first.begun(&attempt(1), &assignment(600, 1), SECOND);
        first.resized(&attempt(1), &amounts(200));
        let other = AttemptId::new("j0000000000000002", 0, 1).unwrap();
        first.begun(&other, &assignment(600, 2), SECOND);
        assert_eq!(checker.violations().0, 0, "{:?}", checker.violations().1);
        first.resized(&attempt(1), &amounts(500));
        assert_eq!(checker.violations().0, 1);
        first.released(&attempt(1));
        assert_eq!(first.used.cpu_millis, 600);
    }
}
