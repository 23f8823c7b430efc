//! The failure domains of a job: how many of its tasks each has, while a plan adds to them, and what else makes one
//! domain better than another.

use std::collections::BTreeMap;

use borough_model::JobId;
use smallvec::SmallVec;

use crate::overlay::PlanOverlay;
use crate::tables::{CellJob, CellTables, NodeTable, TermId};

/// The domains of a node: a place per attribute that the job spreads over.
pub(crate) type Domains = SmallVec<[u32; 2]>;

/// The value of nodes without the attribute. Together they are one domain.
const VALUE_NONE: u32 = u32::MAX;

/// One attribute that a job spreads over.
#[derive(Clone, Debug)]
struct Attribute {
    key: Option<u32>,
    weight: i64,
    /// The place in `counts` of each value that was seen.
    places: BTreeMap<u32, u32>,
    counts: Vec<u32>,
    /// The value of each place.
    values: Vec<u32>,
}

/// A soft affinity: the attribute's position, the term and its weight.
type Wish = (usize, TermId, i64);

/// The spread of a job in a plan.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    attributes: Vec<Attribute>,
    wishes: Vec<Wish>,
}

impl JobPlan {
    /// The spread of a job that prefers no domain over another.
    pub(super) fn plain() -> Self {
        Self { attributes: Vec::new(), wishes: Vec::new() }
    }

    pub(super) fn new(tables: &CellTables, job: JobId) -> Option<Self> {
        let entry = tables.jobs.get(&job)?;
        let spec = entry.spec_current()?;
        // A job of one task has no siblings to spread from.
        let spread = match entry.count() {
            0 | 1 => Vec::new(),
            _ => CellJob::spread_of(spec, &tables.settings.failure_domains),
        };
        let attributes =
            spread.into_iter().map(|(key, weight)| Attribute::of(tables.nodes.texts.known(&key), weight));
        let mut plan = Self { attributes: attributes.collect(), wishes: Vec::new() };
        for rule in entry.terms.rules() {
            plan.position_of(tables, rule.term());
        }
        for &(term, weight) in entry.terms.wishes.iter().chain(&entry.terms.wished) {
            let Some(position) = plan.position_of(tables, term) else { continue };
            plan.wishes.push((position, term, weight));
        }
        for (&node, &count) in &entry.placed {
            if let Some(node) = tables.nodes.ordinal(node) {
                let domains = plan.domains(&tables.nodes, node);
                plan.counted(&domains, |known| known.saturating_add(count));
            }
        }
        Some(plan)
    }

    /// The position of a term's attribute. The attribute joins the group key, so that a rule says the same of all nodes
    /// of a group.
    fn position_of(&mut self, tables: &CellTables, term: TermId) -> Option<usize> {
        let key = Some(tables.terms.get(term)?.attribute);
        let known = self.attributes.iter().position(|attribute| attribute.key == key);
        Some(known.unwrap_or_else(|| {
            self.attributes.push(Attribute::of(key, 0));
            self.attributes.len() - 1
        }))
    }

    /// Returns true if it may prefer one domain over another.
    pub(super) fn spreads(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// Returns true if tasks elsewhere can make a domain better than it was.
    pub(super) fn drawn_near(&self) -> bool {
        self.wishes.iter().any(|&(_, _, weight)| weight > 0)
    }

    /// The domains of a node.
    pub(super) fn domains(&mut self, nodes: &NodeTable, node: u32) -> Domains {
        let place = |attribute: &mut Attribute| {
            let value = attribute.key.and_then(|key| nodes.attribute(node, key)).unwrap_or(VALUE_NONE);
            let (counts, values) = (&mut attribute.counts, &mut attribute.values);
            *attribute.places.entry(value).or_insert_with(|| {
                counts.push(0);
                values.push(value);
                u32::try_from(counts.len() - 1).unwrap_or(u32::MAX)
            })
        };
        self.attributes.iter_mut().map(place).collect()
    }

    /// Changes the number of tasks in each of the domains.
    pub(super) fn counted(&mut self, domains: &Domains, change: impl Fn(u32) -> u32) {
        for (attribute, &place) in self.attributes.iter_mut().zip(domains) {
            if let Some(count) = attribute.counts.get_mut(place as usize) {
                *count = change(*count);
            }
        }
    }

    /// The penalty of these domains: each sibling there with the weight of the attribute, minus the soft affinities
    /// with tasks there.
    pub(super) fn crowding(&self, overlay: &PlanOverlay<'_>, domains: &Domains) -> i64 {
        let crowd = |(attribute, &place): (&Attribute, &u32)| {
            attribute.weight * i64::from(attribute.counts.get(place as usize).copied().unwrap_or(0))
        };
        let siblings: i64 = self.attributes.iter().zip(domains).map(crowd).sum();
        let wished: i64 = self.wishes.iter().map(|wish| self.wished(overlay, wish, domains)).sum();
        siblings - wished
    }

    /// Near adds the weight once if any such task is there. Apart subtracts it for each.
    fn wished(&self, overlay: &PlanOverlay<'_>, &(position, term, weight): &Wish, domains: &Domains) -> i64 {
        let value =
            self.attributes.get(position).zip(domains.get(position)).and_then(|(attribute, &place)| {
                attribute.values.get(place as usize).copied().filter(|&value| value != VALUE_NONE)
            });
        let count = value.map_or(0, |value| i64::from(overlay.term_count(term, value)));
        if weight > 0 { weight * count.min(1) } else { weight * count }
    }
}

impl Attribute {
    fn of(key: Option<u32>, weight: u32) -> Self {
        let weight = i64::from(weight);
        Self { key, weight, places: BTreeMap::new(), counts: Vec::new(), values: Vec::new() }
    }
}
