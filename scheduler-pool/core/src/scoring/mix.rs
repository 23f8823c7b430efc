//! The card requests of a cell's tasks: each kind of task with its part of all. Fragmentation is measured against this
//! target workload ("Beware of Fragmentation", ATC 2023, section 4.1), taken from the cell's own jobs.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::filter::{CardAsk, Requirement, card_asks};
use crate::tables::{CellTables, Shape};

/// The parts sum to about this. A kind with less than one part is left out. Coarser parts make different nodes look
/// equal: with 128 parts the trace of the paper packs half a percentage point less.
const PARTS: u64 = 512;

/// A shape and its part of all tasks.
type Part = (Arc<Shape>, u64);

/// A kind of task that uses cards.
#[derive(Clone, Debug)]
pub(crate) struct Typical {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    pub cards: SmallVec<[CardAsk; 1]>,
    /// Its part of all tasks.
    pub part: u64,
}

/// The kinds of task that use cards, with their parts.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    pub tasks: Vec<Typical>,
    /// What it was made of. Mixes of equal parts are equal.
    made_of: Vec<Part>,
    kinds_version: usize,
}

impl PartialEq for Mix {
    fn eq(&self, other: &Self) -> bool {
        self.serves(&other.made_of, other.kinds_version)
    }
}

impl Mix {
    fn new(made_of: Vec<Part>, tables: &CellTables) -> Self {
        let typical = |(shape, part): &Part| {
            let demand = Requirement::of_resources(&shape.resources, &tables.nodes).demand;
            Typical {
                cpu_millis: shape.resources.cpu_millis,
                memory_bytes: shape.resources.memory_bytes,
                cards: card_asks(&demand, &shape.device_selectors, &tables.nodes),
                part: *part,
            }
        };
        let tasks: Vec<Typical> =
            made_of.iter().map(typical).filter(|typical| !typical.cards.is_empty()).collect();
        Self { tasks, made_of, kinds_version: tables.nodes.kinds_version() }
    }

    fn serves(&self, made_of: &[Part], kinds_version: usize) -> bool {
        let same = |(left, right): (&Part, &Part)| {
            left.1 == right.1 && (Arc::ptr_eq(&left.0, &right.0) || left.0 == right.0)
        };
        self.kinds_version == kinds_version
            && self.made_of.len() == made_of.len()
            && self.made_of.iter().zip(made_of).all(same)
    }
}

/// The mix of the last plan, for the next one.
#[derive(Debug, Default)]
pub(crate) struct MixCache(Option<Arc<Mix>>);

impl MixCache {
    /// The mix of these tables; `None` if no task asks for cards.
    pub(crate) fn mix(&mut self, tables: &CellTables) -> Option<Arc<Mix>> {
        let made_of = parts(tables);
        if made_of.is_empty() {
            return None;
        }
        let kinds_version = tables.nodes.kinds_version();
        let known = self.0.take().filter(|known| known.serves(&made_of, kinds_version));
        let mix = known.unwrap_or_else(|| Arc::new(Mix::new(made_of, tables)));
        self.0 = Some(Arc::clone(&mix));
        Some(mix)
    }
}

/// The shapes that use cards, each with its part, in the order of their numbers.
fn parts(tables: &CellTables) -> Vec<Part> {
    let weighed = tables.shapes.weighed();
    let total: u64 = weighed.clone().map(|(_, tasks)| tasks).sum();
    let part = |tasks: u64| {
        let part = (u128::from(tasks) * u128::from(PARTS) + u128::from(total / 2)) / u128::from(total.max(1));
        u64::try_from(part).unwrap_or(0)
    };
    let parts = weighed.map(|(shape, tasks)| (Arc::clone(shape), part(tasks)));
    parts.filter(|&(_, part)| part > 0).collect()
}
