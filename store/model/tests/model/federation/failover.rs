//! When a silent cell fails over: over arbitrary histories of what could be reached, and by example.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::federation::{
    CellLook, CellLooked, FAILOVER_CELLS_MAX, FAILOVER_WINDOW_MS, FailoverAfter, FailoverHold,
    FailoverOutcome, FailoverVerdict, FederationWatch, PromisedPart, WATCH_GAP_MS, WATCHED_MS_MIN,
    failover_decide,
};
use borough_model::member::ProblemKind;
use borough_model::{MemberId, Name};
use proptest::prelude::*;
use proptest::sample::select;

use crate::sample::name;

const LOOK_MS: u64 = 5_000;

fn looked(cell: &str, look: CellLook) -> CellLooked {
    CellLooked { cell: name(cell), member: MemberId(u64::from(cell.as_bytes()[0])), look }
}

/// One letter for each cell `a`, `b` and so on: `+` answers, `!` refuses, `-` is silent.
fn round(watch: &mut FederationWatch, looks: &str, at_ms: u64) {
    let look = |letter: char| match letter {
        '+' => CellLook::Answered,
        '!' => CellLook::Refused,
        _ => CellLook::Unanswered,
    };
    let cells = ('a'..).zip(looks.chars());
    let looks: Vec<CellLooked> =
        cells.map(|(cell, letter)| looked(&cell.to_string(), look(letter))).collect();
    watch.round(&looks, at_ms);
}

/// The same rounds from `from_ms` to `to_ms`, and when the last one was.
fn rounds(watch: &mut FederationWatch, looks: &str, from_ms: u64, to_ms: u64) {
    for at_ms in (from_ms..=to_ms).step_by(usize::try_from(LOOK_MS).unwrap()) {
        round(watch, looks, at_ms);
    }
}

fn part(cell: &str, after: FailoverAfter) -> PromisedPart {
    PromisedPart {
        user: name("ada"),
        job: name("web"),
        cell: name(cell),
        count: 3,
        failover_after: after,
        failed_over: false,
    }
}

const MINUTE: FailoverAfter = FailoverAfter::Ms(60_000);
const FIVE: FailoverAfter = FailoverAfter::DEFAULT;

fn outcomes(watch: &FederationWatch, parts: &[PromisedPart], now_ms: u64) -> Vec<FailoverOutcome> {
    failover_decide(watch, parts, now_ms).into_iter().map(|verdict| verdict.outcome).collect()
}

