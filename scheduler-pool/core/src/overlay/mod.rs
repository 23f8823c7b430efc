//! The overlay: what a plan has taken so far, over tables that it does not change. Only touched nodes cost memory.
//! kube-scheduler calls it assumed pods.

mod held;
mod places;

use std::cell::RefCell;
use std::collections::BTreeMap;

use borough_model::JobId;
use smallvec::SmallVec;

use crate::count::CountChange;
use crate::queueing::Shares;
use crate::tables::{CellTables, HardRule, NodeTable, TermId};
pub(crate) use places::Places;
use places::TOUCHED_FIRST;

/// A node that the plan has changed.
#[derive(Clone, Debug)]
struct TouchedNode {
    /// Counts changes, so that older scores of the node are known to be outdated.
    version: u32,
    tasks: u32,
    used: SmallVec<[u64; 6]>,
    ports: SmallVec<[u16; 8]>,
}

/// The number of a job's tasks in each domain that could take one. The limit of its skew needs the least of them.
#[derive(Clone, Debug)]
struct DomainCounts {
    counts: BTreeMap<u32, u32>,
    /// The number of domains with each number of tasks.
    domains_of: BTreeMap<u32, u32>,
}

/// Counters of events that may let a task in where a rule refused it, or make a domain better than it was.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    /// A term got its first task in a domain.
    firsts: u64,
    /// The least number of tasks in any domain grew.
    rises: u64,
    /// A term lost a task.
    falls: u64,
}

/// The tables as a plan has left them.
#[derive(Clone, Debug)]
pub(crate) struct PlanOverlay<'a> {
    pub tables: &'a CellTables,
    pub nodes: &'a NodeTable,
    /// The difference of each term's count to the tables, per domain. Negative where tasks were evicted.
    terms: BTreeMap<(TermId, u32), i32>,
    totals: BTreeMap<TermId, i32>,
    /// Built when a skew rule first asks.
    domain_counts: RefCell<BTreeMap<TermId, DomainCounts>>,
    moments: Moments,
    /// The index into `touched` of each node.
    places: Places,
    touched: Vec<TouchedNode>,
    /// The changed nodes in the order of the changes.
    pub log: Vec<u32>,
    /// Counts the times at which capacity was given back. Findings of an earlier generation are void.
    pub generation: u32,
    /// The shares of users and queues, if turns or claims depend on them.
    pub shares: Option<Shares>,
}

impl DomainCounts {
    fn least(&self) -> u32 {
        self.domains_of.first_key_value().map_or(0, |(&least, _)| least)
    }

    fn change(&mut self, value: u32, change: CountChange) {
        let Some(count) = self.counts.get_mut(&value) else { return };
        if let Some(domains) = self.domains_of.get_mut(count) {
            *domains -= 1;
            if *domains == 0 {
                self.domains_of.remove(count);
            }
        }
        *count = change.tasks(*count, 1);
        *self.domains_of.entry(*count).or_default() += 1;
    }
}

impl<'a> PlanOverlay<'a> {
    pub(crate) fn new(tables: &'a CellTables) -> Self {
        Self {
            tables,
            nodes: &tables.nodes,
            terms: BTreeMap::new(),
            totals: BTreeMap::new(),
            domain_counts: RefCell::default(),
            moments: Moments::default(),
            places: Places::new(TOUCHED_FIRST),
            touched: Vec::new(),
            log: Vec::new(),
            generation: 0,
            shares: None,
        }
    }

    /// The number of tasks that a term counts in the domain of a value.
    pub(crate) fn term_count(&self, term: TermId, value: u32) -> u32 {
        let known = self.tables.terms.get(term).map_or(0, |term| term.count(value));
        known.saturating_add_signed(self.terms.get(&(term, value)).copied().unwrap_or(0))
    }

    /// The number of tasks that a term counts in all domains.
    pub(crate) fn term_total(&self, term: TermId) -> u32 {
        let known = self.tables.terms.get(term).map_or(0, |term| term.total);
        known.saturating_add_signed(self.totals.get(&term).copied().unwrap_or(0))
    }

