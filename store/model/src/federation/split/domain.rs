//! Rules of spread: over which values of a label of cells the tasks are spread. A domain is one value, such as one
//! region.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::portion::{CellOffer, Extent, Portion, choose};
use super::verdict::{CellReason, ShortfallCause, SpreadShortfall};
use crate::federation::facts::CellFacts;
use crate::federation::spec::{CellSpread, FederationSpec, SPREAD_BY_CELL, SplitPolicy};

/// The domain of a cell.
fn domain_of<'c>(facts: &'c CellFacts, by: &str) -> Option<&'c str> {
    if by == SPREAD_BY_CELL {
        return Some(facts.name.as_str());
    }
    facts.labels.get(by).map(String::as_str)
}

/// The cells of one domain that have tasks or may get some.
#[derive(Default)]
struct DomainCells {
    /// Whether one of them has tasks for certain.
    holds: bool,
    gain: u64,
    weight: u64,
    /// The places of the cells among the portions, the preferred ones first.
    places: Vec<usize>,
}

/// Leaves only as many domains as each rule allows. Those with tasks come first, then those that other rules need, then
/// those of earlier groups and the preferred ones. If they have no room for `need` tasks, larger ones replace them.
pub(super) fn spread_limit(spec: &FederationSpec, portions: &mut [Portion<'_>], need: u64) {
    for (at, rule) in spec.spread.iter().enumerate() {
        let Some(max) = rule.max else { continue };
        let most = usize::try_from(max).unwrap_or(usize::MAX);
        let mut domains: BTreeMap<&str, DomainCells> = BTreeMap::new();
        for (place, portion) in portions.iter().enumerate() {
            let Some(value) = domain_of(portion.facts, &rule.by) else { continue };
            if portion.floor == 0 && !portion.stays && !portion.is_open() {
                continue;
            }
            let domain = domains.entry(value).or_default();
            domain.holds |= portion.floor > 0 || portion.stays;
            domain.gain = domain.gain.saturating_add(u64::from(portion.ceiling));
            domain.weight = domain.weight.saturating_add(portion.weight);
            domain.places.push(place);
        }
        let others: Vec<&CellSpread> =
            spec.spread.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, rule)| rule).collect();
        let mut chosen = if domains.len() > most {
            domains_choose(spec.split, portions, &domains, &others, most, need)
        } else {
            domains.keys().copied().collect()
        };
        // Tasks that nobody else has room for may go back to where they were.
        for portion in portions.iter().filter(|portion| portion.stuck > 0 && portion.reason.is_none()) {
            if chosen.len() < most {
                chosen.extend(domain_of(portion.facts, &rule.by));
            }
        }
        if chosen.len() < most {
            continue;
        }
        let is_new =
            |portion: &&mut Portion<'_>| portion.floor == 0 && !portion.stays && portion.reason.is_none();
        for portion in portions.iter_mut().filter(is_new) {
            let value = domain_of(portion.facts, &rule.by).filter(|value| !chosen.contains(value));
            if let Some(value) = value {
                portion.ceiling = 0;
                portion.stuck = 0;
                let (by, value) = (rule.by.clone(), value.to_owned());
                portion.reason = Some(CellReason::SpreadFull { by, value, max });
            }
        }
    }
}

