//! Random histories of a cell: after each event everything that wants a node is planned, and each plan is held against
//! the slow and obvious scheduler, against a snapshot built again, and against what a dry run had promised.

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

use crate::draft::{Event, NodeDraft, alone, event, job_draft, large, node_draft, settings};
use crate::naive;
use crate::preempt;
use crate::reclaim;
use crate::world::World;

/// Long enough for a node that is lost to hold nothing.
const COOL_MS: i64 = 10_000;

struct History {
    world: World,
    kept: Snapshot,
    commit_lost: bool,
    limit: usize,
}

/// Whether the tasks of others can make room for its tasks.
fn waits_for_others(spec: &JobSpec) -> bool {
    let near = |one: &Affinity| one.preference.is_none() && one.kind == AffinityKind::Near;
    spec.affinity.iter().any(near) || spec.spread.iter().any(|spread| spread.max_skew.is_some())
}

fn everything(_: JobId) -> bool {
    true
}

impl History {
    fn new(settings: CellSettings, nodes: &[NodeDraft]) -> Self {
        let mut world = World { settings: settings.clone(), now_ms: 1_000_000, ..World::default() };
        for (draft, number) in nodes.iter().zip(0u64..) {
            world.node_put(draft.row(number));
        }
        Self { world, kept: Snapshot::new(settings), commit_lost: false, limit: usize::MAX }
    }

    fn node_at(&self, at: usize) -> Option<NodeId> {
        self.world.nodes.keys().nth(at % self.world.nodes.len().max(1)).copied()
    }

    fn job_at(&self, at: usize) -> Option<JobId> {
        self.world.jobs.keys().nth(at % self.world.jobs.len().max(1)).copied()
    }

    fn task_at(&self, at: usize) -> Option<TaskId> {
        let resident = self.world.jobs.keys().flat_map(|&job| self.world.resident(job));
        let started = resident.filter(|row| row.state != TaskState::Held);
        let resident: Vec<TaskId> = started.map(|row| row.id).collect();
        resident.get(at % resident.len().max(1)).copied()
    }

