//! A class under a plan: its candidates, found once, in an order that follows what the plan takes.

use std::collections::{BTreeMap, BinaryHeap};

use smallvec::SmallVec;

use super::score::{Score, preference, score};
use super::spread::{Domains, JobPlan};
use super::{PlanCounters, Work};
use crate::filter::{Requirement, fits_in_time, fits_moving, rule_held};
use crate::settings::ScoringProfile;
use crate::snapshot::{NodeTable, Room, Rule, STRETCH};

/// In a cell of up to so many nodes every node is scored.
const NODES_ALL_MAX: usize = 200;

/// In a larger one, scoring stops at as many nodes that fit as there are tasks of the class, and so many more (Gödel's
/// reduced scan: members + 50), found from a place chosen by the job's seed (relaxed randomization). When most of them are
/// full, the search goes on where it stopped.
const NODES_BEYOND: usize = 50;

/// The same for a job that spreads, which wants to see more failure domains.
const NODES_BEYOND_SPREAD: usize = 250;

/// A list of nodes is searched instead of the cell where it holds at most this part of it.
const LISTED_PART: usize = 8;

/// In a larger cell a class follows at most so many of the latest changes that other classes made; what it misses is
/// found when a node comes to be chosen.
const CHANGES_MAX: usize = 64;

/// A node that fitted when it was last looked at.
#[derive(Clone, Debug)]
struct Candidate {
    node: u32,
    /// How many nodes the search had passed: candidates ascend by it.
    rank: u32,
    /// The node's version when it was scored.
    version: u32,
    alive: bool,
    group: u32,
    preference: i64,
}

/// A candidate in the order of its group; outdated once the candidate has another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    score: Score,
    candidate: u32,
    version: u32,
}

/// Candidates in the same failure domains: placing one moves them all together.
#[derive(Clone, Debug)]
struct Group {
    domains: Domains,
    heap: BinaryHeap<Ranked>,
    /// The choice at which a rule refused it.
    refused_at: u64,
}

/// What a class is held against.
pub(crate) struct Ground<'w, 'a> {
    pub work: &'w Work<'a>,
    pub now_ms: i64,
    pub profile: ScoringProfile,
    pub counters: &'w mut PlanCounters,
}

/// The search of one class.
#[derive(Clone, Debug)]
pub(crate) struct ClassPlan {
    pub requirement: Requirement,
    start: usize,
    /// The only nodes that can fit, by rank, where a constraint lists few: the cell is not searched.
    listed: Option<Vec<(u32, u32)>>,
    scanned: usize,
    /// Tasks of the class when its search began.
    members: usize,
    candidates: Vec<Candidate>,
    groups: Vec<Group>,
    group_of: BTreeMap<Domains, u32>,
    alive: usize,
    log_at: usize,
    generation: u32,
    /// Counts choices.
    choice: u64,
}

/// How far from the start of the search a node stands.
fn rank(nodes: &NodeTable, start: usize, node: u32) -> Option<u32> {
    let position = *nodes.positions().get(node as usize)? as usize;
    let count = nodes.count();
    (position < count).then(|| u32::try_from((position + count - start) % count).ok())?
}

/// The nodes near what a rule wants to be near, one list per domain; `None` where any node will do.
fn near_listed<'w>(work: &Work<'w>, rule: Rule) -> Option<SmallVec<[&'w [u32]; 4]>> {
    let Rule::Near { term: id, own, .. } = rule else { return None };
    if own && work.term_total(id) == 0 {
        return None;
    }
    let term = work.snapshot.terms.get(id)?;
    let bearing = |value| work.snapshot.nodes.index.bearing(term.attribute, value);
    Some(work.term_domains(id).into_iter().map(bearing).collect())
}

/// The nodes of the hard constraint or rule that lists fewest, if that is a small part of the cell.
fn listed(requirement: &Requirement, work: &Work<'_>, start: usize) -> Option<Vec<(u32, u32)>> {
    let nodes = work.nodes;
    let of_rules = requirement.rules.rules.iter().filter_map(|&rule| near_listed(work, rule));
    let of_constraints = requirement.hard.iter().filter_map(|constraint| constraint.listed(nodes));
    let lists = of_constraints.chain(of_rules);
    let total = |lists: &SmallVec<[&[u32]; 4]>| lists.iter().map(|nodes| nodes.len()).sum::<usize>();
    let fewest = lists.min_by_key(total)?;
    if total(&fewest) * LISTED_PART > nodes.count() {
        return None;
    }
    let bearing = fewest.into_iter().flatten();
    let mut listed: Vec<(u32, u32)> =
        bearing.filter_map(|&node| Some((rank(nodes, start, node)?, node))).collect();
    listed.sort_unstable();
    listed.dedup();
    Some(listed)
}

