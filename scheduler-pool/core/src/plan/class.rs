//! The search of one class in a plan. It draws candidates from the cache of its shape and orders them by what the plan
//! has taken so far.

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use super::PlanCounters;
use super::candidates::{CandidateCache, CandidateEntry, SearchContext};
use super::order::GroupOrder;
use super::score::{Score, score};
use super::spread::{Domains, JobPlan};
use crate::filter::{Requirement, fits_in_time, fits_moving, rule_held};
use crate::overlay::{Places, PlanOverlay};
use crate::seed::mixed;
use crate::tables::HardRule;

/// In a cell of at most this many nodes every node is scored.
const NODES_ALL_MAX: usize = 200;

/// In a larger one, a search stops after as many candidates as the class has tasks, and this many more (Gödel's reduced
/// scan: members + 50). It starts at a place chosen by the job's seed (relaxed randomization), and continues when most
/// candidates are full. It leaves the worker's own part of the cell only if that part has no node that fits, or is too
/// small for a choice.
const NODES_BEYOND: usize = 50;

/// The same for a job that spreads. It needs more, to see more failure domains.
const NODES_BEYOND_SPREAD: usize = 250;

/// In a larger cell a class follows at most this many of the latest changes that other classes made. It finds the
/// others when it is about to choose such a node.
const CHANGES_MAX: usize = 64;

/// A policy that draws at random may meet this many full candidates. Then it takes the best of the group.
const DRAWS_MAX: u64 = 16;

/// How the best group is found. It changes the cost of a choice and never the choice.
#[derive(Clone, Copy, Debug)]
struct GroupScan {
    /// Up to this many groups are all asked at each choice. More are ordered in a heap.
    few_groups: u32,
    /// If true, every group is asked again, even if nothing could have let it in.
    rescans: bool,
}

const GROUP_SCAN: GroupScan = GroupScan { few_groups: 4, rescans: false };

/// A node that fitted when it was last checked.
#[derive(Clone, Debug)]
struct Candidate {
    node: u32,
    /// The node's version when it was scored.
    version: u32,
    alive: bool,
    group: u32,
    preference: i64,
}

/// A candidate in the order of its group. Outdated once the candidate has another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    score: Score,
    candidate: u32,
    version: u32,
}

/// Why a class draws more candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefillReason {
    /// It may have too few.
    Few,
    /// Rules refuse all that it has.
    Refused,
}

/// The candidates in the same failure domains. A placement on one changes the crowding of all.
#[derive(Clone, Debug)]
struct CandidateGroup {
    domains: Domains,
    heap: BinaryHeap<Ranked>,
    /// True if a rule refused it at this moment ([`PlanOverlay::moment`]). Until the next moment the rule would refuse
    /// it again.
    refused: bool,
}

/// What a class is planned with.
pub(super) struct ClassContext<'w, 'a> {
    pub overlay: &'w PlanOverlay<'a>,
    /// The tables without the placements of the plan.
    pub without_placements: &'w PlanOverlay<'a>,
    pub candidates: &'w mut CandidateCache,
    /// How many candidates to collect beyond the number of tasks.
    pub beyond: usize,
    pub now_ms: i64,
    pub counters: &'w mut PlanCounters,
}

/// The search of one class.
#[derive(Clone, Debug)]
pub(super) struct ClassPlan {
    pub requirement: Requirement,
    /// How many entries of the cache it has drawn.
    drawn: usize,
    /// The number of tasks of the class.
    members: usize,
    candidates: Vec<Candidate>,
    /// The candidate of each node.
    places: Places,
    groups: Vec<CandidateGroup>,
    group_of: BTreeMap<Domains, u32>,
    order: GroupOrder,
    alive: usize,
    log_at: usize,
    generation: u32,
    choice: u64,
    /// The moment of the last choice.
    moment: u64,
}

impl ClassPlan {
    pub(super) fn new(requirement: Requirement, members: usize, overlay: &PlanOverlay<'_>) -> Self {
        Self {
            requirement,
            drawn: 0,
            members,
            candidates: Vec::new(),
            places: Places::new(members.saturating_add(NODES_BEYOND)),
            groups: Vec::new(),
            group_of: BTreeMap::new(),
            order: GroupOrder::default(),
            alive: 0,
            log_at: overlay.log.len(),
            generation: overlay.generation,
            choice: 0,
            moment: 0,
        }
    }

