//! A shape prepared for filters: dimensions, attributes and values are numbers.

use borough_model::Resources;
use smallvec::SmallVec;

use super::FilterReason;
use super::card::{CardAsk, card_asks};
use super::constraint::ConstraintReady;
use super::package::Packages;
use super::rule::Rules;
use super::taint::TaintsMet;
use super::topology::WithinAsk;
use crate::tables::{CellTables, NodeGate, NodeTable, Shape, fixed_amounts};

/// The request of a task, with interned dimensions and attributes.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    /// The requested amounts above zero, by dimension.
    pub demand: SmallVec<[(usize, u64); 6]>,
    /// The requests for cards: those kinds of `demand` that are devices.
    pub cards: SmallVec<[CardAsk; 1]>,
    /// The request for one socket or NUMA domain.
    pub within: Option<WithinAsk>,
    pub packages: Packages,
    /// The requested device kinds that no node has, with the amounts.
    pub missing: Vec<(String, u64)>,
    pub hard: Vec<ConstraintReady>,
    /// Soft constraints with their weights.
    pub soft: Vec<(ConstraintReady, u32)>,
    pub ports_fixed: SmallVec<[u16; 4]>,
    pub ports_dynamic: u16,
    pub taints: TaintsMet,
    pub rules: Rules,
    /// Whether a cordoned node takes it too: it is a task of a daemon job, which runs there or nowhere.
    pub cordoned: bool,
}

impl Requirement {
    pub(crate) fn of(shape: &Shape, tables: &CellTables) -> Self {
        let nodes = &tables.nodes;
        let mut requirement = Self::of_resources(&shape.resources, nodes);
        requirement.cards = card_asks(&requirement.demand, &shape.device_selectors, nodes);
        requirement.within = WithinAsk::of(shape, nodes);
        requirement.packages = Packages::of(&shape.packages, &nodes.texts);
        requirement.taints = TaintsMet::of(&shape.tolerations, &nodes.taints);
        requirement.rules = Rules::of(shape.job, tables);
        // What an alloc holds is given already.
        requirement.cordoned = shape.daemon || shape.in_alloc;
        requirement.ports_fixed = shape.ports_fixed.iter().copied().collect();
        requirement.ports_dynamic = shape.ports_dynamic;
        for (position, constraint) in shape.constraints.iter().enumerate() {
            let ready = ConstraintReady::of(constraint, position, &nodes.texts);
            match constraint.preference {
                None => requirement.hard.push(ready),
                Some(weight) => requirement.soft.push((ready, weight)),
            }
        }
        requirement
    }

    /// A request for resources alone.
    pub(crate) fn of_resources(resources: &Resources, nodes: &NodeTable) -> Self {
        let fixed = fixed_amounts(resources);
        let mut demand: SmallVec<[(usize, u64); 6]> =
            fixed.into_iter().enumerate().filter(|&(_, amount)| amount > 0).collect();
        let mut missing = Vec::new();
        for (kind, &amount) in resources.device_millis.iter().filter(|&(_, &amount)| amount > 0) {
            match nodes.kind_dimension(kind) {
                Some(dimension) => demand.push((dimension, amount)),
                None => missing.push((kind.clone(), amount)),
            }
        }
        Self {
            demand,
            cards: SmallVec::new(),
            within: None,
            packages: Packages::default(),
            missing,
            hard: Vec::new(),
            soft: Vec::new(),
            ports_fixed: SmallVec::new(),
            ports_dynamic: 0,
            taints: TaintsMet::default(),
            rules: Rules::default(),
            cordoned: false,
        }
    }

    /// Returns true if the state of a node lets the task in.
    pub(crate) fn admits(&self, gate: NodeGate) -> bool {
        gate == NodeGate::Open || (self.cordoned && gate == NodeGate::Cordoned)
    }

    /// Returns true if a change of this attribute on a node may change what the tasks find there, apart from rules
    /// between tasks.
    pub(crate) fn looks_at(&self, key: u32) -> bool {
        self.hard.iter().any(|constraint| constraint.looks_at(key))
            || self.soft.iter().any(|(constraint, _)| constraint.looks_at(key))
            || self.packages.looks_at(key)
    }

    /// Returns true if the scheduler chooses cards, a socket or a NUMA domain for it.
    pub(crate) fn chooses(&self) -> bool {
        !self.cards.is_empty() || self.within.is_some()
    }

    /// The request for cards that a refusal is about.
    pub(crate) fn card_ask(&self, refusal: FilterReason) -> Option<&CardAsk> {
        match refusal {
            FilterReason::CardSelector(number)
            | FilterReason::CardNever(number)
            | FilterReason::CardBusy(number) => self.cards.get(usize::from(number)),
            _ => None,
        }
    }

    /// The requested amount of a dimension.
    pub(crate) fn amount(&self, dimension: usize) -> u64 {
        self.demand.iter().find(|&&(asked, _)| asked == dimension).map_or(0, |&(_, amount)| amount)
    }
}
