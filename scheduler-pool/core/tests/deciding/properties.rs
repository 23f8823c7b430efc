//! The properties of deciding, one per test, over random histories of a cell.
//!
//! A property has no exceptions. If it holds only for some cells, its generator makes only those. The last name of each
//! test's generator says which: `any_job`, or what the jobs of the history are not. `mutations/core-*` in
//! `tests/simulation` breaks the rule that each property guards.
//!
//! The histories are the same in each run, so that what a change breaks is broken by the change.
//! `PROPTEST_RNG_SEED=7 PROPTEST_CASES=3000` makes others, and more.

use borough_model::job::{JobState, PreemptionSpec};
use borough_model::{JobId, TaskId, TaskState};
use borough_scheduler_core::{
    NearestFit, PLAN_SEED, Plan, PlannedPlacement, ReplacedAttempts, Snapshot, dry_run, explain,
    explain_unplaced, plan,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::generators::{
    Event, RandomJob, RandomNode, event, event_or_cut, random_job, random_node, settings,
    settings_with_reclaim, settings_without_reclaim,
};
use crate::history::{History, Moment, allocs, each_plan, each_rest, everything};
use crate::narrow::{
    alone, any_job, confined, contended, drawn, even, gangs, large, peaceful, single, unruled, with_domains,
};
use crate::preempt;
use crate::reference;
use crate::stored::StoredCell;

/// A single task that competes for nodes, and that no other placement or eviction helps.
fn independent(random: RandomJob) -> RandomJob {
    peaceful(single(alone(random)))
}

fn single_large(random: RandomJob) -> RandomJob {
    single(large(random))
}

/// A large single task that may evict, of a job with a disruption budget.
fn budgeted(random: RandomJob) -> RandomJob {
    let down_max = Some(random.count / 2);
    let preemption = Some(PreemptionSpec { never: false, notice_max_ms: None, down_max });
    RandomJob { preemption, ..single_large(random) }
}

/// A single task that no placement of another one helps. It may evict.
fn single_alone(random: RandomJob) -> RandomJob {
    single(alone(random))
}

fn single_unruled(random: RandomJob) -> RandomJob {
    single(unruled(random))
}

fn single_unruled_anywhere(random: RandomJob) -> RandomJob {
    RandomJob { within: None, ..single_unruled(random) }
}

fn even_alone(random: RandomJob) -> RandomJob {
    even(alone(random))
}

/// Nodes on which only processor time and memory decide, so that evictions are common.
fn open_nodes() -> impl Strategy<Value = Vec<RandomNode>> {
    vec(random_node().prop_map(|node| RandomNode { taint: None, ports: 6, ..node }), 1..4)
}

/// The plan of a snapshot that is built again from the rows, in the order that a seed gives.
fn rebuilt(stored: &StoredCell, seed: u64) -> Vec<PlannedPlacement> {
    let mut again = stored.snapshot(seed);
    let queue = again.pending(&everything, stored.now_ms, usize::MAX);
    comparable(&plan(again.tables(), &queue, stored.now_ms, PLAN_SEED))
}

/// The placements without the numbers of their gangs, which count refused gangs too.
fn comparable(plan: &Plan) -> Vec<PlannedPlacement> {
    plan.placements.iter().map(|placement| PlannedPlacement { gang: None, ..placement.clone() }).collect()
}

/// Each task that wants a node.
fn waiting(stored: &StoredCell) -> impl Iterator<Item = TaskId> {
    stored.jobs.keys().flat_map(|&job| reference::wanted(stored, job))
}

/// The first task of each running job that wants a node.
fn first_waiting(stored: &StoredCell) -> Vec<TaskId> {
    let running = stored.jobs.iter().filter(|(_, (row, _))| row.state == JobState::Running);
    running.filter_map(|(&job, _)| reference::wanted(stored, job).first().copied()).collect()
}

fn fits_on(stored: &StoredCell, task: TaskId) -> usize {
    let (_, spec) = stored.jobs.get(&task.job).expect("a known job");
    reference::fit_count(stored, spec, task.index)
}

fn same_rows(stored: &StoredCell, followed: &Snapshot, again: &Snapshot) {
    assert!(followed.tables().nodes().eq(again.tables().nodes()));
    assert!(followed.tables().jobs().eq(again.tables().jobs()));
    for &job in stored.jobs.keys() {
        assert!(followed.tables().tasks(job).eq(again.tables().tasks(job)));
        assert_eq!(followed.tables().plan_spec(job), again.tables().plan_spec(job));
    }
    for (id, (_, alloc)) in &stored.nodes {
        assert_eq!(followed.tables().node_alloc(*id).as_ref(), Some(alloc));
        assert_eq!(followed.tables().node_load(*id), again.tables().node_load(*id));
    }
}

fn nearest_of(moment: &Moment<'_>, mut holds: impl FnMut(&NearestFit, TaskId)) {
    for task in first_waiting(moment.stored) {
        let explanation = explain(moment.followed, task.job, task.index, moment.stored.now_ms);
        explanation.nearest.iter().for_each(|nearest| holds(nearest, task));
    }
}

/// A part of the usual number of cases, the same ones in each run.
pub(crate) fn cases(part: u32) -> ProptestConfig {
    let set = ProptestConfig::default();
    let rng_seed = if set.rng_seed == RngSeed::Random { RngSeed::Fixed(1) } else { set.rng_seed };
    ProptestConfig { cases: (set.cases / part).max(1), rng_seed, ..set }
}

proptest! {
    #![proptest_config(cases(4))]

    /// Each placement of a plan obeys every filter at its place in the plan, and the store can commit it.
    #[test]
    fn every_placement_obeys_every_rule(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event_or_cut(any_job), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            reference::placements_checked(moment.stored, moment.plan);
            let mut committed = moment.stored.clone();
            committed.commit(moment.plan);
            committed.sums_checked();
        });
    }

    /// A plan evicts for a task only if it fits nowhere, and then the victims and the node that cost least.
    #[test]
    fn evictions_equal_those_of_the_reference_preemptor(
        settings in settings(), nodes in open_nodes(), events in vec(event_or_cut(single_large), 1..32),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            reference::placements_checked(moment.stored, moment.plan);
        });
    }

    /// The same, in a cell in which each job has a disruption budget.
    #[test]
    fn evictions_keep_to_budgets(
        settings in settings_without_reclaim(), nodes in open_nodes(), events in vec(event(budgeted), 1..32),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            reference::placements_checked(moment.stored, moment.plan);
        });
    }

    /// A plan places each task of its queue or refuses it, once.
    #[test]
    fn every_single_task_is_answered_once(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event_or_cut(single), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| reference::singles_checked(moment.queue, moment.plan));
    }

    /// A plan places exactly as many members of a gang as it needs, or refuses all that it could choose from.
    #[test]
    fn a_gang_is_placed_whole_or_refused_whole(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event_or_cut(alone), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| reference::gangs_checked(moment.stored, moment.queue, moment.plan));
    }

    /// A task that a plan refuses fits no node after the plan, if no placement helps another task.
    #[test]
    fn a_refused_task_fits_nowhere(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event_or_cut(independent), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            let mut after = moment.stored.clone();
            after.commit(moment.plan);
            for unplaced in &moment.plan.unplaced {
                for &index in &unplaced.tasks {
                    let task = TaskId { job: unplaced.job, index };
                    assert_eq!(fits_on(&after, task), 0, "{task} fits");
                }
            }
        });
    }

    /// A task that fits a node is never left out of a whole queue.
    #[test]
    fn no_task_that_fits_is_parked(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event(single), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            for task in waiting(moment.stored) {
                let queued = moment.queue.tasks.iter().any(|pending| pending.task == task);
                assert!(queued || fits_on(moment.stored, task) == 0, "{task} fits and is parked");
            }
        });
    }

    /// A task that could evict is never left out of a whole queue, in a cell without claims.
    #[test]
    fn no_task_that_could_evict_is_parked(
        settings in settings_without_reclaim(), nodes in open_nodes(), events in vec(contended(), 2..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            let allocs = moment.allocs();
            for task in waiting(moment.stored) {
                let queued = moment.queue.tasks.iter().any(|pending| pending.task == task);
                let evicting = if queued { None } else { preempt::choice(moment.stored, &allocs, task) };
                assert!(evicting.is_none(), "{task} could evict and is parked: {evicting:?}");
            }
        });
    }

    /// When a cell is at rest, no waiting task fits a node.
    #[test]
    fn no_task_that_fits_waits_at_rest(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event(single), 1..24),
    ) {
        each_rest(settings, &nodes, &events, |history| {
            let stored = &history.stored;
            waiting(stored).for_each(|task| assert_eq!(fits_on(stored, task), 0, "{task} fits and waits"));
        });
    }

    /// The same, in a cell in which tasks go only where others are.
    #[test]
    fn no_task_that_is_drawn_to_others_waits_at_rest(
        settings in settings(), nodes in vec(random_node(), 1..4), events in vec(event(drawn), 1..16),
    ) {
        each_rest(settings, &nodes, &events, |history| {
            let stored = &history.stored;
            waiting(stored).for_each(|task| assert_eq!(fits_on(stored, task), 0, "{task} fits and waits"));
        });
    }

    /// When a cell is at rest, no waiting task could evict or claim the place of another.
    #[test]
    fn no_task_that_could_evict_waits_at_rest(
        settings in settings_with_reclaim(), nodes in open_nodes(), events in vec(event(single_large), 1..24),
    ) {
        each_rest(settings, &nodes, &events, |history| {
            let (stored, allocs) = (&history.stored, allocs(&history.stored));
            for task in waiting(stored) {
                let evicting = preempt::choice(stored, &allocs, task);
                assert!(evicting.is_none(), "{task} could evict and waits: {evicting:?}");
            }
        });
    }

    /// When a cell is at rest, a scheduler that starts then places nothing either.
    #[test]
    fn a_scheduler_that_starts_finds_nothing_more(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event(any_job), 1..24),
    ) {
        each_rest(settings, &nodes, &events, |history| assert_eq!(rebuilt(&history.stored, 1), []));
    }

    /// The same, in a cell of gangs that end, or crash and back off.
    #[test]
    fn a_scheduler_that_starts_places_no_other_gang(
        settings in settings(), nodes in open_nodes(), events in vec(gangs(), 2..16),
    ) {
        each_rest(settings, &nodes, &events, |history| assert_eq!(rebuilt(&history.stored, 1), []));
    }

    /// A plan depends on the rows alone: a scheduler that starts makes the plan of one that has followed the journal.
    #[test]
    fn a_scheduler_that_starts_makes_the_same_plan(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event(independent), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            assert_eq!(rebuilt(moment.stored, 1), comparable(moment.plan));
        });
    }

    /// The order in which rows arrive changes no plan.
    #[test]
    fn the_order_of_rows_changes_no_plan(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event(any_job), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            assert_eq!(rebuilt(moment.stored, 1), rebuilt(moment.stored, 99));
        });
    }

    /// A snapshot that follows the journal has the rows of the store.
    #[test]
    fn a_snapshot_has_the_rows_of_the_store(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event_or_cut(any_job), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            same_rows(moment.stored, moment.followed, &moment.stored.snapshot(7));
        });
    }
}

