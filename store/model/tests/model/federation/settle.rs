//! Which tasks stay when a cell is back: by example, and until every task is promised once.

use borough_model::federation::{
    KeptSide, ReturnPolicy, SETTLE_MS_MAX, SettleCell, SettleOutcome, SettleStep, SettleWait, Settlement,
    settle_step,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::sample::name;

/// A cell with so many promised tasks, of which so many run and are healthy.
fn cell(text: &str, promised: u32, running: u32) -> SettleCell {
    SettleCell {
        cell: name(text),
        is_current: true,
        promised,
        own: 0,
        running,
        healthy: running,
        runs_for_ms: 60_000,
    }
}

/// Four tasks of `a` were promised to `b` and `c`, which have two own ones each.
fn settlement(policy: ReturnPolicy, returned: u32, others: u32) -> Settlement {
    let other = |text| SettleCell { own: 2, ..cell(text, 4, others) };
    Settlement {
        policy,
        count: 8,
        returned: vec![cell("a", 4, returned)],
        others: vec![other("b"), other("c")],
        kept: None,
        back_ms: 0,
    }
}

/// `a=3 b=1`.
fn counts(step: &SettleStep) -> String {
    let counts = step.counts.iter().map(|(cell, count)| format!("{cell}={count}"));
    counts.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_new_stay_and_the_old_go_as_the_new_run() {
    let step = settle_step(&settlement(ReturnPolicy::New, 4, 2));
    assert_eq!(counts(&step), "a=4 b=4 c=4");
    let wait = SettleWait::NotRunning { kept: KeptSide::Others, tasks: 4 };
    assert_eq!(step.outcome, SettleOutcome::Waits(wait));
    let step = settle_step(&settlement(ReturnPolicy::New, 4, 3));
    assert_eq!(counts(&step), "a=2 b=4 c=4");
    let step = settle_step(&settlement(ReturnPolicy::New, 2, 4));
    assert_eq!((counts(&step).as_str(), step.outcome), ("a=0 b=4 c=4", SettleOutcome::Settled));
}

#[test]
fn the_old_keep_what_had_no_room_elsewhere() {
    let facts = settlement(ReturnPolicy::New, 4, 4);
    let step = settle_step(&Settlement { count: 10, ..facts });
    assert_eq!((counts(&step).as_str(), step.outcome), ("a=2 b=4 c=4", SettleOutcome::Settled));
}

#[test]
fn the_old_stay_and_the_new_go_as_the_old_run() {
    let step = settle_step(&settlement(ReturnPolicy::Old, 3, 4));
    assert_eq!(counts(&step), "a=4 b=2 c=3");
    let wait = SettleWait::NotRunning { kept: KeptSide::Returned, tasks: 1 };
    assert_eq!(step.outcome, SettleOutcome::Waits(wait));
    let step = settle_step(&settlement(ReturnPolicy::Old, 4, 4));
    assert_eq!((counts(&step).as_str(), step.outcome), ("a=4 b=2 c=2", SettleOutcome::Settled));
}

#[test]
fn both_stay_until_the_new_are_healthy() {
    let mut facts = settlement(ReturnPolicy::Both, 4, 4);
    facts.others[1].healthy = 3;
    let step = settle_step(&facts);
    assert_eq!(counts(&step), "a=4 b=4 c=4");
    let wait = SettleWait::NotHealthy { kept: KeptSide::Others, tasks: 1 };
    assert_eq!(
        wait.to_string(),
        "1 tasks in the other cells are to stay and are not healthy yet; others run beside them until they are, and in \
         their place after 15m"
    );
    assert_eq!(step.outcome, SettleOutcome::Waits(wait));
    facts.others[1].healthy = 4;
    assert_eq!(counts(&settle_step(&facts)), "a=0 b=4 c=4");
    // One never becomes healthy. A healthy one that is back stays in its place.
    facts.others[1].healthy = 3;
    facts.back_ms = SETTLE_MS_MAX;
    let step = settle_step(&facts);
    assert_eq!((counts(&step).as_str(), step.outcome), ("a=1 b=4 c=3", SettleOutcome::Settled));
    // Without one that is healthy there is nothing better, so the new stay.
    facts.returned[0].healthy = 0;
    assert_eq!(counts(&settle_step(&facts)), "a=0 b=4 c=4");
}

#[test]
fn those_that_have_run_for_longer_stay_and_the_choice_lasts() {
    let mut facts = settlement(ReturnPolicy::Older, 4, 4);
    facts.returned[0].runs_for_ms = 3_600_000;
    assert_eq!(settle_step(&facts).kept, KeptSide::Returned);
    facts.returned[0].runs_for_ms = 30_000;
    assert_eq!(settle_step(&facts).kept, KeptSide::Others);
    facts.kept = Some(KeptSide::Returned);
    assert_eq!(counts(&settle_step(&facts)), "a=4 b=2 c=2");
    facts.kept = None;
    facts.returned[0].running = 0;
    facts.returned[0].runs_for_ms = u64::MAX;
    assert_eq!(settle_step(&facts).kept, KeptSide::Others, "the old do not run");
}

#[test]
fn a_silent_cell_is_waited_for() {
    let mut facts = settlement(ReturnPolicy::Old, 4, 4);
    facts.others[0].is_current = false;
    let step = settle_step(&facts);
    assert_eq!(counts(&step), "a=4 b=4 c=2");
    assert_eq!(step.outcome, SettleOutcome::Waits(SettleWait::Silent { cell: name("b") }));
    // Its own tasks are no part of the settlement.
    facts.others[0].own = 4;
    facts.count = 10;
    assert_eq!(settle_step(&facts).outcome, SettleOutcome::Settled);
    // Nobody knows whether the new ones of a silent cell run, so the old ones stay in their place.
    let mut new_silent = settlement(ReturnPolicy::New, 4, 4);
    new_silent.others[0].is_current = false;
    let step = settle_step(&new_silent);
    assert_eq!(counts(&step), "a=2 b=4 c=4");
    assert_eq!(step.outcome, SettleOutcome::Waits(SettleWait::Silent { cell: name("b") }));
    let mut gone_again = settlement(ReturnPolicy::Old, 4, 4);
    gone_again.returned[0].is_current = false;
    gone_again.back_ms = SETTLE_MS_MAX;
    let step = settle_step(&gone_again);
    assert_eq!(counts(&step), "a=4 b=4 c=4");
    assert_eq!(step.outcome, SettleOutcome::Waits(SettleWait::Silent { cell: name("a") }));
}

#[test]
fn a_job_that_was_made_smaller_meanwhile_keeps_what_runs() {
    let facts = settlement(ReturnPolicy::New, 2, 2);
    let step = settle_step(&Settlement { count: 6, back_ms: SETTLE_MS_MAX, ..facts });
    assert_eq!((counts(&step).as_str(), step.outcome), ("a=2 b=2 c=2", SettleOutcome::Settled));
}

fn policies() -> Vec<ReturnPolicy> {
    ReturnPolicy::NAMES.map(|(_, policy)| policy).to_vec()
}

prop_compose! {
    /// Returned cells `a` and `b`, and others `m` to `q` that have at most what `a` and `b` had.
    fn settlement_any()(
        policy in select(policies()),
        returned in prop::collection::vec((1_u32..8, 0_u32..9, 0_u32..9), 1..3),
        others in prop::collection::vec((0_u32..5, 0_u32..9, 0_u32..9, 0_u32..9), 1..6),
        ages in prop::collection::vec(0_u64..100_000, 8),
    ) -> Settlement {
        let mut left: u32 = returned.iter().map(|(promised, ..)| promised).sum();
        let mut count = left;
        let facts = |text: String, own, promised, running: u32, healthy: u32, age| SettleCell {
            own,
            healthy: healthy.min(running).min(promised),
            runs_for_ms: age,
            ..cell(&text, promised, running.min(promised))
        };
        let name_at = |first: u8, at: usize| char::from(first + u8::try_from(at).unwrap()).to_string();
        let of_returned = returned.iter().enumerate().map(|(at, (promised, running, healthy))| {
            facts(name_at(b'a', at), 0, *promised, *running, *healthy, ages[at])
        });
        let returned = of_returned.collect();
        let of_others = others.iter().enumerate().map(|(at, (own, extra, running, healthy))| {
            let extra = (*extra).min(left);
            left -= extra;
            count += own;
            facts(name_at(b'm', at), *own, own + extra, *running, *healthy, ages[at + 2])
        });
        let others = of_others.collect();
        Settlement { policy, count, returned, others, kept: None, back_ms: 0 }
    }
}

fn cells(facts: &Settlement) -> impl Iterator<Item = &SettleCell> {
    facts.returned.iter().chain(&facts.others)
}

/// Tasks of the settlement that serve with these counts. Which tasks of a cell do not is not known: it counts as if
/// they were those of the settlement.
fn serving(facts: &Settlement, count_of: impl Fn(&SettleCell) -> u32) -> u32 {
    let good = |cell: &SettleCell| {
        let good = if facts.policy == ReturnPolicy::Both { cell.healthy } else { cell.running };
        let extra = |count: u32| count.saturating_sub(cell.own);
        let serve = extra(cell.promised).saturating_sub(cell.promised - good.min(cell.promised));
        serve.min(extra(count_of(cell)))
    };
    cells(facts).map(good).sum()
}

/// How many tasks the settlement is about: those that no cell has as its own.
fn needed(facts: &Settlement) -> u32 {
    facts.count - cells(facts).map(|cell| cell.own).sum::<u32>()
}

/// The cells after a step was carried out: tasks end, those that do not run first.
fn carried_out(facts: &Settlement, step: &SettleStep) -> Settlement {
    let after = |cell: &SettleCell| {
        let promised = step.counts[&cell.cell];
        let running = cell.running.min(promised);
        SettleCell { promised, running, healthy: cell.healthy.min(running), ..cell.clone() }
    };
    Settlement {
        returned: facts.returned.iter().map(after).collect(),
        others: facts.others.iter().map(after).collect(),
        kept: Some(step.kept),
        ..facts.clone()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_048))]

    /// Some tasks begin to run, some never do, and cells may be silent for a while.
    #[test]
    fn a_return_settles_with_the_right_sum_and_no_less_runs(
        facts in settlement_any(),
        grows in prop::collection::vec((any::<bool>(), 0_usize..7), 40),
        silent in prop::collection::vec(prop::option::weighted(0.3, 0_usize..7), 20),
    ) {
        let mut facts = facts;
        let promised: u32 = cells(&facts).map(|cell| cell.promised).sum();
        for round in 0..32_u32 {
            let at = usize::try_from(round).unwrap();
            facts.back_ms = SETTLE_MS_MAX / 20 * u64::from(round);
            let (grow, which) = grows[at];
            let hides = silent.get(at).copied().flatten();
            for (at, cell) in facts.returned.iter_mut().chain(&mut facts.others).enumerate() {
                cell.is_current = hides != Some(at);
                if grow && at == which {
                    cell.running = cell.promised;
                    cell.healthy = cell.running.min(cell.healthy + 2);
                }
            }
            let step = settle_step(&facts);
            let before: u32 = cells(&facts).map(|cell| cell.promised).sum();
            let after: u32 = step.counts.values().sum();
            prop_assert!(cells(&facts).all(|cell| step.counts[&cell.cell] <= cell.promised), "nothing is promised again");
            prop_assert!(cells(&facts).all(|cell| step.counts[&cell.cell] >= cell.own.min(cell.promised)), "own tasks stay");
            prop_assert!(cells(&facts).all(|cell| cell.is_current || step.counts[&cell.cell] == cell.promised), "silent");
            prop_assert!(after >= facts.count.min(before), "{after} of {}", facts.count);
            if cells(&facts).all(|cell| cell.is_current) {
                let served = serving(&facts, |cell| cell.promised);
                let serves = serving(&facts, |cell| step.counts[&cell.cell]);
                prop_assert!(serves >= served.min(needed(&facts)), "{serves} after {served} of {}\n{facts:#?}\n{step:#?}", facts.count);
            }
            if step.outcome == SettleOutcome::Settled {
                prop_assert_eq!(after, facts.count.min(promised), "\n{:#?}\n{:#?}", facts, step);
                return Ok(());
            }
            prop_assert!(facts.back_ms < SETTLE_MS_MAX || hides.is_some(), "{step:#?}");
            facts = carried_out(&facts, &step);
        }
        prop_assert!(false, "it has not settled: {facts:#?}");
    }

    /// The owner may have scaled the job, and nothing is known of who had which task.
    #[test]
    fn any_facts_give_a_step_that_lowers_only(
        facts in settlement_any(), count in 0_u32..40, owns in prop::collection::vec(0_u32..9, 7),
        back_ms in select(vec![0, SETTLE_MS_MAX]),
    ) {
        let mut facts = Settlement { count, back_ms, ..facts };
        for (cell, own) in facts.returned.iter_mut().chain(&mut facts.others).zip(owns) {
            cell.own = own;
        }
        let step = settle_step(&facts);
        prop_assert!(cells(&facts).all(|cell| step.counts[&cell.cell] <= cell.promised));
        prop_assert!(cells(&facts).all(|cell| step.counts[&cell.cell] >= cell.own.min(cell.promised)));
        let before: u32 = cells(&facts).map(|cell| cell.promised).sum();
        prop_assert!(step.counts.values().sum::<u32>() >= count.min(before));
        let kept = Settlement { kept: Some(step.kept), ..facts };
        prop_assert_eq!(settle_step(&kept), step, "the same facts give the same step");
    }
}