fn held(watch: &FederationWatch, part: &PromisedPart, now_ms: u64) -> FailoverHold {
    match outcomes(watch, std::slice::from_ref(part), now_ms).as_slice() {
        [FailoverOutcome::Holds(hold)] => hold.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cell_fails_over_after_the_tolerance_and_not_before() {
    let mut watch = FederationWatch::default();
    rounds(&mut watch, "+++", 0, 60_000);
    // The first look without an answer is at 65 s.
    rounds(&mut watch, "-++", 65_000, 360_000);
    let hold = held(&watch, &part("a", FIVE), 360_000);
    assert_eq!(hold, FailoverHold::Tolerated { observed_ms: 295_000, tolerance_ms: 300_000 });
    assert_eq!(
        hold.to_string(),
        "looks have seen 4m55s of silence, and the job bears 5m; a shorter `failover_after` would move its tasks earlier"
    );
    round(&mut watch, "-++", 365_000);
    assert_eq!(outcomes(&watch, &[part("a", FIVE)], 365_000), [FailoverOutcome::Begins]);
    assert!(outcomes(&watch, &[part("b", FIVE)], 365_000).is_empty(), "it answers");
}

#[test]
fn a_false_alarm_that_ends_before_the_failover_does_nothing() {
    let mut watch = FederationWatch::default();
    rounds(&mut watch, "+++", 0, 60_000);
    rounds(&mut watch, "-++", 65_000, 360_000);
    round(&mut watch, "+++", 365_000);
    rounds(&mut watch, "-++", 370_000, 665_000);
    let hold = held(&watch, &part("a", FIVE), 665_000);
    assert_eq!(hold, FailoverHold::Tolerated { observed_ms: 295_000, tolerance_ms: 300_000 });
    assert!(watch.silences().contains_key(&name("a")) && watch.silences().len() == 1);
}

#[test]
fn nothing_moves_while_the_federation_is_cut_off_nor_at_once_after_that() {
    let mut watch = FederationWatch::default();
    rounds(&mut watch, "+++++", 0, 60_000);
    rounds(&mut watch, "---++", 65_000, 2_000_000);
    let hold = held(&watch, &part("a", MINUTE), 2_000_000);
    assert_eq!(hold, FailoverHold::CutOff { answering: 2, all: 5 });
    // The network is back, and two cells are slow to answer again. Nobody could judge them before.
    rounds(&mut watch, "--+++", 2_005_000, 2_060_000);
    assert_eq!(held(&watch, &part("a", MINUTE), 2_060_000), FailoverHold::WatchNew { watched_ms: 55_000 });
    rounds(&mut watch, "--+++", 2_065_000, 2_065_000);
    assert_eq!(outcomes(&watch, &[part("a", MINUTE)], 2_065_000), [FailoverOutcome::Begins]);
    // Exactly half is no majority.
    let mut half = FederationWatch::default();
    rounds(&mut half, "-+", 0, 2_000_000);
    assert_eq!(held(&half, &part("a", MINUTE), 2_000_000), FailoverHold::CutOff { answering: 1, all: 2 });
}

#[test]
fn a_leader_that_was_paused_has_to_watch_again() {
    let mut watch = FederationWatch::default();
    rounds(&mut watch, "-++", 0, 50_000);
    // It was paused for an hour. Its clock says so, and it has seen none of that silence.
    let back = 50_000 + 3_600_000;
    assert_eq!(held(&watch, &part("a", MINUTE), back), FailoverHold::NoLook { idle_ms: 3_600_000 });
    round(&mut watch, "-++", back);
    assert_eq!(held(&watch, &part("a", MINUTE), back), FailoverHold::WatchNew { watched_ms: 0 });
    let silence = watch.silences()[&name("a")];
    assert_eq!(silence.observed_ms, 50_000, "the pause is no silence");
    rounds(&mut watch, "-++", back + LOOK_MS, back + WATCHED_MS_MIN);
    assert_eq!(outcomes(&watch, &[part("a", MINUTE)], back + WATCHED_MS_MIN), [FailoverOutcome::Begins]);
}

#[test]
fn a_new_leader_goes_on_from_what_earlier_ones_have_seen() {
    let mut first = FederationWatch::default();
    rounds(&mut first, "-++", 0, 280_000);
    let mut second = FederationWatch::after(first.silences());
    rounds(&mut second, "-++", 1_000, 56_000);
    assert_eq!(held(&second, &part("a", FIVE), 56_000), FailoverHold::WatchNew { watched_ms: 55_000 });
    round(&mut second, "-++", 61_000);
    assert_eq!(outcomes(&second, &[part("a", FIVE)], 61_000), [FailoverOutcome::Begins]);
    // A cell that answers the new leader is not silent, and one that joined again is another one.
    let mut fresh = FederationWatch::after(first.silences());
    round(&mut fresh, "+++", 0);
    rounds(&mut fresh, "-++", LOOK_MS, 70_000);
    let hold = held(&fresh, &part("a", FIVE), 70_000);
    assert_eq!(hold, FailoverHold::Tolerated { observed_ms: 65_000, tolerance_ms: 300_000 });
    let mut other = FederationWatch::after(first.silences());
    let again = CellLooked { member: MemberId(7), ..looked("a", CellLook::Unanswered) };
    other.round(&[again, looked("b", CellLook::Answered), looked("c", CellLook::Answered)], 0);
    assert_eq!(other.silences()[&name("a")].observed_ms, 0);
    rounds(&mut first, "-++", 285_000, 295_000);
    let again = CellLooked { member: MemberId(7), ..looked("a", CellLook::Unanswered) };
    first.round(&[again, looked("b", CellLook::Answered), looked("c", CellLook::Answered)], 300_000);
    assert_eq!(first.silences()[&name("a")].observed_ms, 0, "between two rounds of one leader");
}

#[test]
fn a_part_that_stays_says_why() {
    let mut watch = FederationWatch::default();
    rounds(&mut watch, "-!+++", 0, 60_000);
    rounds(&mut watch, "-!-++++", 65_000, 70_000);
    let never = part("a", FailoverAfter::Never);
    assert_eq!(held(&watch, &never, 70_000), FailoverHold::Never);
    assert_eq!(held(&watch, &part("b", MINUTE), 70_000), FailoverHold::Refuses);
    assert_eq!(held(&watch, &PromisedPart { failed_over: true, ..never }, 70_000), FailoverHold::Begun);
    assert_eq!(held(&watch, &PromisedPart { count: 0, ..part("a", MINUTE) }, 70_000), FailoverHold::NoTasks);
    assert_eq!(held(&watch, &part("x", MINUTE), 70_000), FailoverHold::NotLooked);
    // Its silence is new, and shorter than three looks.
    let young = part("c", FailoverAfter::Ms(30_000));
    assert_eq!(held(&watch, &young, 70_000), FailoverHold::FewLooks { looks: 2 });
}

#[test]
fn the_looks_of_the_federation_are_those_of_a_failover() {
    let of = |problem| CellLook::of(Some(problem));
    assert_eq!(CellLook::of(None), CellLook::Answered);
    assert_eq!(of(ProblemKind::Silent), CellLook::Unanswered);
    assert_eq!([of(ProblemKind::Refused), of(ProblemKind::OlderStore)], [CellLook::Refused; 2]);
}

#[test]
fn two_cells_a_minute_begin_the_longest_silent_ones_first_and_all_jobs_of_a_cell_together() {
    let mut watch = FederationWatch::default();
    rounds(&mut watch, "+++++++", 0, 60_000);
    rounds(&mut watch, "+++-+++", 65_000, 70_000);
    rounds(&mut watch, "+---+++", 75_000, 200_000);
    let parts = |watch: &FederationWatch, now_ms: u64| {
        let other = |cell: &str| PromisedPart { job: name("db"), ..part(cell, MINUTE) };
        let parts: Vec<PromisedPart> =
            ["b", "c", "d"].into_iter().flat_map(|cell| [part(cell, MINUTE), other(cell)]).collect();
        let begins =
            |verdict: FailoverVerdict| (verdict.outcome == FailoverOutcome::Begins).then_some(verdict);
        let begun = failover_decide(watch, &parts, now_ms).into_iter().filter_map(begins);
        begun.map(|verdict| format!("{}/{}", verdict.cell, verdict.job)).collect::<Vec<_>>()
    };
    assert_eq!(parts(&watch, 200_000), ["b/web", "b/db", "d/web", "d/db"]);
    watch.failover_begins(name("b"), 200_000);
    watch.failover_begins(name("d"), 200_000);
    rounds(&mut watch, "+---+++", 205_000, 260_000);
    assert_eq!(parts(&watch, 259_999), ["b/web", "b/db", "d/web", "d/db"]);
    let hold = held(&watch, &part("c", MINUTE), 259_999);
    assert_eq!(hold, FailoverHold::RateLimited { cells: FAILOVER_CELLS_MAX });
    assert!(outcomes(&watch, &[part("c", MINUTE)], 260_000) == [FailoverOutcome::Begins]);
}

/// What happens between two rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    Nothing,
    Pause(u64),
    NewLeader,
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![
        40 => Just(Between::Nothing),
        1 => (WATCH_GAP_MS + 1..400_000_u64).prop_map(Between::Pause),
        1 => Just(Between::NewLeader),
    ]
}

/// For each cell its looks, in stretches that last for some rounds.
fn history() -> impl Strategy<Value = Vec<Vec<CellLook>>> {
    let looks = vec![CellLook::Answered, CellLook::Answered, CellLook::Refused, CellLook::Unanswered];
    let stretch = (select(looks), 1_usize..60).prop_map(|(look, rounds)| vec![look; rounds]);
    let cell = prop::collection::vec(stretch, 4..12).prop_map(|stretches| stretches.concat());
    prop::collection::vec(cell, 3..8)
}

/// The truth beside what a leader believes. Its clock goes on from one leader to the next.
#[derive(Default)]
struct FailoverTruth {
    /// Since when the looks of each cell bring no answer.
    silent_since: BTreeMap<Name, u64>,
    /// How much of that somebody has watched who could judge it.
    watched_ms: BTreeMap<Name, u64>,
    /// Since when the leader looks without a gap and sees a majority.
    unbroken_since: Option<u64>,
    begun: Vec<(u64, Name)>,
}

impl FailoverTruth {
    fn looked(&mut self, looks: &[CellLooked], passed_ms: u64, now: u64) {
        let answered = looks.iter().filter(|looked| looked.look == CellLook::Answered).count();
        let sees_majority = 2 * answered > looks.len();
        let goes_on = passed_ms == LOOK_MS && sees_majority && self.unbroken_since.is_some();
        for looked in looks {
            if looked.look != CellLook::Unanswered {
                self.silent_since.remove(&looked.cell);
                self.watched_ms.remove(&looked.cell);
                continue;
            }
            let began = *self.silent_since.entry(looked.cell.clone()).or_insert(now);
            if goes_on && began < now {
                *self.watched_ms.entry(looked.cell.clone()).or_default() += passed_ms;
            }
        }
        if !goes_on {
            self.unbroken_since = sees_majority.then_some(now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_failover_is_early_or_without_a_majority_or_above_the_rate(
        history in history(),
        between in prop::collection::vec(between(), 200),
        tolerances in prop::collection::vec(select(vec![30_000_u64, 60_000, 120_000, 300_000]), 8),
        carries_out in prop::collection::vec(any::<bool>(), 200),
    ) {
        let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let (mut watch, mut truth, mut now) = (FederationWatch::default(), FailoverTruth::default(), 0_u64);
        let mut failed: BTreeSet<Name> = BTreeSet::new();
        for step in 0..between.len() {
            let before = now;
            now += LOOK_MS;
            match between[step] {
                Between::Nothing => {}
                Between::Pause(ms) => now += ms,
                Between::NewLeader => {
                    watch = FederationWatch::after(watch.silences());
                    truth.unbroken_since = None;
                }
            }
            let looks: Vec<CellLooked> = history
                .iter()
                .zip(letters)
                .map(|(cell, letter)| looked(letter, cell[step % cell.len()]))
                .collect();
            watch.round(&looks, now);
            truth.looked(&looks, now - before, now);
            failed.retain(|cell| truth.silent_since.contains_key(cell));
            let answered = looks.iter().filter(|looked| looked.look == CellLook::Answered).count();
            let parts: Vec<PromisedPart> = looks
                .iter()
                .zip(&tolerances)
                .flat_map(|(looked, tolerance)| {
                    let mut one = part(looked.cell.as_str(), FailoverAfter::Ms(*tolerance));
                    one.failed_over = failed.contains(&looked.cell);
                    let never = PromisedPart { job: name("db"), failover_after: FailoverAfter::Never, ..one.clone() };
                    [one, never]
                })
                .collect();
            let verdicts = failover_decide(&watch, &parts, now);
            for verdict in &verdicts {
                let looked = looks.iter().find(|looked| looked.cell == verdict.cell).unwrap();
                prop_assert_ne!(looked.look, CellLook::Answered);
                if verdict.outcome != FailoverOutcome::Begins {
                    continue;
                }
                prop_assert_eq!(looked.look, CellLook::Unanswered);
                prop_assert_ne!(&verdict.job, &name("db"), "never");
                prop_assert!(2 * answered > looks.len(), "{answered} of {}", looks.len());
                let of_part = parts.iter().find(|part| part.cell == verdict.cell).unwrap();
                let FailoverAfter::Ms(tolerance) = of_part.failover_after else { unreachable!() };
                prop_assert!(truth.watched_ms[&verdict.cell] >= tolerance, "too early");
                prop_assert!(now - truth.unbroken_since.unwrap_or(now) >= WATCHED_MS_MIN, "it has not watched");
                prop_assert!(!of_part.failed_over);
                if carries_out[step] {
                    watch.failover_begins(verdict.cell.clone(), now);
                    truth.begun.push((now, verdict.cell.clone()));
                    failed.insert(verdict.cell.clone());
                }
            }
        }
        for (from, _) in &truth.begun {
            let within = truth.begun.iter().filter(|(at, _)| (*from..*from + FAILOVER_WINDOW_MS).contains(at));
            let cells: BTreeSet<&Name> = within.map(|(_, cell)| cell).collect();
            prop_assert!(cells.len() <= FAILOVER_CELLS_MAX, "{cells:?} from {from}");
        }
    }

    #[test]
    fn a_lasting_silence_of_a_minority_fails_over_in_bounded_time(
        cells in 3_usize..9, silent in 1_usize..4, tolerance in select(vec![30_000_u64, 60_000, 300_000])
    ) {
        let silent = silent.min((cells - 1) / 2);
        let looks = "-".repeat(silent) + &"+".repeat(cells - silent);
        let mut watch = FederationWatch::default();
        rounds(&mut watch, &"+".repeat(cells), 0, 60_000);
        let parts: Vec<PromisedPart> = ["a", "b", "c"][..silent]
            .iter()
            .map(|cell| part(cell, FailoverAfter::Ms(tolerance)))
            .collect();
        let mut begun: BTreeSet<Name> = BTreeSet::new();
        for at in (65_000..=65_000 + tolerance + FAILOVER_WINDOW_MS).step_by(5_000) {
            round(&mut watch, &looks, at);
            let left: Vec<PromisedPart> =
                parts.iter().filter(|part| !begun.contains(&part.cell)).cloned().collect();
            for verdict in failover_decide(&watch, &left, at) {
                if verdict.outcome == FailoverOutcome::Begins {
                    watch.failover_begins(verdict.cell.clone(), at);
                    begun.insert(verdict.cell);
                }
            }
        }
        prop_assert_eq!(begun.len(), silent);
    }
}