impl ClassPlan {
    pub fn new(requirement: Requirement, members: usize, seed: u64, work: &Work<'_>) -> Self {
        let nodes = work.nodes.count().max(1) as u64;
        let start = usize::try_from(seed % nodes).unwrap_or(0);
        Self {
            listed: listed(&requirement, work, start),
            requirement,
            start,
            scanned: 0,
            members,
            candidates: Vec::new(),
            groups: Vec::new(),
            group_of: BTreeMap::new(),
            alive: 0,
            log_at: work.log.len(),
            generation: work.generation,
            choice: 0,
        }
    }

    /// The best node now, other than the one to avoid unless it is the only one.
    pub fn chosen(
        &mut self,
        ground: &mut Ground<'_, '_>,
        job: &mut JobPlan,
        avoid: Option<u32>,
    ) -> Option<u32> {
        self.changes_follow(ground, job.seed);
        self.candidates_refill(ground, job, false);
        let mut aside = None;
        let chosen = loop {
            match self.best(ground, job) {
                Some(best) if avoid == Some(self.node(best)) => {
                    self.alive_set(best, false);
                    aside = Some(best);
                }
                Some(best) => break Some(best),
                None if self.scanned < self.end(ground.work) => self.candidates_refill(ground, job, true),
                None => break None,
            }
        };
        if let Some(aside) = aside {
            self.alive_set(aside, true);
            self.rank(ground, aside, job.seed);
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

    /// Scores anew the candidates that have changed since the last choice.
    fn changes_follow(&mut self, ground: &mut Ground<'_, '_>, seed: u64) {
        if self.generation != ground.work.generation {
            *self = Self::new(self.requirement.clone(), self.members, seed, ground.work);
            return;
        }
        let log = &ground.work.log;
        let mut from = self.log_at;
        if ground.work.nodes.count() > NODES_ALL_MAX {
            from = from.max(log.len().saturating_sub(CHANGES_MAX));
        }
        self.log_at = log.len();
        for position in from..log.len() {
            let Some(&node) = ground.work.log.get(position) else { break };
            let Some(candidate) = self.candidate_of(ground.work, node) else { continue };
            self.candidate_renewed(ground, candidate, seed);
        }
    }

    fn candidate_of(&self, work: &Work<'_>, node: u32) -> Option<u32> {
        let rank = rank(work.nodes, self.start, node)?;
        let found = self.candidates.binary_search_by_key(&rank, |candidate| candidate.rank).ok()?;
        u32::try_from(found).ok()
    }

    /// Looks at a candidate again if its node has changed.
    fn candidate_renewed(&mut self, ground: &mut Ground<'_, '_>, candidate: u32, seed: u64) {
        let Some(known) = self.candidates.get(candidate as usize) else { return };
        if !known.alive || known.version == ground.work.version(known.node) {
            return;
        }
        if fits_moving(ground.work, &self.requirement, known.node, ground.now_ms) {
            self.rank(ground, candidate, seed);
        } else {
            self.alive_set(candidate, false);
        }
    }

    /// Scores a candidate and puts it in its group's order.
    fn rank(&mut self, ground: &mut Ground<'_, '_>, candidate: u32, seed: u64) {
        let Some(known) = self.candidates.get_mut(candidate as usize) else { return };
        known.version = ground.work.version(known.node);
        ground.counters.nodes_scored += 1;
        let chance = (known.preference, seed);
        let score = score(ground.work, &self.requirement, known.node, ground.profile, chance);
        if let Some(group) = self.groups.get_mut(known.group as usize) {
            group.heap.push(Ranked { score, candidate, version: known.version });
        }
    }

    /// Where the search ends.
    fn end(&self, work: &Work<'_>) -> usize {
        self.listed.as_ref().map_or_else(|| work.nodes.count(), Vec::len)
    }

    /// The next node of the search, with its rank.
    fn next(&mut self, work: &Work<'_>) -> Option<(u32, u32)> {
        if let Some(listed) = &self.listed {
            let next = listed.get(self.scanned).copied();
            self.scanned += 1;
            return next;
        }
        let count = work.nodes.count();
        loop {
            let rank = self.scanned;
            let position = (self.start + rank) % count.max(1);
            if rank >= count {
                return None;
            }
            if position.is_multiple_of(STRETCH) && rank + STRETCH <= count && position + STRETCH <= count {
                let most = work.nodes.rooms().get(position / STRETCH).copied().unwrap_or_default();
                if !self.room_enough(most) {
                    self.scanned += STRETCH;
                    continue;
                }
            }
            self.scanned += 1;
            return Some((u32::try_from(rank).ok()?, *work.nodes.order.get(position)?));
        }
    }

    fn room_enough(&self, most: Room) -> bool {
        self.requirement.amount(0) <= most.cpu_millis && self.requirement.amount(1) <= most.memory_bytes
    }

    /// Goes on searching for nodes that fit, while there are too few candidates, or rules refuse all there are.
    fn candidates_refill(&mut self, ground: &mut Ground<'_, '_>, job: &mut JobPlan, refused: bool) {
        let all = ground.work.nodes.count() <= NODES_ALL_MAX;
        let beyond = if job.spreads() { NODES_BEYOND_SPREAD } else { NODES_BEYOND };
        let mut enough = self.members + beyond;
        if self.scanned >= self.end(ground.work) || (!all && !refused && self.alive > enough / 4) {
            return;
        }
        if refused {
            enough = enough.max(self.alive + beyond);
        }
        while all || self.alive < enough {
            let Some((rank, node)) = self.next(ground.work) else { break };
            ground.counters.nodes_examined += 1;
            if fits_in_time(ground.work, &self.requirement, node, ground.now_ms) {
                self.candidate_add(ground, job, node, rank);
            }
        }
    }

    fn candidate_add(&mut self, ground: &mut Ground<'_, '_>, job: &mut JobPlan, node: u32, rank: u32) {
        let domains = job.domains(ground.work.nodes, node);
        let groups = &mut self.groups;
        let group = match self.group_of.get(&domains) {
            Some(&group) => group,
            None => {
                groups.push(Group { domains: domains.clone(), heap: BinaryHeap::new(), refused_at: 0 });
                let group = u32::try_from(groups.len() - 1).unwrap_or(u32::MAX);
                self.group_of.insert(domains, group);
                group
            }
        };
        let candidate = u32::try_from(self.candidates.len()).unwrap_or(u32::MAX);
        self.candidates.push(Candidate {
            node,
            rank,
            version: 0,
            alive: true,
            group,
            preference: preference(ground.work, &self.requirement, node),
        });
        self.alive += 1;
        self.rank(ground, candidate, job.seed);
    }

    /// The best candidate that no rule refuses.
    fn best(&mut self, ground: &mut Ground<'_, '_>, job: &JobPlan) -> Option<u32> {
        self.choice += 1;
        loop {
            let (candidate, group) = self.best_of_groups(ground, job)?;
            let node = self.node(candidate);
            let refuses = |rule: &&Rule| !rule_held(ground.work, &self.requirement, **rule, node);
            let mut refusing = self.requirement.rules.rules.iter().filter(refuses).peekable();
            if refusing.peek().is_none() {
                return Some(candidate);
            }
            let for_good = refusing.any(|rule| !rule.recovers());
            self.group_refused(group, for_good);
        }
    }

    /// All nodes of a group are in the same domains, so what refuses one refuses all.
    fn group_refused(&mut self, group: usize, for_good: bool) {
        let Some(known) = self.groups.get_mut(group) else { return };
        known.refused_at = self.choice;
        if for_good {
            for ranked in std::mem::take(&mut known.heap) {
                self.alive_set(ranked.candidate, false);
            }
        }
    }

    /// The best candidate over all groups: each group's best, less what counts against the group.
    fn best_of_groups(&mut self, ground: &mut Ground<'_, '_>, job: &JobPlan) -> Option<(u32, usize)> {
        let mut best: Option<(Score, (u32, usize))> = None;
        for number in 0..self.groups.len() {
            if self.groups.get(number).is_some_and(|group| group.refused_at == self.choice) {
                continue;
            }
            let Some(mut ranked) = self.group_best(ground, number, job.seed) else { continue };
            if let Some(group) = self.groups.get(number) {
                ranked.score.preference -= job.crowding(ground.work, &group.domains);
            }
            if best.is_none_or(|(score, _)| ranked.score > score) {
                best = Some((ranked.score, (ranked.candidate, number)));
            }
        }
        best.map(|(_, found)| found)
    }

    fn group_best(&mut self, ground: &mut Ground<'_, '_>, group: usize, seed: u64) -> Option<Ranked> {
        loop {
            let ranked = *self.groups.get(group)?.heap.peek()?;
            let known = self.candidates.get(ranked.candidate as usize)?;
            let outdated = !known.alive || known.version != ranked.version;
            if !outdated && known.version == ground.work.version(known.node) {
                return Some(ranked);
            }
            self.groups.get_mut(group)?.heap.pop();
            if !outdated {
                self.candidate_renewed(ground, ranked.candidate, seed);
            }
        }
    }
}
