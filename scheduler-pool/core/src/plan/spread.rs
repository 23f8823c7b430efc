//! Spread over failure domains: how many tasks of a job stand in each, while a plan adds to them.

use std::collections::BTreeMap;

use borough_model::JobId;
use smallvec::SmallVec;

use crate::seed::job_seed;
use crate::snapshot::{JobEntry, NodeTable, Snapshot};

/// The domains of a node, one place per attribute that the job spreads over.
pub(crate) type Domains = SmallVec<[u32; 2]>;

/// Stands for the value of nodes that lack the attribute: together they are one domain.
const VALUE_NONE: u32 = u32::MAX;

/// One attribute that a job spreads over.
#[derive(Clone, Debug)]
struct Attribute {
    key: Option<u32>,
    weight: i64,
    /// Values seen, each with its place in `counts`.
    places: BTreeMap<u32, u32>,
    counts: Vec<u32>,
}

/// A job under a plan.
#[derive(Clone, Debug)]
pub(crate) struct JobPlan {
    pub seed: u64,
    attributes: Vec<Attribute>,
}

impl JobPlan {
    pub fn new(snapshot: &Snapshot, job: JobId, seed: u64) -> Option<Self> {
        let entry = snapshot.jobs.get(&job)?;
        let (row, spec) = (entry.row.as_ref()?, entry.spec_current()?);
        let spread = JobEntry::spread_of(spec, &snapshot.settings.failure_domains);
        let attribute = |(key, weight): (String, u32)| Attribute {
            key: snapshot.nodes.texts.known(&key),
            weight: i64::from(weight),
            places: BTreeMap::new(),
            counts: Vec::new(),
        };
        let attributes = spread.into_iter().map(attribute).collect();
        let mut plan = Self { seed: job_seed(seed, &row.user, &row.name), attributes };
        for (&node, &count) in &entry.placed {
            if let Some(node) = snapshot.nodes.ordinal(node) {
                let domains = plan.domains(&snapshot.nodes, node);
                plan.counted(&domains, |known| known.saturating_add(count));
            }
        }
        Some(plan)
    }

    /// Whether it spreads over anything.
    pub fn spreads(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// The domains of a node.
    pub fn domains(&mut self, nodes: &NodeTable, node: u32) -> Domains {
        let place = |attribute: &mut Attribute| {
            let value = attribute.key.and_then(|key| nodes.attribute(node, key)).unwrap_or(VALUE_NONE);
            let counts = &mut attribute.counts;
            *attribute.places.entry(value).or_insert_with(|| {
                counts.push(0);
                u32::try_from(counts.len() - 1).unwrap_or(u32::MAX)
            })
        };
        self.attributes.iter_mut().map(place).collect()
    }

    /// Changes the number of tasks in each of the domains.
    pub fn counted(&mut self, domains: &Domains, change: impl Fn(u32) -> u32) {
        for (attribute, &place) in self.attributes.iter_mut().zip(domains) {
            if let Some(count) = attribute.counts.get_mut(place as usize) {
                *count = change(*count);
            }
        }
    }

    /// What counts against a node in these domains: each sibling there, with the weight of the attribute.
    pub fn crowding(&self, domains: &Domains) -> i64 {
        let crowd = |(attribute, &place): (&Attribute, &u32)| {
            attribute.weight * i64::from(attribute.counts.get(place as usize).copied().unwrap_or(0))
        };
        self.attributes.iter().zip(domains).map(crowd).sum()
    }
}
