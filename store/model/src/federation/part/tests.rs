//! What is promised to cells, told to them, and taken back.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::federation::{CellFacts, FederatedJob, FederationSpec, SplitMode, settle_step, split};
use crate::job::JobSpec;

const JOB: FederatedJobId = FederatedJobId(7);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn job(count: u32, version: u64) -> FederatedJobRow {
    let file = serde_json::json!({"name": "web", "count": count, "task": {"command": ["true"]}});
    let (job, _) = JobSpec::from_file(&(&file).into(), &name("ada")).unwrap();
    FederatedJobRow {
        id: JOB,
        spec: FederatedJob { job, federation: FederationSpec::default() },
        version,
        state: FederatedState::Active,
        revision: version,
        submitted_ms: 0,
        changed_ms: 0,
        changed_by: String::new(),
        order: None,
        rebalance: None,
    }
}

fn found(owner: Option<FederatedJobId>, changed_revision: u64, count: u32) -> FoundJob {
    let job = AdmittedJob { id: "j1".to_owned(), changed_revision, version: 2 };
    let (revision, has_failed, reverts) = (changed_revision, false, 0);
    FoundJob { job, revision, owner, count, has_failed, reverts, is_finished: false }
}

/// A cell that has taken so many tasks, and runs so many healthy ones.
fn part(cell: &str, count: u32, healthy: u32) -> FederatedPart {
    let mut part = FederatedPart::new(name(cell));
    part.promise(count, count, 1, 5);
    part.arrived = part.promise;
    part.admitted = Some(found(Some(JOB), 3, count).job);
    part.admitted_version = 1;
    part.seen = Some(PartSeen { at_ms: 9, running: healthy, healthy, ..PartSeen::default() });
    part
}

fn parts<const N: usize>(parts: [FederatedPart; N]) -> BTreeMap<Name, FederatedPart> {
    parts.into_iter().map(|part| (part.cell.clone(), part)).collect()
}

#[test]
fn a_cell_is_told_until_it_has_what_was_promised() {
    let mut promised = part("a", 3, 3);
    assert_eq!(part_step(JOB, &promised, Some(&found(Some(JOB), 3, 3))), PartStep::Rest);
    // Somebody has scaled it in the cell, or has stopped it.
    let other = found(Some(JOB), 4, 9);
    assert_eq!(part_step(JOB, &promised, Some(&other)), PartStep::Submit { expected: Some(other.clone()) });
    assert_eq!(part_step(JOB, &promised, None), PartStep::Submit { expected: None });
    // The answer was lost: it is reported again.
    promised.promise(5, 5, 1, 6);
    let before = found(Some(JOB), 3, 3);
    assert_eq!(part_step(JOB, &promised, Some(&before)), PartStep::Submit { expected: Some(before.clone()) });
    let stray = FederatedPart::unwanted(name("a"), 1, 6);
    assert!(!stray.is_arrived() && !stray.is_over());
    assert_eq!(part_step(JOB, &stray, Some(&before)), PartStep::Stop { id: "j1".to_owned() });
    promised.promise(0, 0, 1, 7);
    assert_eq!(part_step(JOB, &promised, Some(&before)), PartStep::Stop { id: "j1".to_owned() });
    assert_eq!(part_step(JOB, &promised, None), PartStep::Rest);
}

/// A submission of the same version would begin it again, and the release of the job decides that.
#[test]
fn the_count_of_a_version_that_failed_is_brought_without_the_version() {
    let mut promised = part("a", 3, 3);
    let back = |count| FoundJob { reverts: 2, ..found(Some(JOB), 4, count) };
    let stopped = |revision| FoundJob { has_failed: true, ..found(Some(JOB), revision, 3) };
    assert_eq!(part_step(JOB, &promised, Some(&back(3))), PartStep::Rest);
    assert_eq!(part_step(JOB, &promised, Some(&back(9))), PartStep::Scale { expected: back(9) });
    assert_eq!(part_step(JOB, &promised, Some(&stopped(3))), PartStep::Rest);
    // The count was brought before, and the answer was lost.
    assert_eq!(part_step(JOB, &promised, Some(&stopped(4))), PartStep::Rest);
    // Somebody has changed it in the cell, and that has failed.
    let mut other = stopped(4);
    other.job.version = 5;
    assert!(matches!(part_step(JOB, &promised, Some(&other)), PartStep::Submit { .. }));
    promised.promise(5, 5, 1, 6);
    assert_eq!(part_step(JOB, &promised, Some(&back(3))), PartStep::Scale { expected: back(3) });
    assert_eq!(part_step(JOB, &promised, Some(&stopped(3))), PartStep::Scale { expected: stopped(3) });
    // What was taken back before the cell admitted this version says nothing of it.
    let earlier = |count| FoundJob { reverts: 1, ..found(Some(JOB), 4, count) };
    assert!(matches!(part_step(JOB, &promised, Some(&earlier(3))), PartStep::Submit { .. }));
    // The release brings another version, or goes back.
    promised.promise(5, 5, 2, 7);
    assert!(matches!(part_step(JOB, &promised, Some(&back(3))), PartStep::Submit { .. }));
    assert!(matches!(part_step(JOB, &promised, Some(&stopped(3))), PartStep::Submit { .. }));
}

