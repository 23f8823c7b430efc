//! Terms count the tasks of some jobs per failure domain, and follow each row. Affinities, limits of a spread and
//! anti-affinities of other jobs are checked against them, so that no plan has to count.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{
    Affinity, Constraint, ConstraintOperator, JobIdentity, LABEL_JOB_USER, job_selected,
};
use borough_model::{JobId, Name, NodeId};

use super::node::NodeTable;
use crate::count::CountChange;

/// The number of a term.
pub(crate) type TermId = u32;

/// Which tasks a term counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TermKey {
    /// Tasks of the jobs that a selector selects.
    Selected { attribute: String, selector: Vec<Constraint> },
    /// Tasks of the jobs that keep apart from what a selector selects.
    Apart { attribute: String, selector: Vec<Constraint> },
    /// Tasks of the jobs with a soft affinity to what a selector selects. A negative weight means apart.
    Wished { attribute: String, selector: Vec<Constraint>, weight: i64 },
    /// Tasks of one job.
    Own { attribute: String, job: JobId },
}

impl TermKey {
    pub(crate) fn selected(affinity: &Affinity, owner: &Name) -> Self {
        Self::Selected { attribute: affinity.attribute.clone(), selector: affinity.selector(owner) }
    }

    pub(crate) fn apart(affinity: &Affinity, owner: &Name) -> Self {
        Self::Apart { attribute: affinity.attribute.clone(), selector: affinity.selector(owner) }
    }

    pub(crate) fn wished(affinity: &Affinity, owner: &Name, weight: i64) -> Self {
        Self::Wished { attribute: affinity.attribute.clone(), selector: affinity.selector(owner), weight }
    }

    /// The attribute that names the domains.
    pub(crate) fn attribute(&self) -> &str {
        match self {
            Self::Selected { attribute, .. }
            | Self::Apart { attribute, .. }
            | Self::Wished { attribute, .. }
            | Self::Own { attribute, .. } => attribute,
        }
    }

    /// Returns true if its selector selects a job.
    pub(crate) fn selects(&self, job: JobIdentity<'_>) -> bool {
        match self {
            Self::Selected { selector, .. }
            | Self::Apart { selector, .. }
            | Self::Wished { selector, .. } => job_selected(selector, job),
            Self::Own { .. } => false,
        }
    }

    /// The users to whose jobs its selector is limited; `None` for all users.
    fn users(&self) -> Option<&[String]> {
        let selector = match self {
            Self::Selected { selector, .. }
            | Self::Apart { selector, .. }
            | Self::Wished { selector, .. } => selector,
            Self::Own { .. } => return Some(&[]),
        };
        let named =
            |one: &&Constraint| one.attribute == LABEL_JOB_USER && one.operator == ConstraintOperator::In;
        selector.iter().find(named).map(|one| one.values.as_slice())
    }

    /// The keys of [`Terms::of_user`] for this term.
    fn limited_to(&self) -> Vec<Option<String>> {
        match self.users() {
            None => vec![None],
            Some(users) => users.iter().cloned().map(Some).collect(),
        }
    }
}

/// A term in use.
#[derive(Clone, Debug)]
pub(crate) struct AffinityTerm {
    pub key: TermKey,
    /// The number of the attribute that names the domains.
    pub attribute: u32,
    /// Jobs with a rule that uses it.
    pub(super) users: BTreeSet<JobId>,
    /// The jobs that it counts.
    pub(super) members: BTreeSet<JobId>,
    /// Jobs that stay apart from its tasks, or that it wishes near or apart.
    pub(super) affected: BTreeSet<JobId>,
    by_node: BTreeMap<NodeId, u32>,
    by_domain: BTreeMap<u32, u32>,
    /// Tasks in any domain.
    pub total: u32,
}

impl AffinityTerm {
    /// Tasks in the domain of a value.
    pub(crate) fn count(&self, value: u32) -> u32 {
        self.by_domain.get(&value).copied().unwrap_or(0)
    }

    /// The domains with any tasks.
    pub(crate) fn domains(&self) -> impl Iterator<Item = (u32, u32)> {
        self.by_domain.iter().map(|(&value, &count)| (value, count))
    }

    /// Adds tasks on a node, or removes them.
    pub(crate) fn node_counted(&mut self, nodes: &NodeTable, node: NodeId, change: CountChange, by: u32) {
        count_moved(&mut self.by_node, node, change, by);
        let domain = nodes.ordinal(node).and_then(|node| nodes.attribute(node, self.attribute));
        if let Some(domain) = domain {
            self.domain_counted(domain, change, by);
        }
    }