proptest! {
    #![proptest_config(cases(4))]

    /// The census of a refused task counts each node once.
    #[test]
    fn the_census_of_a_refused_task_counts_each_node_once(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event_or_cut(any_job), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            for unplaced in &moment.plan.unplaced {
                let reason = explain_unplaced(moment.followed.tables(), unplaced);
                let lost: u32 = reason.lost.iter().map(|loss| loss.nodes).sum();
                assert_eq!(reason.nodes as usize, moment.stored.nodes.len());
                assert_eq!(lost + reason.nodes_fit, reason.nodes, "{reason}");
            }
        });
    }

    /// The counts and evictions of an explanation are those of the rows.
    #[test]
    fn an_explanation_counts_what_the_rows_show(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event(single), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            let stored = moment.stored;
            for task in first_waiting(stored) {
                let (_, spec) = stored.jobs.get(&task.job).expect("a known job");
                let explanation = explain(moment.followed, task.job, task.index, stored.now_ms);
                preempt::explanation_checked(stored, task, &explanation);
                let lost: u32 = explanation.lost.iter().map(|loss| loss.nodes).sum();
                assert_eq!((lost + explanation.nodes_fit) as usize, stored.nodes.len());
                let large = reference::large_count(stored, spec, task.index);
                assert_eq!(explanation.nodes_fit as usize, fits_on(stored, task), "{explanation}");
                assert_eq!(explanation.nodes_large as usize, large, "{explanation}");
                let taken = explanation.nodes_room + explanation.nodes_fit;
                assert!(taken <= explanation.nodes_large, "{explanation}");
            }
        });
    }

    /// A change that an explanation proposes lets the task onto as many more nodes as it says, and no smaller one does.
    #[test]
    fn a_proposed_change_helps_as_it_says(
        settings in settings(),
        nodes in vec(random_node(), 0..6),
        events in vec(event(single_unruled_anywhere), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| nearest_of(moment, |nearest, task| {
            let (_, spec) = moment.stored.jobs.get(&task.job).expect("a known job");
            crate::explain::nearest_checked(moment.stored, spec, task.index, nearest);
        }));
    }

    /// A change that is proposed for a task within one socket or NUMA domain lets it onto that many more nodes at
    /// least.
    #[test]
    fn a_proposed_change_within_a_domain_suffices(
        settings in settings(),
        nodes in vec(random_node().prop_map(with_domains), 1..4),
        events in vec(event(confined), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| nearest_of(moment, |nearest, task| {
            let (_, spec) = moment.stored.jobs.get(&task.job).expect("a known job");
            crate::explain::nearest_enough(moment.stored, spec, task.index, nearest);
        }));
    }

    /// What a snapshot assumes of a plan is what the plan says, and `forget` takes all of it back.
    #[test]
    fn an_assumed_plan_counts_and_can_be_forgotten(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event_or_cut(any_job), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            let mut assumed = moment.followed.clone();
            assumed.assume(moment.plan);
            for change in &moment.plan.changes {
                let alloc = assumed.tables().node_alloc(change.node).expect("a known node");
                assert_eq!((&alloc.used, alloc.tasks), (&change.alloc.used, change.alloc.tasks));
                assert_eq!((alloc.promised, alloc.ports), (change.alloc.promised.clone(), change.alloc.ports.clone()));
            }
            let now_ms = moment.stored.now_ms;
            let again = plan(assumed.tables(), moment.queue, now_ms, PLAN_SEED);
            assert!(again.placements.iter().all(|placement| !moment.plan.placements.contains(placement)));
            assumed.forget(moment.plan);
            let again = plan(assumed.tables(), moment.queue, now_ms, PLAN_SEED);
            assert_eq!(again.placements, moment.plan.placements);
        });
    }

    /// The commit of another worker replaces what a snapshot has assumed.
    #[test]
    fn another_workers_commit_replaces_what_was_assumed(
        settings in settings(), nodes in vec(random_node(), 0..6), events in vec(event(any_job), 1..24),
    ) {
        each_plan(settings, &nodes, &events, |moment| {
            let mut other = moment.stored.clone();
            let some = |job: JobId| job.0.is_multiple_of(2);
            let queue = moment.followed.clone().pending(&some, other.now_ms, usize::MAX);
            other.commit(&plan(moment.followed.tables(), &queue, other.now_ms, PLAN_SEED ^ 1));
            let mut assumed = moment.followed.clone();
            assumed.assume(moment.plan);
            other.journal_apply(&mut assumed);
            assumed.forget(moment.plan);
            same_rows(&other, &assumed, &other.snapshot(5));
        });
    }

    /// A dry run shows the placements, victims and refusals of the run that follows.
    #[test]
    fn a_dry_run_shows_what_the_run_then_does(
        settings in settings(),
        nodes in vec(random_node(), 1..6),
        events in vec(event(even_alone), 0..12),
        before in random_job().prop_map(single_alone),
        random in random_job().prop_map(even_alone),
    ) {
        let mut history = History::new(settings, &nodes);
        for event in &events {
            history.happens(event);
            history.planned(|_| {});
        }
        history.happens(&Event::Submitted(Box::new(before)));
        history.stored.journal_apply(&mut history.followed);
        let spec = random.spec(history.stored.jobs.len());
        let (stored, none) = (&history.stored, ReplacedAttempts::default());
        let shown = dry_run(&stored.snapshot(3), &spec, None, &none, stored.now_ms);

        let job = history.stored.job_submit(JobId(42), &spec);
        history.stored.evictions.clear();
        while history.planned(|_| {}) > 0 {}
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