    /// The best node now. `avoid` is chosen only if it is the only one.
    pub(super) fn chosen(
        &mut self,
        context: &mut ClassContext<'_, '_>,
        job: &mut JobPlan,
        avoid: Option<u32>,
    ) -> Option<u32> {
        self.changes_follow(context);
        self.candidates_refill(context, job, RefillReason::Few);
        let mut aside = None;
        let chosen = loop {
            match self.best(context, job) {
                Some(best) if avoid == Some(self.node(best)) => {
                    self.alive_set(best, false);
                    aside = Some(best);
                }
                Some(best) => break Some(best),
                None if context.candidates.more(self.drawn, context.overlay.nodes) => {
                    self.candidates_refill(context, job, RefillReason::Refused);
                }
                None => break None,
            }
        };
        if let Some(aside) = aside {
            self.alive_set(aside, true);
            self.rank(context, aside);
        }
        chosen.or(aside).map(|candidate| self.node(candidate))
    }

    fn node(&self, candidate: u32) -> u32 {
        self.candidates.get(candidate as usize).map_or(u32::MAX, |candidate| candidate.node)
    }

    fn alive_set(&mut self, candidate: u32, alive: bool) {
        let Some(candidate) = self.candidates.get_mut(candidate as usize) else { return };
        if candidate.alive != alive {
            candidate.alive = alive;
            self.alive = if alive { self.alive + 1 } else { self.alive - 1 };
        }
    }

    /// Scores the candidates again that have changed since the last choice.
    fn changes_follow(&mut self, context: &mut ClassContext<'_, '_>) {
        if self.generation != context.overlay.generation {
            *self = Self::new(self.requirement.clone(), self.members, context.overlay);
            return;
        }
        let log = &context.overlay.log;
        let mut from = self.log_at;
        if context.overlay.nodes.count() > NODES_ALL_MAX {
            from = from.max(log.len().saturating_sub(CHANGES_MAX));
        }
        self.log_at = log.len();
        for position in from..log.len() {
            let Some(&node) = context.overlay.log.get(position) else { break };
            let Some(candidate) = self.places.get(node).and_then(|place| u32::try_from(place).ok()) else {
                continue;
            };
            self.candidate_renewed(context, candidate);
        }
    }

    /// Checks a candidate again if its node has changed.
    fn candidate_renewed(&mut self, context: &mut ClassContext<'_, '_>, candidate: u32) {
        let Some(known) = self.candidates.get(candidate as usize) else { return };
        if !known.alive || known.version == context.overlay.version(known.node) {
            return;
        }
        if fits_moving(context.overlay, &self.requirement, known.node, context.now_ms) {
            self.rank(context, candidate);
        } else {
            self.alive_set(candidate, false);
        }
    }

    /// Scores a candidate and puts it in its group's order.
    fn rank(&mut self, context: &mut ClassContext<'_, '_>, candidate: u32) {
        let Some(known) = self.candidates.get(candidate as usize) else { return };
        let (node, preference) = (known.node, known.preference);
        context.counters.nodes_scored += 1;
        let CandidateCache { scorer, seed, .. } = &*context.candidates;
        let score = score(context.overlay, &self.requirement, node, scorer, preference, *seed);
        self.ranked(candidate, score, context.overlay.version(node));
    }

    /// Puts a candidate in its group's order.
    fn ranked(&mut self, candidate: u32, score: Score, version: u32) {
        let Some(known) = self.candidates.get_mut(candidate as usize) else { return };
        known.version = version;
        if let Some(group) = self.groups.get_mut(known.group as usize) {
            group.heap.push(Ranked { score, candidate, version });
            self.order.noted(known.group);
        }
    }