    fn happens(&mut self, event: &Event) {
        self.commit_lost = matches!(event, Event::CommitLost);
        self.limit = if let Event::Limited(limit) = event { *limit } else { usize::MAX };
        match event {
            Event::NodeAdded(draft) => self.world.node_put(draft.row(self.world.nodes.len() as u64)),
            Event::Submitted(draft) => {
                let number = self.world.jobs.len();
                // Ids are random: nothing may follow from their order.
                let id = JobId((number as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
                self.world.job_submit(id, &draft.spec(number));
            }
            Event::TimePassed(by_ms) => self.world.now_ms += i64::from(*by_ms),
            Event::CommitLost | Event::Limited(_) => {}
            Event::JobStopped(at) => self.job_stopped(*at),
            Event::JobCounted(at, count) => self.job_counted(*at, *count),
            Event::TaskCrashed(at, pause_ms) => self.task_crashed(*at, *pause_ms),
            Event::TaskDone(at) => {
                if let Some(task) = self.task_at(*at) {
                    self.world.task_end(task, Some(COOL_MS), |row| row.state = TaskState::Dead);
                }
            }
            Event::TaskGone(at) => self.task_gone(*at),
            Event::JobPrioritized(at, to) => {
                let job = self.job_at(*at);
                job.into_iter().for_each(|job| self.world.job_change(job, |row| row.priority = *to));
            }
            Event::NodeLoaded(at, measured) => {
                self.node_at(*at).into_iter().for_each(|node| self.world.load_put(node, *measured));
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
                let held = self.world.tasks.get(&task).is_some_and(|row| row.state == TaskState::Held);
                let state = if held { TaskState::Pending } else { TaskState::Lost };
                self.world.task_end(task, None, |row| row.state = state);
            }
        }
        if matches!(event, Event::NodeBack(_)) {
            for task in self.tasks_where(|row| row.state == TaskState::Lost) {
                let mut row = self.world.tasks.get(&task).expect("a row").clone();
                row.state = TaskState::Pending;
                self.world.task_put(row);
            }
        }
        self.world.node_change(node, |row| match event {
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
        self.world.tasks.values().filter(|row| holds(row)).map(|row| row.id).collect()
    }

    fn job_stopped(&mut self, at: usize) {
        let Some(job) = self.job_at(at) else { return };
        self.world.job_change(job, |row| row.state = JobState::Stopping);
        self.stopping(job, 0);
    }

    /// Tasks from an index on begin to stop: still charged, to be ended by later events.
    fn stopping(&mut self, job: JobId, from: u32) {
        for task in self.tasks_where(|row| row.id.job == job && row.id.index >= from) {
            let mut row = self.world.tasks.get(&task).expect("a row").clone();
            if row.state == TaskState::Held {
                self.world.task_end(task, None, |row| row.state = TaskState::Pending);
            } else if row.charged_node().is_some() {
                row.state = TaskState::Stopping;
                self.world.task_put(row);
            }
        }
    }

    fn job_counted(&mut self, at: usize, count: u32) {
        let Some(job) = self.job_at(at) else { return };
        self.world.job_change(job, |row| row.count = count);
        self.stopping(job, count);
        for task in self.tasks_where(|row| row.id.job == job && row.state == TaskState::Stopping) {
            self.world.task_end(task, Some(COOL_MS), |row| row.state = TaskState::Pending);
        }
    }

    /// What was to stop has stopped: it is dead with its job, and otherwise wants a node again.
    fn task_gone(&mut self, at: usize) {
        let going = self.tasks_where(|row| row.state == TaskState::Stopping);
        let Some(&task) = going.get(at % going.len().max(1)) else { return };
        let wanted = self
            .world
            .jobs
            .get(&task.job)
            .is_some_and(|(job, _)| job.state == JobState::Running && task.index < job.count);
        let state = if wanted { TaskState::Pending } else { TaskState::Dead };
        self.world.task_end(task, Some(COOL_MS), |row| row.state = state);
    }

    fn task_crashed(&mut self, at: usize, pause_ms: u16) {
        let Some(task) = self.task_at(at) else { return };
        let until_ms = self.world.now_ms + i64::from(pause_ms);
        self.world.task_end(task, Some(COOL_MS), |row| {
            row.state = TaskState::Pending;
            row.not_before_ms = until_ms;
            row.failures += 1;
            row.crashed_on = row.node;
            row.crashes_there += 2;
        });
    }

    /// Plans what wants a node, checks the plan, and commits it unless its commit is lost. Answers how much it placed.
    fn planned(&mut self) -> usize {
        self.world.journal_apply(&mut self.kept);
        self.same_rows();
        let now_ms = self.world.now_ms;
        let queue = self.kept.pending(&everything, now_ms, self.limit);
        let outcome = plan(self.kept.tables(), &queue, now_ms, PLAN_SEED);
        let (after, allocs) = naive::plan_checked(&self.world, &queue, &outcome);
        self.unplaced_fit_nowhere(&outcome, &after, &allocs);
        self.explained();
        self.taken_back(&outcome, &queue);
        self.overtaken(&outcome);
        if self.limit == usize::MAX {
            self.nobody_overslept(&queue);
            // What is evicted may leave room that a task which sleeps finds one plan later.
            let evicts = outcome.placements.iter().any(|placement| !placement.victims.is_empty());
            if (!self.freed_later() && !evicts) || outcome == Plan::default() {
                self.same_anew(&outcome);
            }
        }
        if !self.commit_lost {
            self.world.commit(&outcome);
            self.world.sums_checked();
            self.world.journal_apply(&mut self.kept);
        }
        self.kept.remember(&outcome, now_ms);
        outcome.placements.len()
    }

    /// Whether there are gangs whose members differ, or jobs that others can make room for: what one takes may let
    /// another one fit, which a snapshot that remembers it as blocked finds out one plan later.
    fn freed_later(&self) -> bool {
        let uneven = |spec: &JobSpec| spec.min_member > 1 && !spec.overrides.is_empty();
        self.world.jobs.values().any(|(_, spec)| uneven(spec) || waits_for_others(spec))
    }

    /// The snapshot kept from the journal knows what one built from the rows knows.
    fn same_rows(&self) {
        let again = self.world.snapshot(7);
        assert!(self.kept.tables().nodes().eq(again.tables().nodes()));
        assert!(self.kept.tables().jobs().eq(again.tables().jobs()));
        for &job in self.world.jobs.keys() {
            assert!(self.kept.tables().tasks(job).eq(again.tables().tasks(job)));
            assert_eq!(self.kept.tables().job_spec(job), again.tables().job_spec(job));
        }
        for (id, (_, alloc)) in &self.world.nodes {
            assert_eq!(self.kept.tables().node_alloc(*id).as_ref(), Some(alloc));
            assert_eq!(self.kept.tables().node_load(*id), again.tables().node_load(*id));
        }
    }

    /// What a plan could not place fits nowhere once it is carried out. Only what wants to be near others, or waits for
    /// other domains to fill, may find in the next plan that this one has helped it.
    fn unplaced_fit_nowhere(&self, outcome: &Plan, after: &World, allocs: &BTreeMap<NodeId, NodeAlloc>) {
        for unplaced in &outcome.unplaced {
            let reason = explain_unplaced(self.kept.tables(), unplaced);
            let lost: u32 = reason.lost.iter().map(|loss| loss.nodes).sum();
            assert_eq!(reason.nodes as usize, self.world.nodes.len());
            assert_eq!(lost + reason.nodes_fit, reason.nodes, "each node is counted once: {reason}");
            let (_, spec) = self.world.jobs.get(&unplaced.job).expect("a known job");
            let may_be_freed = !outcome.placements.is_empty() && waits_for_others(spec);
            if naive::gang_need(&self.world, unplaced.job) > 0 || may_be_freed {
                continue;
            }
            for &index in &unplaced.tasks {
                let fits = |(id, (row, _)): (&NodeId, &(borough_model::NodeRow, _))| {
                    naive::fits(after, spec, index, row, allocs.get(id).expect("a known node"))
                };
                // What some evict may leave room for others, who find it in the next plan.
                let some = outcome.placements.iter().any(|placement| !placement.victims.is_empty());
                // So may what others are given beyond what their queues are guaranteed.
                let some = some || (self.world.settings.reclaim && !outcome.placements.is_empty());
                let fits = !some && self.world.nodes.iter().any(fits);
                assert!(!fits, "{}/{index} fits after the plan", spec.name);
                let task = TaskId { job: unplaced.job, index };
                let evicting = preempt::choice(after, allocs, task);
                assert!(some || evicting.is_none(), "{}/{index} could evict: {evicting:?}", spec.name);
            }
        }
    }

    /// Explanations agree with the rows, and what they say would fit does.
    fn explained(&self) {
        for (&job, (row, spec)) in &self.world.jobs {
            let wanted = naive::wanted(&self.world, job);
            let Some(first) = wanted.first().filter(|_| row.state == JobState::Running) else { continue };
            if naive::gang_need(&self.world, job) > 0 {
                continue;
            }
            let told = explain(&self.kept, job, first.index, self.world.now_ms);
            preempt::told_checked(&self.world, *first, &told);
            let lost: u32 = told.lost.iter().map(|loss| loss.nodes).sum();
            assert_eq!((lost + told.nodes_fit) as usize, self.world.nodes.len());
            assert_eq!(told.nodes_fit as usize, naive::fit_count(&self.world, spec, first.index), "{told}");
            assert_eq!(
                told.nodes_large as usize,
                naive::large_count(&self.world, spec, first.index),
                "{told}"
            );
            assert!(told.nodes_room + told.nodes_fit <= told.nodes_large || spec.min_member > 1, "{told}");
            // What would fit without a rule between tasks depends on those tasks; it is told, and not held to a count.
            let constrained = !spec.affinity.is_empty() || spec.spread.iter().any(Spread::is_hard);
            if constrained {
                continue;
            }
            let of_nodes = |nearest: &&NearestFit| !nearest.to_string().contains("kept apart");
            for nearest in told.nearest.iter().filter(of_nodes) {
                // Asking for less may also make room within a domain: what is told is enough, and perhaps not the
                // least.
                if spec.task.within.is_some() {
                    crate::explain::nearest_enough(&self.world, spec, first.index, nearest);
                } else {
                    crate::explain::nearest_checked(&self.world, spec, first.index, nearest);
                }
            }
        }
    }

    /// What is assumed counts, and taken back it is as if it had never been.
    fn taken_back(&self, outcome: &Plan, queue: &PendingQueue) {
        let mut assumed = self.kept.clone();
        assumed.assume(outcome);
        for change in &outcome.changes {
            let alloc = assumed.tables().node_alloc(change.node).expect("a known node");
            assert_eq!((&alloc.used, alloc.tasks), (&change.alloc.used, change.alloc.tasks));
            assert_eq!(alloc.promised, change.alloc.promised);
            assert_eq!(alloc.ports, change.alloc.ports);
        }
        let again = plan(assumed.tables(), queue, self.world.now_ms, PLAN_SEED);
        assert!(again.placements.iter().all(|placement| !outcome.placements.contains(placement)));
        assumed.forget(outcome);
        let again = plan(assumed.tables(), queue, self.world.now_ms, PLAN_SEED);
        assert_eq!(again.placements, outcome.placements);
    }

    /// Another worker's commit, as far as it conflicts, replaces what was assumed, and nothing assumed stays behind.
    fn overtaken(&self, outcome: &Plan) {
        let mut other = self.world.clone();
        let some = |job: JobId| job.0.is_multiple_of(2);
        let queue = self.kept.clone().pending(&some, self.world.now_ms, usize::MAX);
        other.commit(&plan(self.kept.tables(), &queue, self.world.now_ms, PLAN_SEED ^ 1));
        let mut assumed = self.kept.clone();
        assumed.assume(outcome);
        other.journal_apply(&mut assumed);
        assumed.forget(outcome);
        let true_rows = other.snapshot(5);
        assert!(assumed.tables().nodes().eq(true_rows.tables().nodes()));
        assert!(
            self.world.jobs.keys().all(|&job| assumed.tables().tasks(job).eq(true_rows.tables().tasks(job)))
        );
    }

    /// No task that fits somewhere is left out of the queue as one that fits nowhere.
    fn nobody_overslept(&self, queue: &PendingQueue) {
        let allocs: BTreeMap<NodeId, NodeAlloc> =
            self.world.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect();
        for (&job, (_, spec)) in &self.world.jobs {
            if naive::gang_need(&self.world, job) > 0 {
                continue;
            }
            for task in naive::wanted(&self.world, job) {
                let queued = queue.tasks.iter().any(|pending| pending.task == task);
                let fits = naive::fit_count(&self.world, spec, task.index);
                assert!(queued || fits == 0, "{}/{} fits {fits} nodes and sleeps", spec.name, task.index);
                // What a queue may take back is asked again after a second.
                let asked = queued || reclaim::claims(&self.world, task);
                let evicting = if asked { None } else { preempt::choice(&self.world, &allocs, task) };
                assert!(
                    evicting.is_none(),
                    "{}/{} could evict and sleeps: {evicting:?}",
                    spec.name,
                    task.index
                );
            }
        }
    }

    /// Snapshots built again, in whatever order and without memory of what was blocked, give the same plan.
    fn same_anew(&self, outcome: &Plan) {
        let told = |placement: &PlannedPlacement| PlannedPlacement { gang: None, ..placement.clone() };
        let mut kept: Vec<PlannedPlacement> = outcome.placements.iter().map(told).collect();
        let mut now_ms = self.world.now_ms;
        // A gang is tried at most once a second for evictions: held against one that is not, when it is due.
        let gangs = self.world.jobs.keys().any(|&job| naive::gang_need(&self.world, job) > 0);
        if gangs || self.world.settings.reclaim {
            now_ms += 1_000;
            let mut later = self.kept.clone();
            let queue = later.pending(&everything, now_ms, usize::MAX);
            let plan = plan(later.tables(), &queue, now_ms, PLAN_SEED);
            // What places something by now may help others, who find it in the next plan.
            if self.freed_later() && plan != Plan::default() {
                return;
            }
            kept = plan.placements.iter().map(told).collect();
        }
        for seed in [1, 99] {
            let mut again = self.world.snapshot(seed);
            let queue = again.pending(&everything, now_ms, usize::MAX);
            let plan = plan(again.tables(), &queue, now_ms, PLAN_SEED);
            let again: Vec<PlannedPlacement> = plan.placements.iter().map(told).collect();
            assert_eq!(again, kept);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    #[test]
    fn plans_hold_against_a_slow_and_obvious_scheduler(
        settings in settings(),
        nodes in vec(node_draft(), 0..6),
        events in vec(event(), 1..24),
    ) {
        let mut history = History::new(settings, &nodes);
        history.planned();
        for event in &events {
            history.happens(event);
            history.planned();
        }
        // Until nothing more can be placed: then nothing can by a snapshot built again either.
        history.happens(&Event::TimePassed(0));
        while history.planned() > 0 {}
        history.planned();
    }

    #[test]
    fn evictions_hold_against_a_slow_and_obvious_preemptor(
        settings in settings(),
        nodes in vec(node_draft(), 1..4),
        events in vec(event(), 1..32),
    ) {
        let nodes: Vec<NodeDraft> = nodes.into_iter().map(|node| NodeDraft { taint: None, ports: 6, ..node }).collect();
        let mut history = History::new(settings, &nodes);
        for event in events {
            let event = match event {
                Event::Submitted(draft) => Event::Submitted(Box::new(large(*draft))),
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
        nodes in vec(node_draft(), 1..6),
        events in vec(event(), 0..12),
        waiting in job_draft(),
        draft in job_draft(),
    ) {
        let mut history = History::new(settings, &nodes);
        for event in events {
            let event = match event {
                Event::Submitted(draft) => Event::Submitted(Box::new(alone(*draft))),
                other => other,
            };
            history.happens(&event);
            history.planned();
        }
        // What a gang wants beyond its minimum comes a plan later, and may evict what this one placed.
        prop_assume!(waiting.min_member == 1 || waiting.priority <= draft.priority);
        history.happens(&Event::Submitted(Box::new(alone(waiting))));
        history.world.journal_apply(&mut history.kept);
        history.limit = usize::MAX;
        history.commit_lost = false;
        prop_assume!(!history.freed_later() && (draft.own.is_none() || draft.min_member == 1));
        let number = history.world.jobs.len();
        let spec = alone(draft).spec(number);
        let shown = dry_run(&history.world.snapshot(3), &spec, history.world.now_ms);

        let job = history.world.job_submit(JobId(42), &spec);
        history.world.evictions.clear();
        while history.planned() > 0 {}
        let done: Vec<_> = history.world.resident(job).map(|row| {
            let victims = preempt::victims_of(&history.world, row.id);
            (row.id.index, row.node, row.ports.clone(), row.state == TaskState::Held, victims)
        }).collect();
        let unplaced: usize = shown.unplaced.iter().map(|(tasks, _)| tasks.len()).sum();
        prop_assert_eq!(unplaced + shown.placements.len(), spec.count as usize);
        let shown_placed: Vec<_> = shown.placements.into_iter()
            .map(|task| (task.index, Some(task.node), task.ports, task.held, task.victims)).collect();
        prop_assert_eq!(shown_placed, done);
    }
}
