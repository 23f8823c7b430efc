//! Rules between tasks: affinity, anti-affinity and the limits of a spread. A rule refers to a term, which counts tasks
//! per domain. Jobs join the terms that count them.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use borough_model::job::{AffinityKind, JobIdentity};
use borough_model::{JobId, JobRow, NodeId, TaskId, TaskState};

use super::term::{AffinityTerm, TermId, TermKey};
use super::{CellTables, PlanSpec, TaskSlot};
use crate::count::CountChange;

/// One hard rule, by the term that it is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HardRule {
    /// The affinity at a position of the spec: near some of the selected tasks.
    Near {
        term: TermId,
        position: u16,
        /// True if the selector also selects the job's own tasks. Then the first of them may go anywhere.
        own: bool,
    },
    /// The anti-affinity at a position of the spec: apart from all selected tasks.
    Apart { term: TermId, position: u16 },
    /// Apart from the tasks of a job whose anti-affinity selects this job. Anti-affinity works both ways.
    KeptApart { term: TermId },
    /// The spread at a position: at most `most` tasks more than the emptiest domain has.
    Skew { term: TermId, position: u16, most: u32 },
    /// The spread at a position: at most `most` tasks of the job in a domain.
    Cap { term: TermId, position: u16, most: u32 },
}

impl HardRule {
    pub(crate) fn term(self) -> TermId {
        match self {
            Self::Near { term, .. }
            | Self::Apart { term, .. }
            | Self::KeptApart { term }
            | Self::Skew { term, .. }
            | Self::Cap { term, .. } => term,
        }
    }

    /// Returns true if further placements can make a refused domain fit.
    pub(crate) fn recovers(self) -> bool {
        matches!(self, Self::Near { .. } | Self::Skew { .. })
    }
}

/// A soft affinity: its term and its weight. A negative weight means apart.
pub(crate) type Wish = (TermId, i64);

/// The [`RulesAndTerms`] of a job. Most jobs have none, and then it allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobTerms(Option<Box<RulesAndTerms>>);

static NO_TERMS: RulesAndTerms = RulesAndTerms {
    rules: Vec::new(),
    kept_apart: Vec::new(),
    wishes: Vec::new(),
    wished: Vec::new(),
    counted: Vec::new(),
};

impl Deref for JobTerms {
    type Target = RulesAndTerms;

    fn deref(&self) -> &RulesAndTerms {
        self.0.as_deref().unwrap_or(&NO_TERMS)
    }
}

impl DerefMut for JobTerms {
    fn deref_mut(&mut self) -> &mut RulesAndTerms {
        self.0.get_or_insert_default()
    }
}

/// The rules of a job, and the terms that it belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct RulesAndTerms {
    /// Its own hard rules. `kept_apart` has those of other jobs.
    rules: Vec<HardRule>,
    /// Terms that count the tasks of a job with an anti-affinity to this one.
    kept_apart: Vec<TermId>,
    pub wishes: Vec<Wish>,
    /// Soft affinities of other jobs to this one. A wish works both ways.
    pub wished: Vec<Wish>,
    /// Terms that count its tasks.
    pub counted: Vec<TermId>,
}

impl RulesAndTerms {
    /// Returns true if it has any hard rule. Whether a task fits then depends on more than the node.
    pub(crate) fn constrained(&self) -> bool {
        !self.rules.is_empty() || !self.kept_apart.is_empty()
    }

    /// Every hard rule, in the order in which filters check them.
    pub(crate) fn rules(&self) -> impl Iterator<Item = HardRule> {
        self.rules.iter().copied().chain(self.kept_apart.iter().map(|&term| HardRule::KeptApart { term }))
    }
}

fn identity<'a>(row: &'a JobRow, spec: &'a PlanSpec) -> JobIdentity<'a> {
    JobIdentity { user: &row.user, name: &row.name, labels: &spec.labels }
}

impl CellTables {
    /// Follows a job's new spec: the job leaves the terms of the old one and joins those of the new one.
    pub(crate) fn terms_join(&mut self, job: JobId) {
        self.terms_leave(job);
        let Some(entry) = self.jobs.get(&job) else { return };
        let (Some(row), Some((_, spec))) = (entry.row.clone(), entry.spec.clone()) else { return };
        if let Some(rules) = self.rules_made(&row, &spec) {
            let Some(entry) = self.jobs.get_mut(&job) else { return };
            (entry.terms.rules, entry.terms.wishes) = rules;
        }
        for id in self.terms.selecting(&row.user) {
            let Some(term) = self.terms.get(id) else { continue };
            if term.key.selects(identity(&row, &spec)) {
                self.term_selects(id, job);
            }
        }
    }