    /// Draws more candidates while there are too few, or while rules refuse all of them.
    fn candidates_refill(
        &mut self,
        context: &mut ClassContext<'_, '_>,
        job: &mut JobPlan,
        reason: RefillReason,
    ) {
        let all = context.overlay.nodes.count() <= NODES_ALL_MAX;
        let beyond = if job.spreads() { NODES_BEYOND_SPREAD } else { NODES_BEYOND };
        let beyond = context.candidates.scorer.beyond(beyond.max(context.beyond));
        let mut enough = self.members + beyond;
        let refused = reason == RefillReason::Refused;
        if !all && !refused && self.alive > enough / 4 {
            return;
        }
        if refused {
            enough = enough.max(self.alive + beyond);
        }
        let own = context.candidates.order.own();
        let scorer = Arc::clone(&context.candidates.scorer);
        while all || self.alive < enough {
            let outside = all || refused || self.alive == 0 || own < NODES_BEYOND;
            let until = if outside { usize::MAX } else { own };
            let mut search = SearchContext {
                overlay: context.without_placements,
                requirement: &self.requirement,
                now_ms: context.now_ms,
                scorer: &scorer,
                counters: context.counters,
            };
            let Some(entry) = context.candidates.draw(&mut search, &mut self.drawn, until) else { break };
            self.candidate_add(context, job, &entry);
        }
    }

    fn candidate_add(
        &mut self,
        context: &mut ClassContext<'_, '_>,
        job: &mut JobPlan,
        entry: &CandidateEntry,
    ) {
        let version = context.overlay.version(entry.node);
        if version > 0 && !fits_in_time(context.overlay, &self.requirement, entry.node, context.now_ms) {
            return;
        }
        let domains = job.domains(context.overlay.nodes, entry.node);
        let groups = &mut self.groups;
        let group = match self.group_of.get(&domains) {
            Some(&group) => group,
            None => {
                groups.push(CandidateGroup {
                    domains: domains.clone(),
                    heap: BinaryHeap::new(),
                    refused: false,
                });
                let group = u32::try_from(groups.len() - 1).unwrap_or(u32::MAX);
                self.group_of.insert(domains, group);
                group
            }
        };
        let candidate = u32::try_from(self.candidates.len()).unwrap_or(u32::MAX);
        self.places.set(entry.node, candidate);
        self.candidates.push(Candidate {
            node: entry.node,
            version,
            alive: true,
            group,
            preference: entry.preference,
        });
        self.alive += 1;
        if version == 0 {
            self.ranked(candidate, entry.score, version);
        } else {
            self.rank(context, candidate);
        }
    }

    /// The best candidate that no rule refuses.
    fn best(&mut self, context: &mut ClassContext<'_, '_>, job: &JobPlan) -> Option<u32> {
        self.choice += 1;
        let moment = context.overlay.moment(&self.requirement.rules.rules, job.drawn_near());
        if self.moment != moment || group_scan().rescans {
            self.moment = moment;
            self.groups.iter_mut().for_each(|group| group.refused = false);
            self.order.noted_all(self.groups.len());
        }
        loop {
            let (candidate, group) = self.best_of_groups(context, job)?;
            let node = self.node(candidate);
            let refuses = |rule: &&HardRule| !rule_held(context.overlay, &self.requirement, **rule, node);
            let mut refusing = self.requirement.rules.rules.iter().filter(refuses).peekable();
            if refusing.peek().is_none() {
                return Some(candidate);
            }
            if refusing.any(|rule| !rule.recovers()) {
                self.group_dropped(group);
            }
            self.group_refused(group);
        }
    }

    /// Refuses a group. All its nodes are in the same domains, so a rule that refuses one refuses all.
    fn group_refused(&mut self, group: u32) {
        if let Some(known) = self.groups.get_mut(group as usize) {
            known.refused = true;
            self.order.put(group, None);
        }
    }

    /// Drops the candidates of a group that a rule refuses for good.
    fn group_dropped(&mut self, group: u32) {
        let Some(known) = self.groups.get_mut(group as usize) else { return };
        for ranked in std::mem::take(&mut known.heap) {
            self.alive_set(ranked.candidate, false);
        }
    }