#[test]
fn work_that_has_ended_by_itself_is_not_run_again() {
    let mut done = part("a", 3, 0);
    let ended = FoundJob { is_finished: true, ..found(Some(JOB), 5, 3) };
    assert_eq!(part_step(JOB, &done, Some(&ended)), PartStep::Rest);
    done.seen = Some(PartSeen { at_ms: 9, succeeded: 3, finished: true, ..PartSeen::default() });
    assert_eq!(part_step(JOB, &done, None), PartStep::Rest, "the cell has forgotten it");
    // Its own rollout is not over, and nothing is left to change.
    let changed = PartSeen { rollout: PartRollout::Rolling, ..done.seen.clone().unwrap() };
    let part_changed = FederatedPart { seen: Some(changed), ..done.clone() };
    let progress = part_release(&part_changed, &BTreeMap::new(), CellReach::Reachable).progress;
    assert_eq!(progress, CellProgress::Complete);
    // Another version is none of tasks that have ended. More tasks are other work.
    done.promise(3, 3, 2, 10);
    assert_eq!(part_step(JOB, &done, Some(&ended)), PartStep::Rest);
    done.promise(4, 4, 2, 11);
    assert_eq!(part_step(JOB, &done, Some(&ended)), PartStep::Submit { expected: None });
    assert_eq!(part_step(JOB, &done, None), PartStep::Submit { expected: None });
    // Stopped by somebody in the cell is not ended by itself: what was promised holds.
    assert_eq!(part_step(JOB, &part("a", 3, 3), None), PartStep::Submit { expected: None });
    assert_eq!(part_step(JOB, &part("a", 0, 0), Some(&ended)), PartStep::Rest);
}

/// Its name is free then: another job of the name begins, also where the earlier one has left its end.
#[test]
fn a_job_is_over_once_the_tasks_of_each_cell_have_ended() {
    let row = job(5, 1);
    let status = FederatedStatus { divided: row.revision, ..FederatedStatus::default() };
    let ended = |cell, count| {
        let mut part = part(cell, count, 0);
        part.seen = Some(PartSeen { succeeded: count, finished: true, ..PartSeen::default() });
        part
    };
    let over = |known: [FederatedPart; 2]| parts_finished(&row, &status, &parts(known));
    assert!(over([ended("a", 3), ended("b", 2)]) && over([ended("a", 3), part("c", 0, 0)]));
    assert!(!over([ended("a", 3), part("b", 2, 1)]) && !over([part("b", 0, 0), part("c", 0, 0)]));
    let mut larger = ended("b", 2);
    larger.promise(3, 3, 1, 9);
    assert!(!over([ended("a", 3), larger]), "the cell has not taken it yet");
    let all = parts([ended("a", 5)]);
    assert!(!parts_finished(&row, &FederatedStatus { unplaced: 1, ..status.clone() }, &all));
    assert!(!parts_finished(&row, &FederatedStatus { divided: 0, ..status }, &all));
    let earlier = FoundJob { is_finished: true, ..found(Some(FederatedJobId(8)), 5, 3) };
    assert_eq!(part_step(JOB, &part("a", 3, 0), Some(&earlier)), PartStep::Submit { expected: None });
    assert_eq!(part_step(JOB, &part("a", 0, 0), Some(&earlier)), PartStep::Rest);
}

