//! Releases over a simulated fleet: cells fail, are away and come back, and people approve, stop and replace versions.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::Name;
use borough_model::federation::{
    CellProgress, CellReach, CellRelease, RELEASE_SKIP_MS, ReleaseAction, ReleasePhase, ReleaseSpec,
    ReleaseStage, ReleaseState, ReleaseWait, VersionAssignment, release_step,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::{cell, fails};
use crate::sample::name;

const TICK_MS: i64 = 60_000;
/// Steps that follow each other at once.
const STEPS_MAX: usize = 100;

/// A cell of the fleet, beside what the federation knows of it.
#[derive(Clone, Debug)]
struct FleetCell {
    facts: CellRelease,
    /// Ticks until its rolling update ends. It goes on while nobody can reach the cell.
    ticks_left: u32,
    ended: bool,
    /// When its tasks began to run its version.
    complete_ms: i64,
}

/// What happens in one tick.
#[derive(Clone, Debug)]
enum FleetEvent {
    Nothing,
    Away(usize),
    Back(usize),
    /// A split gives the cell tasks, or takes them away.
    Tasks(usize),
    NewVersion,
    Pause,
    Resume,
    Revert,
}

fn event() -> impl Strategy<Value = FleetEvent> {
    prop_oneof![
        12 => Just(FleetEvent::Nothing),
        4 => (0_usize..8).prop_map(FleetEvent::Away),
        4 => (0_usize..8).prop_map(FleetEvent::Back),
        2 => (0_usize..8).prop_map(FleetEvent::Tasks),
        1 => Just(FleetEvent::NewVersion),
        1 => Just(FleetEvent::Pause),
        2 => Just(FleetEvent::Resume),
        1 => Just(FleetEvent::Revert),
    ]
}

prop_compose! {
    /// Stages of the cells `a` to `h`.
    fn spec_any()(
        stages in prop::collection::vec((1_usize..4, 0_u64..5, 1_u32..4, any::<bool>()), 0..4),
        failures_max in 0_u32..3,
        revert in any::<bool>(),
    ) -> ReleaseSpec {
        let mut letters = ('a'..='h').map(|letter| name(&letter.to_string()));
        let stage = |(cells, ticks, at_once, approve): (usize, u64, u32, bool)| ReleaseStage {
            cells: letters.by_ref().take(cells).collect(),
            prove_ms: ticks * TICK_MS.unsigned_abs(),
            at_once,
            approve,
            ..ReleaseStage::default()
        };
        let stages: Vec<ReleaseStage> = stages.into_iter().map(stage).filter(|stage| !stage.cells.is_empty()).collect();
        ReleaseSpec { stages, failures_max, revert }
    }
}

/// Whether the cell has tasks and answers.
fn is_present(cell: &FleetCell) -> bool {
    cell.facts.has_tasks && cell.facts.reach == CellReach::Reachable
}

/// The fleet with its release.
struct Fleet {
    spec: ReleaseSpec,
    state: ReleaseState,
    cells: Vec<FleetCell>,
    now_ms: i64,
    /// Versions that fail, each with the cells in which they do.
    bad: BTreeMap<u64, BTreeSet<Name>>,
    /// Stages that a person let go on without a proof.
    unproven: BTreeSet<u32>,
    /// Whether people approve what waits for them.
    approves: bool,
}

type Checked<T> = Result<T, TestCaseError>;

impl Fleet {
    fn of(spec: ReleaseSpec, cells: usize, bad: BTreeMap<u64, BTreeSet<Name>>) -> Self {
        let of_cell = |letter: char| FleetCell {
            facts: cell(&letter.to_string(), 1),
            ticks_left: 0,
            ended: true,
            complete_ms: 0,
        };
        Self {
            spec,
            state: ReleaseState::first(1).superseded_by(2).unwrap(),
            cells: ('a'..='h').take(cells).map(of_cell).collect(),
            now_ms: 0,
            bad,
            unproven: BTreeSet::new(),
            approves: true,
        }
    }

    fn facts(&self) -> Vec<CellRelease> {
        self.cells.iter().map(|cell| cell.facts.clone()).collect()
    }

    fn stage(&self, cell: &CellRelease) -> usize {
        self.spec.stage_of(&cell.name, &cell.labels)
    }

    fn happens(&mut self, event: &FleetEvent) {
        let count = self.cells.len();
        match event {
            FleetEvent::Nothing => {}
            FleetEvent::Away(at) => {
                let reach = &mut self.cells[at % count].facts.reach;
                if *reach == CellReach::Reachable {
                    *reach = CellReach::Unreachable { for_ms: 0 };
                }
            }
            FleetEvent::Back(at) => self.cells[at % count].facts.reach = CellReach::Reachable,
            FleetEvent::Tasks(at) => {
                let cell = &mut self.cells[at % count];
                cell.facts.has_tasks = !cell.facts.has_tasks;
                if cell.facts.has_tasks {
                    cell.facts.assigned = Some(self.state.proven());
                    cell.facts.progress = CellProgress::Complete;
                    cell.ended = true;
                    cell.complete_ms = self.now_ms;
                }
            }
            FleetEvent::NewVersion => {
                self.state = self.state.superseded_by(self.state.version + 1).unwrap();
                self.unproven.clear();
            }
            FleetEvent::Pause => drop(self.state.pause()),
            FleetEvent::Resume => drop(self.state.resume()),
            FleetEvent::Revert => drop(self.state.revert()),
        }
    }

    /// A minute passes in the cells.
    fn tick(&mut self) {
        self.now_ms += TICK_MS;
        for cell in &mut self.cells {
            if let CellReach::Unreachable { for_ms } = &mut cell.facts.reach {
                *for_ms += TICK_MS.unsigned_abs();
            }
            if !cell.ended {
                cell.ticks_left = cell.ticks_left.saturating_sub(1);
                cell.ended = cell.ticks_left == 0;
                cell.complete_ms = self.now_ms;
            }
            // The federation learns of it when it reaches the cell.
            let assigned = cell.facts.assigned.unwrap_or(0);
            let is_bad = self.bad.get(&assigned).is_some_and(|cells| cells.contains(&cell.facts.name));
            if cell.ended && cell.facts.reach == CellReach::Reachable {
                cell.facts.progress = if is_bad { fails("bad") } else { CellProgress::Complete };
            }
        }
    }

    /// Steps until nothing follows at once. Returns what the last one waits for.
    fn steps(&mut self) -> Checked<ReleaseWait> {
        for _ in 0..STEPS_MAX {
            let before = self.state.clone();
            let step = release_step(&self.spec, &before, &self.facts(), self.now_ms);
            // Whichever process makes the next step has the row alone.
            let bytes = minicbor::to_vec(&step.state).unwrap();
            self.state = minicbor::decode(&bytes).unwrap();
            prop_assert_eq!(&self.state, &step.state);
            prop_assert_eq!(step.cells.len(), self.cells.len());
            match step.action {
                ReleaseAction::Assign(assignments) => self.assigned(&before, &assignments)?,
                ReleaseAction::NextStage => self.stage_check(&before)?,
                ReleaseAction::Fail | ReleaseAction::Revert => {
                    prop_assert!(before.phase == ReleasePhase::Rolling);
                    let failures = u32::try_from(self.state.failed.len()).unwrap();
                    prop_assert!(failures > self.spec.failures_max);
                }
                ReleaseAction::Done => self.stands_check(&before)?,
                ReleaseAction::Reverted => {}
                ReleaseAction::Wait { reason, due_ms } => {
                    prop_assert!(due_ms.is_none_or(|due_ms| due_ms > self.now_ms), "due at once: {reason}");
                    if !self.approved(&reason) {
                        return Ok(reason);
                    }
                }
            }
        }
        Err(TestCaseError::fail(format!("{STEPS_MAX} steps follow each other at once: {:?}", self.state)))
    }

    /// Approves what waits for a person.
    fn approved(&mut self, reason: &ReleaseWait) -> bool {
        let stage = match reason {
            ReleaseWait::Approval { stage } => *stage,
            ReleaseWait::NoProof { stage, .. } => *stage,
            _ => return false,
        };
        if self.approves {
            self.state.approve(stage).unwrap();
            if matches!(reason, ReleaseWait::NoProof { .. }) {
                self.unproven.insert(stage);
            }
        }
        self.approves
    }

    fn assigned(&mut self, before: &ReleaseState, assignments: &[VersionAssignment]) -> Checked<()> {
        prop_assert!(!assignments.is_empty());
        prop_assert!(!before.paused, "it is paused");
        for assignment in assignments {
            let at = self.cells.iter().position(|cell| cell.facts.name == assignment.cell).unwrap();
            let stage = self.stage(&self.cells[at].facts);
            let facts = &mut self.cells[at].facts;
            prop_assert_eq!(facts.reach, CellReach::Reachable);
            prop_assert!(facts.has_tasks && facts.assigned != Some(assignment.version));
            if assignment.version == before.from {
                // One that has missed the proven version, or goes back to it.
                let goes_back = matches!(before.phase, ReleasePhase::Reverting | ReleasePhase::Reverted);
                let is_over = before.phase == ReleasePhase::Done;
                prop_assert!(
                    goes_back || is_over || facts.assigned.is_none_or(|assigned| assigned < before.from)
                );
            } else {
                prop_assert_eq!(assignment.version, before.version);
                prop_assert_eq!(before.phase, ReleasePhase::Rolling, "nothing new");
                prop_assert!(stage <= usize::try_from(before.stage).unwrap(), "its stage has not begun");
                prop_assert!(before.failed.len() <= usize::try_from(self.spec.failures_max).unwrap());
            }
            facts.assigned = Some(assignment.version);
            facts.progress = CellProgress::Rolling;
            let name = facts.name.as_str().bytes().map(u32::from).sum::<u32>();
            self.cells[at].ticks_left = 1 + name % 3;
            self.cells[at].ended = false;
        }
        for assignment in assignments {
            let stage = self.spec.stage_of(&assignment.cell, &BTreeMap::new());
            let changing = self.cells.iter().filter(|cell| {
                let skipped = matches!(cell.facts.reach, CellReach::Unreachable { for_ms } if for_ms >= RELEASE_SKIP_MS);
                let rolls = cell.facts.assigned == Some(assignment.version) && cell.facts.progress == CellProgress::Rolling;
                cell.facts.has_tasks && rolls && !skipped && self.stage(&cell.facts) == stage
            });
            let most = usize::try_from(self.spec.at_once(stage)).unwrap();
            prop_assert!(changing.count() <= most, "more than {most} change in stage {stage}");
        }
        Ok(())
    }

    /// The stage has proved the version for long enough, or a person let the next one begin.
    fn stage_check(&self, before: &ReleaseState) -> Checked<()> {
        let place = usize::try_from(before.stage).unwrap();
        let stage = &self.spec.stages[place];
        prop_assert!(!stage.approve || before.approved.contains(&before.stage), "nobody has approved it");
        let reachable = |cell: &&FleetCell| self.stage(&cell.facts) == place && is_present(cell);
        let of_stage: Vec<&FleetCell> = self.cells.iter().filter(reachable).collect();
        for cell in &of_stage {
            prop_assert_eq!(cell.facts.assigned, Some(before.version));
            prop_assert_ne!(&cell.facts.progress, &CellProgress::Rolling);
        }
        let stands: Vec<&&FleetCell> =
            of_stage.iter().filter(|cell| cell.facts.progress == CellProgress::Complete).collect();
        prop_assert!(!stands.is_empty() || self.unproven.contains(&before.stage), "nothing proves it");
        let prove_ms = i64::try_from(stage.prove_ms).unwrap();
        for cell in stands {
            prop_assert!(cell.complete_ms + prove_ms <= self.now_ms, "it has not stood for long enough");
        }
        Ok(())
    }

    /// Every cell that can be reached has the version, or has failed.
    fn stands_check(&self, before: &ReleaseState) -> Checked<()> {
        for cell in self.cells.iter().filter(|cell| is_present(cell)) {
            prop_assert_eq!(cell.facts.assigned, Some(before.version));
            prop_assert_ne!(&cell.facts.progress, &CellProgress::Rolling);
        }
        Ok(())
    }
}

prop_compose! {
    /// Some versions fail in some cells.
    fn bad_any()(bad in prop::collection::vec((2_u64..6, 0_usize..8), 0..7)) -> BTreeMap<u64, BTreeSet<Name>> {
        let mut versions: BTreeMap<u64, BTreeSet<Name>> = BTreeMap::new();
        for (version, at) in bad {
            let letter = char::from(b'a' + u8::try_from(at).unwrap());
            versions.entry(version).or_default().insert(name(&letter.to_string()));
        }
        versions
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn a_release_keeps_its_rules_and_ends_whatever_happens(
        spec in spec_any(),
        cells in 1_usize..9,
        bad in bad_any(),
        events in prop::collection::vec(event(), 0..80),
    ) {
        let mut fleet = Fleet::of(spec, cells, bad);
        for event in &events {
            fleet.happens(event);
            fleet.steps()?;
            fleet.tick();
        }
        // From now on nothing more happens to it.
        for cell in &mut fleet.cells {
            cell.facts.reach = CellReach::Reachable;
        }
        let _not_paused = fleet.state.resume();
        let mut waits = fleet.steps()?;
        for _ in 0..120 {
            if matches!(waits, ReleaseWait::Over | ReleaseWait::Stopped { .. }) {
                break;
            }
            fleet.tick();
            waits = fleet.steps()?;
        }
        for _ in 0..60 {
            fleet.tick();
            waits = fleet.steps()?;
        }
        let state = &fleet.state;
        let assigned: Vec<Option<u64>> =
            fleet.cells.iter().filter(|cell| cell.facts.has_tasks).map(|cell| cell.facts.assigned).collect();
        match state.phase {
            ReleasePhase::Done => {
                prop_assert_eq!((waits, state.from), (ReleaseWait::Over, state.version));
                prop_assert!(assigned.iter().all(|assigned| *assigned == Some(state.version)));
            }
            ReleasePhase::Reverted => {
                prop_assert_eq!(waits, ReleaseWait::Over);
                prop_assert!(assigned.iter().all(|assigned| *assigned == Some(state.from)));
            }
            ReleasePhase::Failed => {
                prop_assert!(matches!(waits, ReleaseWait::Stopped { .. }), "{waits}");
                prop_assert!(assigned.iter().all(|assigned| *assigned >= Some(state.from)), "one has missed it");
            }
            phase => prop_assert!(false, "it is still {phase}: {waits}"),
        }
    }

    #[test]
    fn a_good_version_reaches_all_cells_in_bounded_time(spec in spec_any(), cells in 1_usize..9) {
        let mut fleet = Fleet::of(spec, cells, BTreeMap::new());
        // Each cell takes three ticks at most, and each stage proves itself for four.
        let most = 3 * cells + 5 * (fleet.spec.stages.len() + 1);
        let mut waits = fleet.steps()?;
        for _ in 0..most {
            fleet.tick();
            waits = fleet.steps()?;
        }
        prop_assert_eq!((waits, fleet.state.phase), (ReleaseWait::Over, ReleasePhase::Done));
        prop_assert!(fleet.cells.iter().all(|cell| cell.facts.assigned == Some(2)));
    }

    #[test]
    fn a_version_that_fails_everywhere_does_not_leave_the_first_cells(
        spec in spec_any(), cells in 1_usize..9
    ) {
        let everywhere: BTreeSet<Name> = ('a'..='h').map(|letter| name(&letter.to_string())).collect();
        let mut fleet = Fleet::of(spec, cells, [(2, everywhere)].into());
        fleet.approves = false;
        let mut reached: BTreeSet<Name> = BTreeSet::new();
        for _ in 0..40 {
            fleet.steps()?;
            let assigned = fleet.cells.iter().filter(|cell| cell.facts.assigned == Some(2));
            reached.extend(assigned.map(|cell| cell.facts.name.clone()));
            fleet.tick();
        }
        let most = fleet.spec.failures_max + fleet.spec.at_once(0);
        prop_assert!(reached.len() <= usize::try_from(most).unwrap(), "{reached:?}");
        prop_assert!(reached.iter().all(|cell| fleet.spec.stage_of(cell, &BTreeMap::new()) == 0));
    }
}