    /// The rules and wishes of a spec. `None` for a spec without any, as in most jobs.
    fn rules_made(&mut self, row: &JobRow, spec: &Arc<PlanSpec>) -> Option<(Vec<HardRule>, Vec<Wish>)> {
        let limits = spec.spread.iter().any(borough_model::job::Spread::is_hard);
        if spec.affinity.is_empty() && !limits {
            return None;
        }
        let (mut rules, mut wishes) = (Vec::new(), Vec::new());
        for (position, affinity) in (0u16..).zip(&spec.affinity) {
            let key = TermKey::selected(affinity, &row.user);
            let own = key.selects(identity(row, spec));
            let term = self.term_acquired(key, row.id);
            match (affinity.kind, affinity.preference) {
                (AffinityKind::Near, None) => rules.push(HardRule::Near { term, position, own }),
                (kind, Some(weight)) => {
                    let weight = match kind {
                        AffinityKind::Near => i64::from(weight),
                        AffinityKind::Apart => -i64::from(weight),
                    };
                    wishes.push((term, weight));
                    self.term_acquired(TermKey::wished(affinity, &row.user, weight), row.id);
                }
                (AffinityKind::Apart, None) => {
                    rules.push(HardRule::Apart { term, position });
                    self.terms_revision += 1;
                    self.term_acquired(TermKey::apart(affinity, &row.user), row.id);
                }
            }
        }
        for (position, spread) in (0u16..).zip(&spec.spread).filter(|(_, spread)| spread.is_hard()) {
            let key = TermKey::Own { attribute: spread.attribute.clone(), job: row.id };
            let term = self.term_acquired(key, row.id);
            if let Some(most) = spread.max_skew {
                rules.push(HardRule::Skew { term, position, most });
            }
            if spread.tasks_max.is_some() || spread.percent_max.is_some() {
                rules.push(HardRule::Cap { term, position, most: 0 });
            }
        }
        Some((rules, wishes))
    }

    /// The number of a term that a job's rules use. A new term counts the tasks that are placed already.
    fn term_acquired(&mut self, key: TermKey, job: JobId) -> TermId {
        let attribute = self.nodes.texts.interned(key.attribute());
        let of_job = !matches!(key, TermKey::Selected { .. });
        let (id, new) = self.terms.made(key, attribute);
        if let Some(term) = self.terms.get_mut(id) {
            term.users.insert(job);
        }
        if of_job {
            self.term_joined(id, job);
        }
        if new {
            let selected: Vec<JobId> = self.terms.get(id).map_or_else(Vec::new, |term| {
                let jobs = self.jobs.iter().map(|(other, entry)| (other, entry.as_ref()));
                let others = jobs.filter(|(other, _)| **other != job);
                let selects = |(&other, entry): (&JobId, &super::CellJob)| {
                    let (row, (_, spec)) = (entry.row.as_ref()?, entry.spec.as_ref()?);
                    term.key.selects(identity(row, spec)).then_some(other)
                };
                others.filter_map(selects).collect()
            });
            for other in selected {
                self.term_selects(id, other);
            }
        }
        id
    }

    /// Connects a term with a job that it selects: the term counts the job's tasks, or its tasks stay apart from them.
    fn term_selects(&mut self, id: TermId, job: JobId) {
        let weight = match self.terms.get(id).map(|term| &term.key) {
            Some(TermKey::Selected { .. }) => return self.term_joined(id, job),
            Some(TermKey::Wished { weight, .. }) => Some(*weight),
            _ => None,
        };
        let Some(term) = self.terms.get_mut(id) else { return };
        if let Some(weight) = weight {
            // A job with this very wish has it already.
            let other = !term.members.contains(&job) && term.affected.insert(job);
            if let Some(entry) = self.jobs.get_mut(&job).filter(|_| other) {
                entry.terms.wished.push((id, weight));
                entry.terms.wished.sort_unstable();
            }
            return;
        }
        let Some(entry) = self.jobs.get_mut(&job).filter(|_| term.affected.insert(job)) else { return };
        entry.terms.kept_apart.push(id);
        entry.terms.kept_apart.sort_unstable();
        self.shapes_set(job);
    }