#[test]
fn a_job_of_the_cell_itself_is_never_touched() {
    for owner in [None, Some(FederatedJobId(8))] {
        let mut own = found(owner, 3, 2);
        own.job.id = "j2".to_owned();
        let taken = PartStep::Taken { id: "j2".to_owned() };
        assert_eq!(part_step(JOB, &part("a", 3, 3), Some(&own)), taken);
        assert_eq!(part_step(JOB, &part("a", 0, 0), Some(&own)), PartStep::Rest);
    }
}

/// Whoever runs another file of the name in the cell takes the labels away.
#[test]
fn a_part_that_has_lost_its_labels_is_restored() {
    let unlabelled = found(None, 9, 3);
    let expected = PartStep::Submit { expected: Some(unlabelled.clone()) };
    assert_eq!(part_step(JOB, &part("a", 3, 3), Some(&unlabelled)), expected);
    let of_another = found(Some(FederatedJobId(8)), 9, 3);
    assert!(matches!(part_step(JOB, &part("a", 3, 3), Some(&of_another)), PartStep::Taken { .. }));
}

#[test]
fn tasks_that_move_are_healthy_elsewhere_before_they_end() {
    let mut known = parts([part("a", 4, 4), part("b", 2, 2)]);
    known.get_mut("a").unwrap().target = 1;
    known.get_mut("b").unwrap().promise(5, 5, 1, 6);
    assert_eq!(parts_lowered(&known, |_| true, 10), [], "b has 2 of 5");
    known.get_mut("b").unwrap().seen.as_mut().unwrap().healthy = 5;
    let lowered = parts_lowered(&known, |_| true, 10);
    assert_eq!((lowered.len(), lowered[0].cell.as_str(), lowered[0].count), (1, "a", 1));
    assert_eq!(parts_lowered(&known, |cell| cell.as_str() == "a", 10), [], "nobody hears of b");
}

