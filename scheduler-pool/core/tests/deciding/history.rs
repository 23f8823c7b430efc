//! Random histories of a cell. After each event the scheduler plans all tasks that want a node. Each plan is checked
//! against the reference scheduler, a rebuilt snapshot, and an earlier dry run.

use std::collections::BTreeMap;

use borough_model::job::{Affinity, AffinityKind, JobState, Spread};
use borough_model::node::NodeState;
use borough_model::{JobId, JobSpec, NodeAlloc, NodeId, TaskId, TaskState};
use borough_scheduler_core::{
    CellSettings, NearestFit, PLAN_SEED, PendingQueue, Plan, PlannedPlacement, Snapshot, dry_run, explain,
    explain_unplaced, plan,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generators::{Event, RandomNode, alone, event, large, random_job, random_node, settings};
use crate::preempt;
use crate::reclaim;
use crate::reference;
use crate::stored::StoredCell;

/// How long ports cool down after an attempt.
const COOL_MS: i64 = 10_000;

struct History {
    stored: StoredCell,
    followed: Snapshot,
    commit_lost: bool,
    limit: usize,
}

/// Returns true if placements of other jobs may let its tasks in.
fn waits_for_others(spec: &JobSpec) -> bool {
    let near = |one: &Affinity| one.preference.is_none() && one.kind == AffinityKind::Near;
    spec.affinity.iter().any(near) || spec.spread.iter().any(|spread| spread.max_skew.is_some())
}

fn everything(_: JobId) -> bool {
    true
}

impl History {
    fn new(settings: CellSettings, nodes: &[RandomNode]) -> Self {
        let mut stored =
            StoredCell { settings: settings.clone(), now_ms: 1_000_000, ..StoredCell::default() };
        for (random, number) in nodes.iter().zip(0u64..) {
            stored.node_put(random.row(number));
        }
        Self { stored, followed: Snapshot::new(settings), commit_lost: false, limit: usize::MAX }
    }

    fn node_at(&self, at: usize) -> Option<NodeId> {
        self.stored.nodes.keys().nth(at % self.stored.nodes.len().max(1)).copied()
    }

    fn job_at(&self, at: usize) -> Option<JobId> {
        self.stored.jobs.keys().nth(at % self.stored.jobs.len().max(1)).copied()
    }

    fn task_at(&self, at: usize) -> Option<TaskId> {
        let resident = self.stored.jobs.keys().flat_map(|&job| self.stored.resident(job));
        let started = resident.filter(|row| row.state != TaskState::Held);
        let resident: Vec<TaskId> = started.map(|row| row.id).collect();
        resident.get(at % resident.len().max(1)).copied()
    }

    fn happens(&mut self, event: &Event) {
        self.commit_lost = matches!(event, Event::CommitLost);
        self.limit = if let Event::Limited(limit) = event { *limit } else { usize::MAX };
        match event {
            Event::NodeAdded(random) => self.stored.node_put(random.row(self.stored.nodes.len() as u64)),
            Event::Submitted(random) => {
                let number = self.stored.jobs.len();
                // Ids are random, so that nothing depends on their order.
                let id = JobId((number as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
                self.stored.job_submit(id, &random.spec(number));
            }
            Event::TimePassed(by_ms) => self.stored.now_ms += i64::from(*by_ms),
            Event::CommitLost | Event::Limited(_) => {}
            Event::JobStopped(at) => self.job_stopped(*at),
            Event::JobCounted(at, count) => self.job_counted(*at, *count),
            Event::TaskCrashed(at, pause_ms) => self.task_crashed(*at, *pause_ms),
            Event::TaskDone(at) => {
                if let Some(task) = self.task_at(*at) {
                    self.stored.task_end(task, Some(COOL_MS), |row| row.state = TaskState::Dead);
                }
            }
            Event::TaskGone(at) => self.task_gone(*at),
            Event::JobPrioritized(at, to) => {
                let job = self.job_at(*at);
                job.into_iter().for_each(|job| self.stored.job_change(job, |row| row.priority = *to));
            }
            Event::NodeLoaded(at, measured) => {
                self.node_at(*at).into_iter().for_each(|node| self.stored.load_put(node, *measured));
            }
            Event::NodeCordoned(at, _)
            | Event::NodeDrained(at)
            | Event::NodeLost(at)
            | Event::NodeBack(at)
            | Event::NodeRacked(at, _)
            | Event::NodeTainted(at, _)
            | Event::NodeResized(at, _) => {
                if let Some(node) = self.node_at(*at) {
                    self.node_happens(node, event);
                }
            }
        }
    }

    fn node_happens(&mut self, node: NodeId, event: &Event) {
        if matches!(event, Event::NodeLost(_)) {
            let there: Vec<TaskId> = self.tasks_where(|row| row.charged_node() == Some(node));
            for task in there {
                let held = self.stored.tasks.get(&task).is_some_and(|row| row.state == TaskState::Held);
                let state = if held { TaskState::Pending } else { TaskState::Lost };
                self.stored.task_end(task, None, |row| row.state = state);
            }
        }
        if matches!(event, Event::NodeBack(_)) {
            for task in self.tasks_where(|row| row.state == TaskState::Lost) {
                let mut row = self.stored.tasks.get(&task).expect("a row").clone();
                row.state = TaskState::Pending;
                self.stored.task_put(row);
            }
        }
        self.stored.node_change(node, |row| match event {
            Event::NodeCordoned(_, cordoned) => row.schedulable = !cordoned,
            Event::NodeDrained(_) => row.draining = true,
            Event::NodeLost(_) => row.state = NodeState::Lost,
            Event::NodeBack(_) => (row.state, row.draining) = (NodeState::Ready, false),
            Event::NodeRacked(_, rack) => drop(row.labels.insert("rack".to_owned(), format!("r{rack}"))),
            Event::NodeTainted(_, taint) => row.taints = taint.iter().cloned().collect(),
            Event::NodeResized(_, cores) => row.capacity.cpu_millis = cores * 1000,
            _ => {}
        });
    }

    fn tasks_where(&self, holds: impl Fn(&borough_model::TaskRow) -> bool) -> Vec<TaskId> {
        self.stored.tasks.values().filter(|row| holds(row)).map(|row| row.id).collect()
    }

    fn job_stopped(&mut self, at: usize) {
        let Some(job) = self.job_at(at) else { return };
        self.stored.job_change(job, |row| row.state = JobState::Stopping);
        self.stopping(job, 0);
    }

    /// Lets the tasks from an index on begin to stop. They stay charged until later events end them.
    fn stopping(&mut self, job: JobId, from: u32) {
        for task in self.tasks_where(|row| row.id.job == job && row.id.index >= from) {
            let mut row = self.stored.tasks.get(&task).expect("a row").clone();
            if row.state == TaskState::Held {
                self.stored.task_end(task, None, |row| row.state = TaskState::Pending);
            } else if row.charged_node().is_some() {
                row.state = TaskState::Stopping;
                self.stored.task_put(row);
            }
        }
    }

    fn job_counted(&mut self, at: usize, count: u32) {
        let Some(job) = self.job_at(at) else { return };
        self.stored.job_change(job, |row| row.count = count);
        self.stopping(job, count);
        for task in self.tasks_where(|row| row.id.job == job && row.state == TaskState::Stopping) {
            self.stored.task_end(task, Some(COOL_MS), |row| row.state = TaskState::Pending);
        }
    }

    /// Ends a stopping task: it is dead with its job, or wants a node again.
    fn task_gone(&mut self, at: usize) {
        let going = self.tasks_where(|row| row.state == TaskState::Stopping);
        let Some(&task) = going.get(at % going.len().max(1)) else { return };
        let wanted = self
            .stored
            .jobs
            .get(&task.job)
            .is_some_and(|(job, _)| job.state == JobState::Running && task.index < job.count);
        let state = if wanted { TaskState::Pending } else { TaskState::Dead };
        self.stored.task_end(task, Some(COOL_MS), |row| row.state = state);
    }

    fn task_crashed(&mut self, at: usize, pause_ms: u16) {
        let Some(task) = self.task_at(at) else { return };
        let until_ms = self.stored.now_ms + i64::from(pause_ms);
        self.stored.task_end(task, Some(COOL_MS), |row| {
            row.state = TaskState::Pending;
            row.not_before_ms = until_ms;
            row.failures += 1;
            row.crashed_on = row.node;
            row.crashes_there += 2;
        });
    }

    /// Plans all tasks that want a node, checks the plan, and commits it unless its commit is lost. Returns the number
    /// of placements.
    fn planned(&mut self) -> usize {
        self.stored.journal_apply(&mut self.followed);
        self.same_rows();
        let now_ms = self.stored.now_ms;
        let queue = self.followed.pending(&everything, now_ms, self.limit);
        let outcome = plan(self.followed.tables(), &queue, now_ms, PLAN_SEED);
        let (after, allocs) = reference::plan_checked(&self.stored, &queue, &outcome);
        self.unplaced_fit_nowhere(&outcome, &after, &allocs);
        self.explained();
        self.taken_back(&outcome, &queue);
        self.overtaken(&outcome);
        if self.limit == usize::MAX {
            self.nobody_left_parked(&queue);
            // A parked task may fit only after the evictions, and is planned in the next round.
            let evicts = outcome.placements.iter().any(|placement| !placement.victims.is_empty());
            if (!self.freed_later() && !evicts) || outcome == Plan::default() {
                self.same_when_rebuilt(&outcome);
            }
        }
        if !self.commit_lost {
            self.stored.commit(&outcome);
            self.stored.sums_checked();
            self.stored.journal_apply(&mut self.followed);
        }
        self.followed.remember(&outcome, now_ms);
        outcome.placements.len()
    }

    /// Returns true if a plan may help a task that it has refused: gangs with different members, or jobs that wait for
    /// others. A snapshot that remembers the refusal finds that out one plan later.
    fn freed_later(&self) -> bool {
        let uneven = |spec: &JobSpec| spec.min_member > 1 && !spec.overrides.is_empty();
        self.stored.jobs.values().any(|(_, spec)| uneven(spec) || waits_for_others(spec))
    }

    /// Checks that the snapshot from the journal equals one built from the rows.
    fn same_rows(&self) {
        let again = self.stored.snapshot(7);
        assert!(self.followed.tables().nodes().eq(again.tables().nodes()));
        assert!(self.followed.tables().jobs().eq(again.tables().jobs()));
        for &job in self.stored.jobs.keys() {
            assert!(self.followed.tables().tasks(job).eq(again.tables().tasks(job)));
            assert_eq!(self.followed.tables().job_spec(job), again.tables().job_spec(job));
        }
        for (id, (_, alloc)) in &self.stored.nodes {
            assert_eq!(self.followed.tables().node_alloc(*id).as_ref(), Some(alloc));
            assert_eq!(self.followed.tables().node_load(*id), again.tables().node_load(*id));
        }
    }

    /// Checks that unplaced tasks fit nowhere after the plan. Only tasks with affinity or a skew limit may fit then,
    /// because the plan's own placements may have helped them.
    fn unplaced_fit_nowhere(&self, outcome: &Plan, after: &StoredCell, allocs: &BTreeMap<NodeId, NodeAlloc>) {
        for unplaced in &outcome.unplaced {
            let reason = explain_unplaced(self.followed.tables(), unplaced);
            let lost: u32 = reason.lost.iter().map(|loss| loss.nodes).sum();
            assert_eq!(reason.nodes as usize, self.stored.nodes.len());
            assert_eq!(lost + reason.nodes_fit, reason.nodes, "each node is counted once: {reason}");
            let (_, spec) = self.stored.jobs.get(&unplaced.job).expect("a known job");
            let may_be_freed = !outcome.placements.is_empty() && waits_for_others(spec);
            if reference::gang_need(&self.stored, unplaced.job) > 0 || may_be_freed {
                continue;
            }
            for &index in &unplaced.tasks {
                let fits = |(id, (row, _)): (&NodeId, &(borough_model::NodeRow, _))| {
                    reference::fits(after, spec, index, row, allocs.get(id).expect("a known node"))
                };
                // Evictions may free capacity for other tasks. The next plan finds it.
                let some = outcome.placements.iter().any(|placement| !placement.victims.is_empty());
                // So may placements that take a queue above its guarantee.
                let some = some || (self.stored.settings.reclaim && !outcome.placements.is_empty());
                let fits = !some && self.stored.nodes.iter().any(fits);
                assert!(!fits, "{}/{index} fits after the plan", spec.name);
                let task = TaskId { job: unplaced.job, index };
                let evicting = preempt::choice(after, allocs, task);
                assert!(some || evicting.is_none(), "{}/{index} could evict: {evicting:?}", spec.name);
            }
        }
    }

    /// Checks explanations against the rows: their counts, and that their changes help.
    fn explained(&self) {
        for (&job, (row, spec)) in &self.stored.jobs {
            let wanted = reference::wanted(&self.stored, job);
            let Some(first) = wanted.first().filter(|_| row.state == JobState::Running) else { continue };
            if reference::gang_need(&self.stored, job) > 0 {
                continue;
            }
            let explanation = explain(&self.followed, job, first.index, self.stored.now_ms);
            preempt::explanation_checked(&self.stored, *first, &explanation);
            let lost: u32 = explanation.lost.iter().map(|loss| loss.nodes).sum();
            assert_eq!((lost + explanation.nodes_fit) as usize, self.stored.nodes.len());
            assert_eq!(
                explanation.nodes_fit as usize,
                reference::fit_count(&self.stored, spec, first.index),
                "{explanation}"
            );
            assert_eq!(
                explanation.nodes_large as usize,
                reference::large_count(&self.stored, spec, first.index),
                "{explanation}"
            );
            assert!(
                explanation.nodes_room + explanation.nodes_fit <= explanation.nodes_large
                    || spec.min_member > 1,
                "{explanation}"
            );
            // The gain of dropping a rule between tasks depends on those tasks, so it is not counted.
            let constrained = !spec.affinity.is_empty() || spec.spread.iter().any(Spread::is_hard);
            if constrained {
                continue;
            }
            let of_nodes = |nearest: &&NearestFit| !nearest.to_string().contains("kept apart");
            for nearest in explanation.nearest.iter().filter(of_nodes) {
                // A smaller request may also fit another domain. The reported amount suffices, but need not be the
                // least.
                if spec.task.within.is_some() {
                    crate::explain::nearest_enough(&self.stored, spec, first.index, nearest);
                } else {
                    crate::explain::nearest_checked(&self.stored, spec, first.index, nearest);
                }
            }
        }
    }

    /// Checks that assumed placements count, and that `forget` restores the snapshot.
    fn taken_back(&self, outcome: &Plan, queue: &PendingQueue) {
        let mut assumed = self.followed.clone();
        assumed.assume(outcome);
        for change in &outcome.changes {
            let alloc = assumed.tables().node_alloc(change.node).expect("a known node");
            assert_eq!((&alloc.used, alloc.tasks), (&change.alloc.used, change.alloc.tasks));
            assert_eq!(alloc.promised, change.alloc.promised);
            assert_eq!(alloc.ports, change.alloc.ports);
        }
        let again = plan(assumed.tables(), queue, self.stored.now_ms, PLAN_SEED);
        assert!(again.placements.iter().all(|placement| !outcome.placements.contains(placement)));
        assumed.forget(outcome);
        let again = plan(assumed.tables(), queue, self.stored.now_ms, PLAN_SEED);
        assert_eq!(again.placements, outcome.placements);
    }

    /// Checks that another worker's commit replaces what was assumed, and that nothing assumed remains.
    fn overtaken(&self, outcome: &Plan) {
        let mut other = self.stored.clone();
        let some = |job: JobId| job.0.is_multiple_of(2);
        let queue = self.followed.clone().pending(&some, self.stored.now_ms, usize::MAX);
        other.commit(&plan(self.followed.tables(), &queue, self.stored.now_ms, PLAN_SEED ^ 1));
        let mut assumed = self.followed.clone();
        assumed.assume(outcome);
        other.journal_apply(&mut assumed);
        assumed.forget(outcome);
        let true_rows = other.snapshot(5);
        assert!(assumed.tables().nodes().eq(true_rows.tables().nodes()));
        assert!(
            self.stored.jobs.keys().all(|&job| assumed.tables().tasks(job).eq(true_rows.tables().tasks(job)))
        );
    }

    /// Checks that no task that fits somewhere is left out of the queue as unschedulable.
    fn nobody_left_parked(&self, queue: &PendingQueue) {
        let allocs: BTreeMap<NodeId, NodeAlloc> =
            self.stored.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect();
        for (&job, (_, spec)) in &self.stored.jobs {
            if reference::gang_need(&self.stored, job) > 0 {
                continue;
            }
            for task in reference::wanted(&self.stored, job) {
                let queued = queue.tasks.iter().any(|pending| pending.task == task);
                let fits = reference::fit_count(&self.stored, spec, task.index);
                assert!(queued || fits == 0, "{}/{} fits {fits} nodes and is parked", spec.name, task.index);
                // A claim is tried again after a second.
                let asked = queued || reclaim::claims(&self.stored, task);
                let evicting = if asked { None } else { preempt::choice(&self.stored, &allocs, task) };
                assert!(
                    evicting.is_none(),
                    "{}/{} could evict and is parked: {evicting:?}",
                    spec.name,
                    task.index
                );
            }
        }
    }

    /// Checks that snapshots built again, in any order and without memory of refusals, give the same plan.
    fn same_when_rebuilt(&self, outcome: &Plan) {
        let comparable = |placement: &PlannedPlacement| PlannedPlacement { gang: None, ..placement.clone() };
        let mut followed: Vec<PlannedPlacement> = outcome.placements.iter().map(comparable).collect();
        let mut now_ms = self.stored.now_ms;
        // A gang tries evictions at most once a second, so the comparison waits until it is due.
        let gangs = self.stored.jobs.keys().any(|&job| reference::gang_need(&self.stored, job) > 0);
        if gangs || self.stored.settings.reclaim {
            now_ms += 1_000;
            let mut later = self.followed.clone();
            let queue = later.pending(&everything, now_ms, usize::MAX);
            let plan = plan(later.tables(), &queue, now_ms, PLAN_SEED);
            // A placement now may help other tasks, which the next plan finds.
            if self.freed_later() && plan != Plan::default() {
                return;
            }
            followed = plan.placements.iter().map(comparable).collect();
        }
        for seed in [1, 99] {
            let mut again = self.stored.snapshot(seed);
            let queue = again.pending(&everything, now_ms, usize::MAX);
            let plan = plan(again.tables(), &queue, now_ms, PLAN_SEED);
            let again: Vec<PlannedPlacement> = plan.placements.iter().map(comparable).collect();
            assert_eq!(again, followed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    #[test]
    fn plans_hold_against_the_reference_scheduler(
        settings in settings(),
        nodes in vec(random_node(), 0..6),
        events in vec(event(), 1..24),
    ) {
        let mut history = History::new(settings, &nodes);
        history.planned();
        for event in &events {
            history.happens(event);
            history.planned();
        }
        // Plans until nothing more is placed. Then a rebuilt snapshot must place nothing either.
        history.happens(&Event::TimePassed(0));
        while history.planned() > 0 {}
        history.planned();
    }

    #[test]
    fn evictions_equal_those_of_the_reference_preemptor(
        settings in settings(),
        nodes in vec(random_node(), 1..4),
        events in vec(event(), 1..32),
    ) {
        let nodes: Vec<RandomNode> = nodes.into_iter().map(|node| RandomNode { taint: None, ports: 6, ..node }).collect();
        let mut history = History::new(settings, &nodes);
        for event in events {
            let event = match event {
                Event::Submitted(random) => Event::Submitted(Box::new(large(*random))),
                Event::NodeAdded(_) | Event::JobStopped(_) => continue,
                other => other,
            };
            history.happens(&event);
            history.planned();
        }
        history.happens(&Event::TimePassed(0));
        while history.planned() > 0 {}
        history.planned();
    }

    #[test]
    fn a_dry_run_shows_what_the_run_then_does(
        settings in settings(),
        nodes in vec(random_node(), 1..6),
        events in vec(event(), 0..12),
        waiting in random_job(),
        random in random_job(),
    ) {
        let mut history = History::new(settings, &nodes);
        for event in events {
            let event = match event {
                Event::Submitted(random) => Event::Submitted(Box::new(alone(*random))),
                other => other,
            };
            history.happens(&event);
            history.planned();
        }
        // Members above a gang's minimum come one plan later, and may evict what this plan placed.
        prop_assume!(waiting.min_member == 1 || waiting.priority <= random.priority);
        history.happens(&Event::Submitted(Box::new(alone(waiting))));
        history.stored.journal_apply(&mut history.followed);
        history.limit = usize::MAX;
        history.commit_lost = false;
        prop_assume!(!history.freed_later() && (random.own.is_none() || random.min_member == 1));
        let number = history.stored.jobs.len();
        let spec = alone(random).spec(number);
        let shown = dry_run(&history.stored.snapshot(3), &spec, history.stored.now_ms);

        let job = history.stored.job_submit(JobId(42), &spec);
        history.stored.evictions.clear();
        while history.planned() > 0 {}
        let done: Vec<_> = history.stored.resident(job).map(|row| {
            let victims = preempt::victims_of(&history.stored, row.id);
            (row.id.index, row.node, row.ports.clone(), row.state == TaskState::Held, victims)
        }).collect();
        let unplaced: usize = shown.unplaced.iter().map(|(tasks, _)| tasks.len()).sum();
        prop_assert_eq!(unplaced + shown.placements.len(), spec.count as usize);
        let shown_placed: Vec<_> = shown.placements.into_iter()
            .map(|task| (task.index, Some(task.node), task.ports, task.held, task.victims)).collect();
        prop_assert_eq!(shown_placed, done);
    }
}
