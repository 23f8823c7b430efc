//! What holds for every split.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::Name;
use borough_model::federation::{
    CellFacts, CellGroup, CellIntake, CellReason, CellSpread, CellVerdict, FederationSpec, Split, SplitMode,
    SplitPolicy, split,
};
use borough_model::node::{Taint, TaintEffect};
use proptest::prelude::*;
use proptest::sample::select;

use super::sample::{carried_out, cell, labelled};
use crate::sample::name;

const MODES: [SplitMode; 3] = [SplitMode::Again, SplitMode::Rebalance, SplitMode::RebalanceStuck];

/// Whether a cell is as good as any, or something is the matter with it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    None,
    Cordoned,
    Leaving,
    NameTaken,
    Silent,
    FailedOver,
    NoSchedule,
    NoExecute,
    RoomUnknown,
    OtherJob,
}

const TROUBLES: [Trouble; 15] = [
    Trouble::None,
    Trouble::None,
    Trouble::None,
    Trouble::None,
    Trouble::None,
    Trouble::None,
    Trouble::Cordoned,
    Trouble::Leaving,
    Trouble::NameTaken,
    Trouble::Silent,
    Trouble::FailedOver,
    Trouble::NoSchedule,
    Trouble::NoExecute,
    Trouble::RoomUnknown,
    Trouble::OtherJob,
];

fn troubled(mut facts: CellFacts, trouble: Trouble) -> CellFacts {
    let taint = |effect| Taint { key: "t".to_owned(), value: String::new(), effect, added_ms: 0 };
    match trouble {
        Trouble::None => {}
        Trouble::Cordoned => facts.intake = CellIntake::Cordoned,
        Trouble::Leaving => facts.intake = CellIntake::Leaving,
        Trouble::NameTaken => facts.intake = CellIntake::NameTaken,
        Trouble::Silent => facts.silent_since_ms = Some(1),
        Trouble::FailedOver => facts.failed_over = true,
        Trouble::NoSchedule => facts.taints.push(taint(TaintEffect::NoSchedule)),
        Trouble::NoExecute => facts.taints.push(taint(TaintEffect::NoExecute)),
        Trouble::RoomUnknown => facts.room = None,
        Trouble::OtherJob => {
            facts.jobs.insert(name("other"));
        }
    }
    facts
}

prop_compose! {
    /// Up to eight cells, `a` to `h`, in zones that lie within regions.
    fn cells_any()(
        parts in prop::collection::vec((0_u32..12, 0_u32..7, 0_u32..7, 0_usize..5, select(TROUBLES.to_vec())), 1..9)
    ) -> Vec<CellFacts> {
        let one = |(at, (room, has, running, zone, trouble)): (usize, (u32, u32, u32, usize, Trouble))| {
            let facts = cell(&char::from(b'a' + u8::try_from(at).unwrap()).to_string(), room, has);
            let facts = CellFacts { running: running.min(has), ..facts };
            let (zone, region) = (format!("zone=z{zone}"), format!("region=r{}", zone / 2));
            // One zone has no labels.
            let labels: Vec<&str> = if zone == "zone=z4" { vec![] } else { vec![&zone, &region] };
            troubled(labelled(facts, &labels), trouble)
        };
        parts.into_iter().enumerate().map(one).collect()
    }
}

fn policies() -> Vec<SplitPolicy> {
    SplitPolicy::NAMES.map(|(_, policy)| policy).to_vec()
}

prop_compose! {
    fn spec_any()(
        split in select(policies()),
        weights in prop::collection::vec(1_u32..6, 8),
        (cell_min, cell_max) in (prop::option::weighted(0.4, 1_u32..4), prop::option::weighted(0.4, 4_u32..9)),
        groups in select(vec![0, 2, 3]),
        avoid_disruption in any::<bool>(),
        away in any::<bool>(),
        spread in prop::collection::vec(
            (select(vec!["region", "zone", "cell"]), prop::option::of(1_u32..3), prop::option::of(2_u32..4)), 0..3),
    ) -> FederationSpec {
        let letters = || (b'a'..=b'h').map(|letter| name(&char::from(letter).to_string()));
        let mut spread: Vec<CellSpread> = spread
            .into_iter()
            .map(|(by, min, max)| CellSpread { by: by.to_owned(), min, max })
            .collect();
        spread.dedup_by(|left, right| left.by == right.by);
        let group = |at: usize| CellGroup {
            cells: letters().enumerate().filter(|(cell, _)| cell % groups == at).map(|(_, cell)| cell).collect(),
            ..CellGroup::default()
        };
        let duplicate = split == SplitPolicy::Duplicate;
        let groups = if duplicate { Vec::new() } else { (0..groups).map(group).collect() };
        FederationSpec {
            split,
            weights: if split == SplitPolicy::Weight { letters().zip(weights).collect() } else { BTreeMap::new() },
            cell_min,
            cell_max,
            groups,
            spread,
            away_from: if away { vec![name("other")] } else { Vec::new() },
            avoid_disruption,
            ..FederationSpec::default()
        }
    }
}