/// The domains that may have tasks.
fn domains_choose<'c>(
    policy: SplitPolicy,
    portions: &[Portion<'c>],
    domains: &BTreeMap<&'c str, DomainCells>,
    others: &[&CellSpread],
    most: usize,
    need: u64,
) -> BTreeSet<&'c str> {
    let mut chosen: BTreeSet<&str> =
        domains.iter().filter(|(_, domain)| domain.holds).map(|(value, _)| *value).collect();
    let mut cover = Cover::of(others);
    for value in &chosen {
        cover.add(portions, domains.get(value));
    }
    let preference = |value: &str| {
        let domain = domains.get(value);
        let first = domain.and_then(|domain| domain.places.first()).copied().unwrap_or(usize::MAX);
        let group = portions.get(first).and_then(|portion| portion.group).unwrap_or(usize::MAX);
        let size = match policy {
            SplitPolicy::Order => 0,
            SplitPolicy::Weight => domain.map_or(0, |domain| domain.weight),
            SplitPolicy::Free | SplitPolicy::Pack | SplitPolicy::Duplicate => {
                domain.map_or(0, |domain| domain.gain)
            }
        };
        let place = if policy == SplitPolicy::Order { first } else { 0 };
        (group, Reverse(size), place)
    };
    let mut rest: Vec<&str> = domains.keys().copied().filter(|value| !chosen.contains(value)).collect();
    rest.sort_by_key(|value| (preference(value), *value));
    while chosen.len() < most && cover.is_wanting() {
        let news = |value: &&str| domains.get(value).map_or(0, |domain| cover.news(portions, &domain.places));
        let best = rest.iter().enumerate().map(|(at, value)| (news(value), Reverse(at))).max();
        let Some((news, Reverse(at))) = best else { break };
        if news == 0 {
            break;
        }
        let value = rest.remove(at);
        cover.add(portions, domains.get(value));
        chosen.insert(value);
    }
    let gain = |value: &str| domains.get(value).map_or(0, |domain| domain.gain);
    let gained = chosen.iter().fold(0, |sum: u64, value| sum.saturating_add(gain(value)));
    let offers: Vec<CellOffer> = rest.iter().map(|value| CellOffer { cost: 1, gain: gain(value) }).collect();
    let slots = u64::try_from(most.saturating_sub(chosen.len())).unwrap_or(u64::MAX);
    let picked = choose(&offers, slots, need.saturating_sub(gained), Extent::All);
    chosen.extend(rest.iter().zip(picked).filter(|(_, picked)| *picked).map(|(value, _)| *value));
    chosen
}

/// The domains that have tasks so far, for each rule with a least number of them.
struct Cover<'s, 'c> {
    rules: Vec<CoverRule<'s, 'c>>,
}

struct CoverRule<'s, 'c> {
    by: &'s str,
    min: u32,
    values: BTreeSet<&'c str>,
}

impl CoverRule<'_, '_> {
    fn reached(&self) -> u32 {
        u32::try_from(self.values.len()).unwrap_or(u32::MAX)
    }

    fn wants(&self) -> u32 {
        self.min.saturating_sub(self.reached())
    }
}