#[test]
fn fewer_tasks_and_tasks_that_are_not_healthy_end_at_once() {
    let mut known = parts([part("a", 4, 4), part("b", 4, 0)]);
    known.get_mut("a").unwrap().target = 1;
    known.get_mut("b").unwrap().target = 0;
    let lowered = parts_lowered(&known, |_| true, 10);
    assert_eq!(lowered.iter().map(|part| part.count).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn a_cell_that_was_failed_over_is_settled_when_it_is_back() {
    let mut known = parts([part("a", 3, 3), part("b", 1, 1)]);
    for part in part_failed_over(&known, &name("a"), 8) {
        known.insert(part.cell.clone(), part);
    }
    assert_eq!((known[&name("a")].failed_over_ms, known[&name("a")].target), (Some(8), 0));
    assert_eq!(known[&name("b")].own, Some(1));
    // The others get what it had, and it gives up nothing while it is silent.
    known.get_mut("b").unwrap().promise(4, 4, 1, 9);
    assert_eq!(parts_lowered(&known, |_| true, 10), []);
    let job = job(4, 1);
    let of = |known: &BTreeMap<Name, FederatedPart>| settlement_of(&job, known, None, |_| true, |_| 5, 20);
    known.get_mut("a").unwrap().seen.as_mut().unwrap().at_ms = 8;
    assert_eq!(of(&known), None, "nothing was seen of it since");
    known.get_mut("a").unwrap().seen.as_mut().unwrap().at_ms = 12;
    let settlement = of(&known).unwrap();
    assert_eq!((settlement.returned.len(), settlement.others[0].own, settlement.count), (1, 1, 4));
    // The new ones do not run yet: the cell that is back keeps what it has in their place.
    let step = settle_step(&settlement);
    let waits = settlement_apply(&known, &step, 21);
    assert!(waits.iter().all(|part| part.failed_over_ms.is_some() || part.count == 4), "{waits:?}");
    known.get_mut("b").unwrap().seen =
        Some(PartSeen { at_ms: 13, running: 4, healthy: 4, ..PartSeen::default() });
    let settled = settlement_apply(&known, &settle_step(&of(&known).unwrap()), 22);
    for part in settled {
        known.insert(part.cell.clone(), part);
    }
    let counts: Vec<_> = known.values().map(|part| (part.count, part.failed_over_ms, part.own)).collect();
    assert_eq!(counts, [(0, None, None), (4, None, None)]);
}

#[test]
fn a_part_has_proved_a_version_when_its_cell_has_reported_that_it_is_rolled_out() {
    let progress = |part: &FederatedPart| part_release(part, &BTreeMap::new(), CellReach::Reachable).progress;
    let mut told = part("a", 2, 2);
    assert_eq!(progress(&told), CellProgress::Complete);
    told.promise(2, 2, 2, 20);
    assert_eq!(progress(&told), CellProgress::Rolling, "it has not taken it");
    told.arrived = told.promise;
    assert_eq!(progress(&told), CellProgress::Rolling, "nothing was seen of it since");
    for (rollout, healthy, is_complete) in
        [(PartRollout::Rolling, 2, false), (PartRollout::Done, 1, false), (PartRollout::Done, 2, true)]
    {
        told.seen = Some(PartSeen { at_ms: 21, running: 2, healthy, rollout, ..PartSeen::default() });
        assert_eq!(progress(&told) == CellProgress::Complete, is_complete, "{rollout:?} {healthy}");
    }
    told.seen.as_mut().unwrap().rollout = PartRollout::Failed;
    assert!(matches!(progress(&told), CellProgress::Failed { .. }));
}

#[test]
fn a_stopped_job_is_promised_to_nobody() {
    let stopping = FederatedJobRow { state: FederatedState::Stopping, ..job(4, 1) };
    let mut lost = part("b", 2, 2);
    lost.failed_over_ms = Some(3);
    let known = parts([part("a", 2, 2), lost]);
    let none = split(&stopping.spec.federation, 0, &[], SplitMode::Again);
    let promised = parts_promised(&stopping, &known, &none, 1, 20);
    assert_eq!(promised.iter().map(|part| part.count).collect::<Vec<_>>(), [0, 0]);
    assert!(promised.iter().all(|part| part.failed_over_ms.is_none() && !part.is_arrived()));
}

/// One cell of a small federation.
#[derive(Clone, Debug)]
struct Cell {
    room: u32,
    is_heard: bool,
}

fn cells() -> impl Strategy<Value = Vec<Cell>> {
    let cell = (0..9_u32, any::<bool>()).prop_map(|(room, is_heard)| Cell { room, is_heard });
    proptest::collection::vec(cell, 1..6)
}

proptest! {
    /// Cells that all take what is promised to them end with the count. At no time are more tasks healthy than were
    /// promised.
    #[test]
    fn promises_add_up_whatever_the_cells_have_room_for(
        rounds in proptest::collection::vec((cells(), 0..12_u32), 1..8)
    ) {
        let mut known: BTreeMap<Name, FederatedPart> = BTreeMap::new();
        for (at, (cells, count)) in rounds.into_iter().enumerate() {
            let now_ms = 100 + i64::try_from(at).unwrap();
            let job = job(count, 1);
            let facts: Vec<CellFacts> = cells.iter().enumerate().map(|(at, cell)| {
                let cell_name = name(&format!("c{at}"));
                let known = known.get(&cell_name);
                CellFacts {
                    room: cell.is_heard.then_some(cell.room),
                    silent_since_ms: (!cell.is_heard).then_some(1),
                    has: known.map_or(0, |part| part.target),
                    running: known.map_or(0, |part| part.target),
                    ..CellFacts::new(cell_name)
                }
            }).collect();
            let division = split(&job.spec.federation, count, &facts, SplitMode::Again);
            for part in parts_promised(&job, &known, &division, 1, now_ms) {
                prop_assert!(part.target <= part.count);
                known.insert(part.cell.clone(), part);
            }
            let heard: BTreeSet<Name> =
                facts.iter().filter(|facts| facts.silent_since_ms.is_none()).map(|facts| facts.name.clone()).collect();
            let targets: u32 = known.values().map(|part| part.target).sum();
            prop_assert!(targets <= count, "{targets} of {count}");
            // Those that are heard take it, and run it.
            for part in known.values_mut().filter(|part| heard.contains(&part.cell)) {
                part.arrived = part.promise;
                let healthy = part.count;
                part.seen = Some(PartSeen { at_ms: now_ms, running: healthy, healthy, ..PartSeen::default() });
            }
            let before: u32 = known.values().filter(|part| heard.contains(&part.cell)).map(FederatedPart::healthy).sum();
            for part in parts_lowered(&known, |cell| heard.contains(cell), now_ms) {
                known.insert(part.cell.clone(), part);
            }
            let after: u32 = known.values().filter(|part| heard.contains(&part.cell)).map(FederatedPart::healthy).sum();
            prop_assert!(after >= before.min(targets), "{before} -> {after}, {targets} wanted");
        }
    }
}