fn placed(split: &Split) -> u32 {
    split.counts.values().sum()
}

fn gets(split: &Split, cell: &Name) -> u32 {
    split.counts.get(cell).copied().unwrap_or(0)
}

/// What a verdict says of a cell that gets nothing new.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Closed {
    /// It has none.
    Empty,
    /// It has no more than others have no room for.
    Moves,
    /// It keeps what it has, as far as its limits allow.
    Keeps,
}

fn closed(verdict: &CellVerdict) -> Option<Closed> {
    match &verdict.reason {
        CellReason::NotNamed
        | CellReason::ConditionNotMet { .. }
        | CellReason::NoGroup
        | CellReason::FailedOver => Some(Closed::Empty),
        CellReason::Leaving => Some(Closed::Moves),
        CellReason::Tainted { taint } if taint.effect == TaintEffect::NoExecute => Some(Closed::Moves),
        CellReason::Tainted { .. }
        | CellReason::Cordoned
        | CellReason::NameTaken
        | CellReason::Silent { .. }
        | CellReason::AwayFrom { .. }
        | CellReason::SpreadLabelMissing { .. }
        | CellReason::SpreadFull { .. }
        | CellReason::SpreadUnmet { .. }
        | CellReason::RoomUnknown => Some(Closed::Keeps),
        _ => None,
    }
}

