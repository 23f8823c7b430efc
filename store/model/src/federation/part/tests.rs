//! What is promised to cells, told to them, and taken back.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::federation::{CellFacts, FederatedJob, FederationSpec, SplitMode, split};
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
    }
}

fn found(owner: Option<FederatedJobId>, changed_revision: u64, count: u32) -> FoundJob {
    let job = AdmittedJob { id: "j1".to_owned(), changed_revision };
    FoundJob { job, revision: changed_revision, owner, count }
}

/// A cell that has taken so many tasks, and runs so many healthy ones.
fn part(cell: &str, count: u32, healthy: u32) -> FederatedPart {
    let mut part = FederatedPart::new(name(cell));
    part.promise(count, count, 1, 5);
    part.arrived = part.promise;
    part.admitted = Some(found(Some(JOB), 3, count).job);
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
    // The answer was lost: it is told again.
    promised.promise(5, 5, 1, 6);
    let before = found(Some(JOB), 3, 3);
    assert_eq!(part_step(JOB, &promised, Some(&before)), PartStep::Submit { expected: Some(before.clone()) });
    promised.promise(0, 0, 1, 7);
    assert_eq!(part_step(JOB, &promised, Some(&before)), PartStep::Stop { id: "j1".to_owned() });
    assert_eq!(part_step(JOB, &promised, None), PartStep::Rest);
}

#[test]
fn a_job_of_the_cell_itself_is_never_touched() {
    for owner in [None, Some(FederatedJobId(8))] {
        let own = found(owner, 3, 2);
        let taken = PartStep::Taken { id: "j1".to_owned() };
        assert_eq!(part_step(JOB, &part("a", 3, 3), Some(&own)), taken);
        assert_eq!(part_step(JOB, &part("a", 0, 0), Some(&own)), PartStep::Rest);
    }
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
fn a_cell_that_was_failed_over_keeps_its_tasks_until_it_is_heard_again() {
    let mut known = parts([part("a", 3, 3), part("b", 3, 3)]);
    let lost = known.get_mut("a").unwrap();
    (lost.failed_over_ms, lost.target) = (Some(8), 0);
    assert_eq!(parts_lowered(&known, |cell| cell.as_str() == "b", 10), []);
    let back = parts_lowered(&known, |_| true, 11);
    assert_eq!((back.len(), back[0].count, back[0].failed_over_ms), (1, 0, None));
}

#[test]
fn one_cell_after_the_other_gets_a_version_and_a_failed_one_is_the_last() {
    let job = job(4, 2);
    let mut known = parts([part("a", 2, 2), part("b", 2, 2), part("c", 1, 1)]);
    let silent = |cell: &Name| cell.as_str() != "a";
    assert_eq!(part_versioned(&job, &known, silent, 20).unwrap().cell, name("b"), "a is passed over");
    let mut first = part_versioned(&job, &known, |_| true, 20).unwrap();
    assert_eq!((first.cell.as_str(), first.version, first.is_arrived()), ("a", 2, false));
    known.insert(first.cell.clone(), first.clone());
    assert_eq!(part_versioned(&job, &known, |_| true, 21), None, "a has not taken it");
    first.arrived = first.promise;
    known.insert(first.cell.clone(), first.clone());
    assert_eq!(part_versioned(&job, &known, |_| true, 22), None, "nothing was seen of it since");
    for (rollout, next) in
        [(PartRollout::Rolling, None), (PartRollout::Failed, None), (PartRollout::Done, Some(name("b")))]
    {
        let seen = PartSeen { at_ms: 23, running: 2, healthy: 2, rollout, ..PartSeen::default() };
        known.insert(first.cell.clone(), FederatedPart { seen: Some(seen), ..first.clone() });
        assert_eq!(part_versioned(&job, &known, |_| true, 24).map(|part| part.cell), next, "{rollout:?}");
    }
}

#[test]
fn a_stopped_job_is_promised_to_nobody() {
    let stopping = FederatedJobRow { state: FederatedState::Stopping, ..job(4, 1) };
    let mut lost = part("b", 2, 2);
    lost.failed_over_ms = Some(3);
    let known = parts([part("a", 2, 2), lost]);
    let none = split(&stopping.spec.federation, 0, &[], SplitMode::Again);
    let promised = parts_promised(&stopping, &known, &none, 20);
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
    /// Cells that all take what they are told end with the count, and no more than it is healthy at any time without
    /// being promised.
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
            for part in parts_promised(&job, &known, &division, now_ms) {
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