    /// The domains in which a term counts any task.
    pub(crate) fn term_domains(&self, term: TermId) -> Vec<u32> {
        let known = self.tables.terms.get(term).into_iter().flat_map(|term| term.domains());
        let taken = self.terms.range((term, 0)..=(term, u32::MAX)).filter(|&(_, &count)| count > 0);
        let mut values: Vec<u32> =
            known.map(|(value, _)| value).chain(taken.map(|(&(_, value), _)| value)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// The number of tasks in the emptiest domain that has a node which `could` take one. The first call for a term
    /// decides about the domains.
    pub(crate) fn term_least(&self, term: TermId, could: impl Fn(u32) -> bool) -> u32 {
        let mut counts = self.domain_counts.borrow_mut();
        let counts = counts.entry(term).or_insert_with(|| self.domain_counts_made(term, could));
        counts.least()
    }

    /// A number that changes whenever one of these rules may allow what it refused. For a job that some tasks draw near
    /// them (`drawn_near`), it also changes when a domain may have become better.
    pub(crate) fn moment(&self, rules: &[HardRule], drawn_near: bool) -> u64 {
        let Moments { firsts, rises, falls } = self.moments;
        let near = drawn_near || rules.iter().any(|rule| matches!(rule, HardRule::Near { .. }));
        let skewed = rules.iter().any(|rule| matches!(rule, HardRule::Skew { .. }));
        falls + if near { firsts } else { 0 } + if skewed { rises } else { 0 }
    }

    fn domain_counts_made(&self, id: TermId, could: impl Fn(u32) -> bool) -> DomainCounts {
        let mut made = DomainCounts { counts: BTreeMap::new(), domains_of: BTreeMap::new() };
        let Some(term) = self.tables.terms.get(id) else { return made };
        for (value, nodes) in self.nodes.index.values_of(term.attribute) {
            if nodes.iter().any(|&node| could(node)) {
                let count = self.term_count(id, value);
                made.counts.insert(value, count);
                *made.domains_of.entry(count).or_default() += 1;
            }
        }
        made
    }

    /// Adds a task of a job on a node to the terms that count it, or removes it.
    pub(crate) fn count(&mut self, job: JobId, node: u32, change: CountChange) {
        self.count_moving(job, node, change, |overlay, id, value| match change {
            CountChange::Add => overlay.moments.firsts += u64::from(overlay.term_count(id, value) == 1),
            CountChange::Remove => overlay.moments.falls += 1,
        });
    }

    /// Returns true if any rule of the cell counts a job's tasks.
    pub(crate) fn counts(&self, job: JobId) -> bool {
        self.tables.jobs.get(&job).is_some_and(|entry| !entry.terms.counted.is_empty())
    }

    /// The same for a trial: the caller takes it back before any rule is checked for another task.
    pub(crate) fn trial_count(&mut self, job: JobId, node: u32, change: CountChange) {
        self.count_moving(job, node, change, |_, _, _| {});
    }

    /// Changes the counts of a job's terms in the domains of a node, and reports each changed count.
    fn count_moving(
        &mut self,
        job: JobId,
        node: u32,
        change: CountChange,
        report: impl Fn(&mut Self, TermId, u32),
    ) {
        let Some(entry) = self.tables.jobs.get(&job) else { return };
        for &id in &entry.terms.counted {
            let Some(term) = self.tables.terms.get(id) else { continue };
            let Some(value) = self.nodes.attribute(node, term.attribute) else { continue };
            let by = match change {
                CountChange::Add => 1,
                CountChange::Remove => -1,
            };
            *self.totals.entry(id).or_default() += by;
            *self.terms.entry((id, value)).or_default() += by;
            report(self, id, value);
            if let Some(counts) = self.domain_counts.get_mut().get_mut(&id) {
                let least = counts.least();
                counts.change(value, change);
                self.moments.rises += u64::from(counts.least() > least);
            }
        }
    }

    fn touched(&self, node: u32) -> Option<&TouchedNode> {
        self.touched.get(self.places.get(node)?)
    }

    fn touched_made(&mut self, node: u32) -> Option<&mut TouchedNode> {
        if let Some(place) = self.places.get(node) {
            return self.touched.get_mut(place);
        }
        let used = (0..self.nodes.dimensions()).map(|dimension| self.nodes.used(dimension, node)).collect();
        let tasks = self.nodes.tasks.get(node as usize).copied().unwrap_or(0);
        self.places.set(node, u32::try_from(self.touched.len()).unwrap_or(u32::MAX));
        self.touched.push(TouchedNode { version: 0, tasks, used, ports: SmallVec::new() });
        self.touched.last_mut()
    }

    /// How much of a dimension of a node is taken.
    pub(crate) fn used(&self, dimension: usize, node: u32) -> u64 {
        match self.touched(node) {
            Some(touched) => touched.used.get(dimension).copied().unwrap_or(0),
            None => self.nodes.used(dimension, node),
        }
    }

    /// The number of tasks on a node.
    pub(crate) fn tasks(&self, node: u32) -> u32 {
        let known = || self.nodes.tasks.get(node as usize).copied().unwrap_or(0);
        self.touched(node).map_or_else(known, |touched| touched.tasks)
    }

    /// The ports of a node that this plan has assigned.
    pub(crate) fn ports_taken(&self, node: u32) -> &[u16] {
        self.touched(node).map_or(&[], |touched| &touched.ports)
    }

    /// How often this plan has changed a node.
    pub(crate) fn version(&self, node: u32) -> u32 {
        self.touched(node).map_or(0, |touched| touched.version)
    }

    /// Charges a node with a task.
    pub(crate) fn taken(&mut self, node: u32, demand: &[(usize, u64)], ports: &[u16]) {
        let Some(touched) = self.touched_made(node) else { return };
        touched.version += 1;
        touched.tasks = touched.tasks.saturating_add(1);
        for &(dimension, amount) in demand {
            if let Some(used) = touched.used.get_mut(dimension) {
                *used = used.saturating_add(amount);
            }
        }
        touched.ports.extend_from_slice(ports);
        self.log.push(node);
        self.space_changed(node, ports);
    }

    /// Follows a change of a node's ports: the nodes that share its address have changed as well.
    fn space_changed(&mut self, node: u32, ports: &[u16]) {
        if ports.is_empty() {
            return;
        }
        let nodes = self.nodes;
        for other in nodes.spaces.with(node).skip(1) {
            let Some(touched) = self.touched_made(other) else { continue };
            touched.version += 1;
            self.log.push(other);
        }
    }

    /// Frees an amount of a node for a trial. The node's version stays.
    pub(crate) fn trial_free(&mut self, node: u32, demand: &[(usize, u64)]) {
        self.trial_change(node, demand, u64::wrapping_sub);
    }

    /// Takes the amount of a trial again.
    pub(crate) fn trial_take(&mut self, node: u32, demand: &[(usize, u64)]) {
        self.trial_change(node, demand, u64::wrapping_add);
    }

    fn trial_change(&mut self, node: u32, demand: &[(usize, u64)], change: fn(u64, u64) -> u64) {
        let Some(touched) = self.touched_made(node) else { return };
        for &(dimension, amount) in demand {
            let Some(used) = touched.used.get_mut(dimension) else { continue };
            *used = change(*used, amount);
        }
    }

    /// Releases the charge of a task, because its gang did not fit.
    pub(crate) fn returned(&mut self, node: u32, demand: &[(usize, u64)], ports: &[u16]) {
        let Some(touched) = self.touched_made(node) else { return };
        touched.version += 1;
        touched.tasks = touched.tasks.saturating_sub(1);
        for &(dimension, amount) in demand {
            if let Some(used) = touched.used.get_mut(dimension) {
                *used = used.saturating_sub(amount);
            }
        }
        touched.ports.retain(|port| !ports.contains(port));
        self.log.push(node);
        self.space_changed(node, ports);
    }
}