impl<'s, 'c> Cover<'s, 'c> {
    fn of(rules: &[&'s CellSpread]) -> Self {
        let rule =
            |rule: &&'s CellSpread| Some(CoverRule { by: &rule.by, min: rule.min?, values: BTreeSet::new() });
        Self { rules: rules.iter().filter_map(rule).collect() }
    }

    fn is_wanting(&self) -> bool {
        self.rules.iter().any(|rule| rule.wants() > 0)
    }

    /// The first rule that is not met.
    fn unmet(&self) -> Option<&CoverRule<'s, 'c>> {
        self.rules.iter().find(|rule| rule.wants() > 0)
    }

    fn add_cell(&mut self, facts: &'c CellFacts) {
        for rule in &mut self.rules {
            rule.values.extend(domain_of(facts, rule.by));
        }
    }

    fn add(&mut self, portions: &[Portion<'c>], domain: Option<&DomainCells>) {
        let places = domain.map(|domain| domain.places.as_slice()).unwrap_or_default();
        for portion in places.iter().filter_map(|place| portions.get(*place)) {
            self.add_cell(portion.facts);
        }
    }

    /// How many wanted domains these cells would add.
    fn news(&self, portions: &[Portion<'c>], places: &[usize]) -> u32 {
        let of_rule = |rule: &CoverRule<'s, 'c>| {
            let cells = places.iter().filter_map(|place| portions.get(*place));
            let values: BTreeSet<&str> =
                cells.filter_map(|portion| domain_of(portion.facts, rule.by)).collect();
            let new = values.difference(&rule.values).count();
            u32::try_from(new).unwrap_or(u32::MAX).min(rule.wants())
        };
        self.rules.iter().map(of_rule).fold(0, u32::saturating_add)
    }

    /// How many rules that are not met a cell would help.
    fn helped(&self, facts: &CellFacts) -> usize {
        let helps = |rule: &&CoverRule<'s, 'c>| {
            rule.wants() > 0 && domain_of(facts, rule.by).is_some_and(|value| !rule.values.contains(value))
        };
        self.rules.iter().filter(helps).count()
    }
}

/// Which of the cells that help as many rules comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tie {
    Preference,
    /// The one with domains that fewer cells have.
    Rarity,
}

/// Raises the floors of cells, so that each rule has its least number of domains with tasks.
///
/// It takes the cell that helps most rules, until all are met. For one rule, and for labels that lie within each other
/// like zones and regions, that needs the fewest cells. Other labels may need more cells than the fewest: then cells
/// with rare domains come first in a second try.
///
/// # Errors
/// The first rule that the cells, or `count` tasks, do not meet. The floors are as before.
pub(super) fn spread_reach(
    spec: &FederationSpec,
    portions: &mut [Portion<'_>],
    count: u32,
) -> Result<(), SpreadShortfall> {
    if spec.spread.iter().all(|rule| rule.min.is_none()) {
        return Ok(());
    }
    let tried = reach(spec, portions, count, Tie::Preference);
    let found = tried.or_else(|first| reach(spec, portions, count, Tie::Rarity).map_err(|_| first))?;
    for place in found {
        if let Some(portion) = portions.get_mut(place) {
            portion.floor = portion.min.max(1);
        }
    }
    Ok(())
}

/// The places of the cells that must have tasks beside those that do.
fn reach(
    spec: &FederationSpec,
    portions: &[Portion<'_>],
    count: u32,
    tie: Tie,
) -> Result<Vec<usize>, SpreadShortfall> {
    let rules: Vec<&CellSpread> = spec.spread.iter().collect();
    let mut cover = Cover::of(&rules);
    for portion in portions.iter().filter(|portion| portion.floor > 0) {
        cover.add_cell(portion.facts);
    }
    let wanted = cover.unmet().map(|rule| rule.by.to_owned());
    let rarity = rarities(&rules, portions, tie);
    let mut spent: u64 = portions.iter().map(|portion| u64::from(portion.floor)).sum();
    let mut found: Vec<usize> = Vec::new();
    let mut open: Vec<usize> = (0..portions.len())
        .filter(|place| portions.get(*place).is_some_and(|portion| portion.is_open()))
        .collect();
    while let Some(unmet) = cover.unmet() {
        let key = |place: &usize| {
            let portion = portions.get(*place)?;
            let helped = cover.helped(portion.facts);
            let rare = rarity.get(*place).copied().unwrap_or(0);
            (helped > 0).then_some((Reverse(helped), rare, portion.min, *place))
        };
        let best = open.iter().enumerate().filter_map(|(at, place)| Some((key(place)?, at))).min();
        let Some(((_, _, min, place), at)) = best else {
            return Err(shortfall(unmet, ShortfallCause::Cells));
        };
        open.remove(at);
        spent = spent.saturating_add(u64::from(min.max(1)));
        if let Some(portion) = portions.get(place) {
            cover.add_cell(portion.facts);
        }
        found.push(place);
    }
    let first = cover.rules.iter().find(|rule| Some(rule.by) == wanted.as_deref());
    match first.filter(|_| spent > u64::from(count)) {
        Some(rule) => Err(shortfall(rule, ShortfallCause::Tasks)),
        None => Ok(found),
    }
}

fn shortfall(rule: &CoverRule<'_, '_>, cause: ShortfallCause) -> SpreadShortfall {
    SpreadShortfall { by: rule.by.to_owned(), min: rule.min, reached: rule.reached(), cause }
}

/// For each cell, how many cells have its domains.
fn rarities(rules: &[&CellSpread], portions: &[Portion<'_>], tie: Tie) -> Vec<usize> {
    if tie == Tie::Preference {
        return Vec::new();
    }
    let rules: Vec<&str> =
        rules.iter().filter(|rule| rule.min.is_some()).map(|rule| rule.by.as_str()).collect();
    let mut cells: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for portion in portions.iter().filter(|portion| portion.is_open()) {
        for by in &rules {
            let Some(value) = domain_of(portion.facts, by) else { continue };
            *cells.entry((by, value)).or_default() += 1;
        }
    }
    let of_cell = |portion: &Portion<'_>| {
        let domains = rules.iter().filter_map(|by| cells.get(&(*by, domain_of(portion.facts, by)?)));
        domains.sum()
    };
    portions.iter().map(of_cell).collect()
}