    fn domain_counted(&mut self, domain: u32, change: CountChange, by: u32) {
        count_moved(&mut self.by_domain, domain, change, by);
        self.total = change.tasks(self.total, by);
    }

    /// Moves a node's tasks to another domain. Returns true if any count changed.
    fn node_moved(&mut self, node: NodeId, before: Option<u32>, after: Option<u32>) -> bool {
        let Some(&count) = self.by_node.get(&node).filter(|_| before != after) else { return false };
        if let Some(before) = before {
            self.domain_counted(before, CountChange::Remove, count);
        }
        if let Some(after) = after {
            self.domain_counted(after, CountChange::Add, count);
        }
        true
    }
}

/// Changes the count of a key. Counts of zero have no entry.
fn count_moved<K: Ord>(counts: &mut BTreeMap<K, u32>, at: K, change: CountChange, by: u32) {
    match change {
        CountChange::Add => {
            let count = counts.entry(at).or_default();
            *count = count.saturating_add(by);
        }
        CountChange::Remove => {
            let Some(count) = counts.get_mut(&at) else { return };
            *count = count.saturating_sub(by);
            if *count == 0 {
                counts.remove(&at);
            }
        }
    }
}

/// The terms in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    numbers: BTreeMap<TermKey, TermId>,
    terms: Vec<Option<AffinityTerm>>,
    vacant: Vec<TermId>,
    /// Terms with a selector, by the user to whose jobs it is limited; `None` for all users.
    of_user: BTreeMap<Option<String>, BTreeSet<TermId>>,
}

impl Terms {
    pub(crate) fn get(&self, id: TermId) -> Option<&AffinityTerm> {
        self.terms.get(id as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: TermId) -> Option<&mut AffinityTerm> {
        self.terms.get_mut(id as usize)?.as_mut()
    }

    /// Terms with a selector that could select a user's jobs.
    pub(super) fn selecting(&self, user: &Name) -> Vec<TermId> {
        let named = self.of_user.get(&Some(user.to_string()));
        let any = self.of_user.get(&None);
        named.into_iter().chain(any).flatten().copied().collect()
    }

    /// Lists a term under the users to whose jobs it is limited.
    fn listed(&mut self, key: &TermKey, id: TermId) {
        for user in key.limited_to() {
            self.of_user.entry(user).or_default().insert(id);
        }
    }

    fn unlisted(&mut self, key: &TermKey, id: TermId) {
        for user in key.limited_to() {
            let Some(ids) = self.of_user.get_mut(&user) else { continue };
            ids.remove(&id);
            if ids.is_empty() {
                self.of_user.remove(&user);
            }
        }
    }

    /// The number of a term, and whether it is new.
    pub(super) fn made(&mut self, key: TermKey, attribute: u32) -> (TermId, bool) {
        if let Some(&id) = self.numbers.get(&key) {
            return (id, false);
        }
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.terms.push(None);
            u32::try_from(self.terms.len() - 1).unwrap_or(u32::MAX)
        });
        self.listed(&key, id);
        self.numbers.insert(key.clone(), id);
        let term = AffinityTerm {
            key,
            attribute,
            users: BTreeSet::new(),
            members: BTreeSet::new(),
            affected: BTreeSet::new(),
            by_node: BTreeMap::new(),
            by_domain: BTreeMap::new(),
            total: 0,
        };
        if let Some(entry) = self.terms.get_mut(id as usize) {
            *entry = Some(term);
        }
        (id, true)
    }

    pub(super) fn dropped(&mut self, id: TermId) -> Option<AffinityTerm> {
        let term = self.terms.get_mut(id as usize)?.take()?;
        self.numbers.remove(&term.key);
        self.unlisted(&term.key, id);
        self.vacant.push(id);
        Some(term)
    }

    /// Follows a change of a node's domains. Returns the terms with changed counts.
    pub(crate) fn node_moved(
        &mut self,
        node: NodeId,
        before: impl Fn(u32) -> Option<u32>,
        after: impl Fn(u32) -> Option<u32>,
    ) -> Vec<TermId> {
        let moved = |(id, term): (TermId, &mut Option<AffinityTerm>)| {
            let term = term.as_mut()?;
            let attribute = term.attribute;
            term.node_moved(node, before(attribute), after(attribute)).then_some(id)
        };
        (0..).zip(&mut self.terms).filter_map(moved).collect()
    }
}