    /// The best candidate of all groups that no rule refuses, with its group.
    fn best_of_groups(&mut self, context: &mut ClassContext<'_, '_>, job: &JobPlan) -> Option<(u32, u32)> {
        let groups = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        // A random draw differs at each choice, so no order of groups lasts.
        if groups <= group_scan().few_groups || context.candidates.scorer.policy().draws() {
            self.best_of_few(context, job, groups)
        } else {
            self.best_of_many(context, job)
        }
    }

    fn best_of_few(
        &mut self,
        context: &mut ClassContext<'_, '_>,
        job: &JobPlan,
        groups: u32,
    ) -> Option<(u32, u32)> {
        let mut best: Option<(Score, (u32, u32))> = None;
        for group in 0..groups {
            let Some((score, candidate)) = self.group_best_counted(context, job, group) else { continue };
            if best.is_none_or(|(known, _)| score > known) {
                best = Some((score, (candidate, group)));
            }
        }
        best.map(|(_, found)| found)
    }

    fn best_of_many(&mut self, context: &mut ClassContext<'_, '_>, job: &JobPlan) -> Option<(u32, u32)> {
        while let Some(group) = self.order.noted_next() {
            let best = self.group_best_counted(context, job, group);
            self.order.put(group, best.map(|(score, _)| score));
        }
        loop {
            let (score, group) = self.order.top()?;
            match self.group_best_counted(context, job, group) {
                Some((now, candidate)) if now == score => return Some((candidate, group)),
                now => self.order.put(group, now.map(|(score, _)| score)),
            }
        }
    }

    /// A group's best candidate with the group's crowding subtracted. `None` if it has none, or is refused.
    fn group_best_counted(
        &mut self,
        context: &mut ClassContext<'_, '_>,
        job: &JobPlan,
        group: u32,
    ) -> Option<(Score, u32)> {
        if self.groups.get(group as usize)?.refused {
            return None;
        }
        let scorer = Arc::clone(&context.candidates.scorer);
        let found = if scorer.policy().draws() {
            self.group_drawn(context, group as usize)
        } else {
            self.group_best(context, group as usize)
        };
        let Ranked { mut score, candidate, .. } = found?;
        let crowding = job.crowding(context.overlay, &self.groups.get(group as usize)?.domains);
        score.preference -= scorer.policy().crowding(&scorer.profile.weights, crowding);
        Some((score, candidate))
    }

    /// A random candidate of a group, among those with the same preference as its best.
    fn group_drawn(&mut self, context: &mut ClassContext<'_, '_>, group: usize) -> Option<Ranked> {
        let best = self.group_best(context, group)?;
        let turn = context.candidates.seed ^ context.overlay.tables.closed_total ^ (self.choice << 32);
        for attempt in 0..DRAWS_MAX {
            let drawn = mixed(mixed(turn).wrapping_add(attempt ^ ((group as u64) << 32)));
            let ranked = self.groups.get(group)?.heap.as_slice();
            let place = usize::try_from(drawn % ranked.len().max(1) as u64).ok()?;
            let mut ranked = *ranked.get(place)?;
            let known = self.candidates.get(ranked.candidate as usize)?;
            let outdated = !known.alive || known.version != ranked.version;
            if outdated || ranked.score.preference != best.score.preference {
                continue;
            }
            self.candidate_renewed(context, ranked.candidate);
            if self.candidates.get(ranked.candidate as usize).is_some_and(|known| known.alive) {
                ranked.score.tie = (drawn >> 32) as u32;
                return Some(ranked);
            }
        }
        Some(best)
    }

    fn group_best(&mut self, context: &mut ClassContext<'_, '_>, group: usize) -> Option<Ranked> {
        loop {
            let ranked = *self.groups.get(group)?.heap.peek()?;
            let known = self.candidates.get(ranked.candidate as usize)?;
            let outdated = !known.alive || known.version != ranked.version;
            if !outdated && known.version == context.overlay.version(known.node) {
                return Some(ranked);
            }
            self.groups.get_mut(group)?.heap.pop();
            if !outdated {
                self.candidate_renewed(context, ranked.candidate);
            }
        }
    }
}

#[cfg(not(test))]
fn group_scan() -> GroupScan {
    GROUP_SCAN
}

#[cfg(test)]
use tests::group_scan;

#[cfg(test)]
mod tests;