/// How many values of a label have tasks.
fn domains(by: &str, cells: &[CellFacts], split: &Split) -> usize {
    let value = |facts: &CellFacts| match by {
        "cell" => Some(facts.name.to_string()),
        label => facts.labels.get(label).cloned(),
    };
    let with_tasks = cells.iter().filter(|facts| gets(split, &facts.name) > 0);
    with_tasks.filter_map(value).collect::<BTreeSet<_>>().len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn the_sum_is_right_and_no_bound_is_broken(
        spec in spec_any(), cells in cells_any(), count in 0_u32..30, mode in select(MODES.to_vec())
    ) {
        let split = split(&spec, count, &cells, mode);
        if spec.split != SplitPolicy::Duplicate {
            prop_assert_eq!(placed(&split) + split.unplaced, count);
        }
        prop_assert_eq!(split.cells.len(), cells.len());
        for verdict in &split.cells {
            let facts = cells.iter().find(|facts| facts.name == verdict.cell).unwrap();
            let silent = matches!(verdict.reason, CellReason::Silent { .. });
            prop_assert_eq!(gets(&split, &verdict.cell), verdict.gets);
            prop_assert!(verdict.gets <= facts.has + facts.room.unwrap_or(0), "room: {}", verdict);
            prop_assert!(verdict.gets <= count, "count: {}", verdict);
            if !silent {
                prop_assert!(verdict.gets <= spec.max_of(&verdict.cell).unwrap_or(u32::MAX), "max: {}", verdict);
            }
            match closed(verdict) {
                Some(Closed::Empty) => prop_assert_eq!(verdict.gets, 0, "{}", verdict),
                Some(Closed::Moves | Closed::Keeps) => prop_assert!(verdict.gets <= verdict.had, "{}", verdict),
                None => {}
            }
            let min = spec.min_of(&verdict.cell);
            let fine = verdict.gets == 0 || verdict.gets >= min || verdict.gets <= verdict.had;
            prop_assert!(fine, "least: {}", verdict);
            if mode == SplitMode::Rebalance && closed(verdict).is_none() {
                prop_assert!(verdict.gets == 0 || verdict.gets >= min, "least: {}", verdict);
            }
        }
    }

    #[test]
    fn a_cell_that_is_allowed_keeps_its_tasks_while_the_count_does_not_shrink(
        spec in spec_any(), cells in cells_any(), more in 0_u32..9
    ) {
        let spec = FederationSpec { avoid_disruption: true, ..spec };
        let had: u32 = cells.iter().map(|facts| facts.has).sum();
        let split = split(&spec, had + more, &cells, SplitMode::Again);
        for verdict in split.cells.iter().filter(|verdict| matches!(closed(verdict), None | Some(Closed::Keeps))) {
            let most = spec.max_of(&verdict.cell).unwrap_or(u32::MAX);
            prop_assert!(verdict.gets >= verdict.had.min(most), "{}", verdict);
        }
    }

    #[test]
    fn the_order_of_the_cells_changes_nothing(
        spec in spec_any(), cells in cells_any(), count in 0_u32..30, mode in select(MODES.to_vec()), turn in 0_usize..8
    ) {
        let mut other = cells.clone();
        other.rotate_left(turn % cells.len());
        other.reverse();
        prop_assert_eq!(split(&spec, count, &cells, mode), split(&spec, count, &other, mode));
    }

    #[test]
    fn a_split_that_was_carried_out_is_made_again(
        spec in spec_any(), cells in cells_any(), count in 0_u32..30, mode in select(MODES.to_vec())
    ) {
        let first = split(&spec, count, &cells, mode);
        let cells_after = carried_out(&cells, &first);
        let had: u32 = cells.iter().map(|facts| facts.has).sum();
        // A smaller count that no rebalance can spread: the cells have given up tasks, and the next one starts there.
        let given_up = first.shortfall.is_some() && had > count;
        let second = split(&spec, count, &cells_after, mode);
        let (first, second) = if given_up {
            let third = split(&spec, count, &carried_out(&cells_after, &second), mode);
            (second, third)
        } else {
            (first, second)
        };
        prop_assert_eq!(&first.counts, &second.counts, "{:?}\n{:?}", first.cells, second.cells);
        prop_assert_eq!(first.unplaced, second.unplaced);
    }

    /// Without least numbers and rules of spread, which can only be met all or nothing.
    #[test]
    fn more_room_takes_no_task_away(
        spec in spec_any(), cells in cells_any(), count in 0_u32..30, mode in select(MODES.to_vec()),
        (at, more) in (0_usize..8, 1_u32..9),
    ) {
        let spec = FederationSpec { cell_min: None, spread: Vec::new(), ..spec };
        let mut roomy = cells.clone();
        let at = at % cells.len();
        let Some(room) = roomy[at].room else { return Ok(()) };
        roomy[at].room = Some(room + more);
        let (before, after) = (split(&spec, count, &cells, mode), split(&spec, count, &roomy, mode));
        prop_assert!(placed(&after) >= placed(&before));
        let (before, after) = (gets(&before, &cells[at].name), gets(&after, &cells[at].name));
        prop_assert!(after >= before, "{} to {}", before, after);
    }

    /// Without least numbers and rules of spread, nothing stays unplaced, or in a cell that it must leave, while an
    /// open cell has room.
    #[test]
    fn what_fits_is_placed(spec in spec_any(), cells in cells_any(), count in 0_u32..60) {
        let spec = FederationSpec { cell_min: None, spread: Vec::new(), ..spec };
        if spec.split == SplitPolicy::Duplicate {
            return Ok(());
        }
        let split = split(&spec, count, &cells, SplitMode::Rebalance);
        let waits = |verdict: &CellVerdict| closed(verdict) == Some(Closed::Moves) && verdict.gets > 0;
        if split.unplaced == 0 && !split.cells.iter().any(waits) {
            return Ok(());
        }
        for verdict in split.cells.iter().filter(|verdict| closed(verdict).is_none()) {
            let facts = cells.iter().find(|facts| facts.name == verdict.cell).unwrap();
            // Others that go nowhere may wait in the place of those that wait in a full cell.
            let waits = facts.room == Some(0) && split.unplaced == 0;
            let fits = if waits { facts.running } else { facts.has + facts.room.unwrap_or(0) };
            let most = fits.min(spec.cell_max.unwrap_or(u32::MAX));
            prop_assert!(verdict.gets >= most, "{} of {}: {}", verdict.gets, most, verdict);
        }
    }

    #[test]
    fn weights_are_met_within_one_task_where_no_bound_is_near(
        weights in prop::collection::vec(1_u32..1_000, 1..9), count in 0_u32..5_000
    ) {
        let names = (b'a'..=b'h').map(|letter| name(&char::from(letter).to_string()));
        let weights: BTreeMap<Name, u32> = names.zip(weights).collect();
        let cells: Vec<CellFacts> = weights.keys().map(|cell| super::sample::cell(cell.as_str(), count, 0)).collect();
        let spec =
            FederationSpec { split: SplitPolicy::Weight, weights: weights.clone(), ..FederationSpec::default() };
        let split = split(&spec, count, &cells, SplitMode::Again);
        let whole: u64 = weights.values().copied().map(u64::from).sum();
        for (cell, weight) in &weights {
            let exact = u64::from(count) * u64::from(*weight);
            let got = u64::from(gets(&split, cell)) * whole;
            prop_assert!(got.abs_diff(exact) < whole, "{}: {} for {} of {}", cell, got, exact, whole);
        }
    }

    #[test]
    fn pack_uses_the_fewest_cells(
        rooms in prop::collection::vec(0_u32..12, 1..7), min in 1_u32..6, count in 0_u32..40
    ) {
        let cells: Vec<CellFacts> = rooms
            .iter()
            .enumerate()
            .map(|(at, room)| cell(&char::from(b'a' + u8::try_from(at).unwrap()).to_string(), *room, 0))
            .collect();
        let spec = FederationSpec { split: SplitPolicy::Pack, cell_min: Some(min), ..FederationSpec::default() };
        let split = split(&spec, count, &cells, SplitMode::Again);
        // Every set of cells: what it can hold, and whether its least numbers fit into the count.
        let sets = (0_u32..1 << rooms.len()).filter_map(|set| {
            let chosen: Vec<u32> =
                rooms.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, room)| *room).collect();
            let size = u32::try_from(chosen.len()).unwrap();
            let fits = chosen.iter().all(|room| *room >= min) && size * min <= count;
            fits.then(|| (chosen.iter().sum::<u32>().min(count), std::cmp::Reverse(size)))
        });
        let (most, fewest) = sets.max().unwrap();
        prop_assert_eq!(placed(&split), most);
        prop_assert_eq!(split.counts.len(), usize::try_from(fewest.0).unwrap(), "{:?}", split.counts);
    }

    #[test]
    fn the_first_split_is_spread_as_the_job_asks(spec in spec_any(), cells in cells_any(), count in 1_u32..30) {
        let cells: Vec<CellFacts> =
            cells.into_iter().map(|facts| CellFacts { has: 0, running: 0, ..facts }).collect();
        let split = split(&spec, count, &cells, SplitMode::Again);
        if split.shortfall.is_some() {
            prop_assert!(split.counts.is_empty());
            return Ok(());
        }
        for rule in &spec.spread {
            let found = domains(&rule.by, &cells, &split);
            let least = usize::try_from(rule.min.unwrap_or(0)).unwrap();
            let most = rule.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap());
            prop_assert!((least..=most).contains(&found), "{:?}: {}", rule, found);
        }
    }

    /// One rule is refused only if it cannot be met.
    #[test]
    fn a_rule_of_spread_that_can_be_met_is_met(
        spec in spec_any(), cells in cells_any(), count in 1_u32..30, (by, min) in (select(vec!["region", "zone", "cell"]), 1_u32..4)
    ) {
        let rule = CellSpread { by: by.to_owned(), min: Some(min), max: None };
        let spec = FederationSpec { spread: vec![rule], ..spec };
        if spec.split == SplitPolicy::Duplicate {
            return Ok(());
        }
        let cells: Vec<CellFacts> =
            cells.into_iter().map(|facts| CellFacts { has: 0, running: 0, ..facts }).collect();
        let result = split(&spec, count, &cells, SplitMode::Again);
        let least = spec.cell_min.unwrap_or(1);
        let open = result.cells.iter().filter(|verdict| {
            closed(verdict).is_none() || matches!(verdict.reason, CellReason::SpreadUnmet { .. })
        });
        let facts = open.filter_map(|verdict| cells.iter().find(|facts| facts.name == verdict.cell));
        let fitting = facts.filter(|facts| facts.room.unwrap_or(0) >= least);
        let values: BTreeSet<String> = fitting
            .filter_map(|facts| if by == "cell" { Some(facts.name.to_string()) } else { facts.labels.get(by).cloned() })
            .collect();
        let can = values.len() >= usize::try_from(min).unwrap() && min * least <= count;
        prop_assert_eq!(result.shortfall.is_none(), can, "{:?}", result.cells);
    }

    #[test]
    fn every_verdict_has_words(
        spec in spec_any(), cells in cells_any(), count in 0_u32..30, mode in select(MODES.to_vec())
    ) {
        let split = split(&spec, count, &cells, mode);
        for verdict in &split.cells {
            let text = verdict.to_string();
            prop_assert!(text.len() < 300 && !text.contains("  ") && !text.contains('\n'), "{}", text);
        }
    }
}