    /// Makes a term count a job's tasks.
    fn term_joined(&mut self, id: TermId, job: JobId) {
        let Some(term) = self.terms.get_mut(id) else { return };
        let Some(entry) = self.jobs.get_mut(&job).filter(|_| term.members.insert(job)) else { return };
        for node in entry.tasks.iter().filter(|slot| slot.placed()).filter_map(|slot| slot.node) {
            term.node_counted(&self.nodes, node, CountChange::Add, 1);
        }
        entry.terms.counted.push(id);
        self.events.term_counted(id);
    }

    /// Takes a job out of every term, and drops the terms that no rule uses any more.
    pub(crate) fn terms_leave(&mut self, job: JobId) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let left = std::mem::take(&mut entry.terms);
        let resident: Vec<NodeId> =
            entry.tasks.iter().filter(|slot| slot.placed()).filter_map(|slot| slot.node).collect();
        for &id in &left.counted {
            let Some(term) = self.terms.get_mut(id) else { continue };
            term.members.remove(&job);
            for &node in &resident {
                term.node_counted(&self.nodes, node, CountChange::Remove, 1);
            }
            self.events.term_counted(id);
        }
        for &id in left.kept_apart.iter().chain(left.wished.iter().map(|(id, _)| id)) {
            if let Some(term) = self.terms.get_mut(id) {
                term.affected.remove(&job);
            }
        }
        let used = left.rules.iter().map(|rule| rule.term()).chain(left.wishes.iter().map(|&(id, _)| id));
        let used: BTreeSet<TermId> = used.chain(left.counted.iter().copied()).collect();
        for id in used {
            let Some(term) = self.terms.get_mut(id) else { continue };
            term.users.remove(&job);
            if term.users.is_empty() {
                self.term_dropped(id);
            }
        }
    }

    fn term_dropped(&mut self, id: TermId) {
        let Some(term) = self.terms.dropped(id) else { return };
        for job in &term.members {
            if let Some(entry) = self.jobs.get_mut(job) {
                entry.terms.counted.retain(|&known| known != id);
            }
        }
        for &job in &term.affected {
            if let Some(entry) = self.jobs.get_mut(&job) {
                entry.terms.kept_apart.retain(|&known| known != id);
                entry.terms.wished.retain(|&(known, _)| known != id);
            }
            self.shapes_set(job);
        }
    }

    /// A task that a term counts in the domain of a value. A running one if possible, because its row changes least.
    pub(crate) fn term_dependency(
        &self,
        term: &AffinityTerm,
        value: u32,
        stays: impl Fn(&TaskId) -> bool,
    ) -> Option<TaskId> {
        let mut found = None;
        for &job in &term.members {
            let slots = self.jobs.get(&job).into_iter().flat_map(|entry| (0u32..).zip(&entry.tasks));
            let there = |slot: &TaskSlot| {
                let node = slot.placed_on().and_then(|node| self.nodes.ordinal(node));
                node.and_then(|node| self.nodes.attribute(node, term.attribute)) == Some(value)
            };
            for (index, slot) in slots.filter(|(_, slot)| there(slot)) {
                let task = TaskId { job, index };
                if !stays(&task) {
                    continue;
                }
                if slot.state == Some(TaskState::Running) {
                    return Some(task);
                }
                found = found.or(Some(task));
            }
        }
        found
    }

    /// Moves a task of a job from one node to another in every term that counts it.
    pub(crate) fn terms_counted(&mut self, job: JobId, before: Option<NodeId>, after: Option<NodeId>) {
        let Some(entry) = self.jobs.get(&job).filter(|_| before != after) else { return };
        for &id in &entry.terms.counted {
            let Some(term) = self.terms.get_mut(id) else { continue };
            if let Some(node) = before {
                term.node_counted(&self.nodes, node, CountChange::Remove, 1);
            }
            if let Some(node) = after {
                term.node_counted(&self.nodes, node, CountChange::Add, 1);
            }
            self.events.term_counted(id);
        }
    }
}
