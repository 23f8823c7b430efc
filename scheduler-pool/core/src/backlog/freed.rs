//! Checks of freed nodes for unschedulable requests.

use borough_model::Resources;

use crate::filter::{Requirement, fits};
use crate::overlay::PlanOverlay;
use crate::preempt::{Evictions, NodeAnswer, PreemptionRequest, TASKS_EXAMINED_MAX, offer_of};
use crate::tables::{CellTables, Shape, StretchCapacity};

/// After this many checks, a shape that is small enough counts as fitting without a check.
const CHECKS_MAX: usize = 100_000;

/// The freed nodes as of one moment.
pub(super) struct FreedNodes<'a> {
    tables: &'a CellTables,
    nodes: &'a [u32],
    pub now_ms: i64,
    overlay: PlanOverlay<'a>,
    /// The most that any of them has free.
    most: StretchCapacity,
    /// How many times a node was checked for a shape.
    checks: usize,
}

impl<'a> FreedNodes<'a> {
    pub(super) fn new(tables: &'a CellTables, nodes: &'a [u32], now_ms: i64) -> Self {
        let most = tables.nodes.free_most(nodes.iter().copied());
        Self { tables, nodes, now_ms, overlay: PlanOverlay::new(tables), most, checks: 0 }
    }

    /// How many times a node was checked for a shape.
    pub(super) fn checks(&self) -> u64 {
        self.checks as u64
    }

    /// Returns true if a task of a shape fits one of them.
    pub(super) fn fit(&mut self, shape: &Shape) -> bool {
        let Resources { cpu_millis, memory_bytes, .. } = shape.resources;
        if self.nodes.is_empty() || cpu_millis > self.most.cpu_millis || memory_bytes > self.most.memory_bytes
        {
            return false;
        }
        if self.checks > CHECKS_MAX {
            return true;
        }
        let requirement = Requirement::of(shape, self.tables);
        let fits = |&node: &u32| fits(&self.overlay, &requirement, node, self.now_ms);
        let found = self.nodes.iter().position(fits);
        self.checks += found.map_or(self.nodes.len(), |found| found + 1);
        found.is_some()
    }

    /// Returns true if evictions below a priority could let a task of a shape onto one of them.
    pub(super) fn evictions_help(&mut self, shape: &Shape, below: u32) -> bool {
        if below == 0 || self.nodes.is_empty() {
            return false;
        }
        let requirement = Requirement::of(shape, self.tables);
        let mut overlay = PlanOverlay::new(self.tables);
        let mut evictions = Evictions::default();
        let fresh_ms = self.tables.settings.fresh_start_ms();
        let ask = PreemptionRequest {
            requirement: &requirement,
            below,
            claim: None,
            now_ms: self.now_ms,
            fresh_ms,
        };
        self.nodes.iter().any(|&node| {
            let answer = offer_of(&mut overlay, &mut evictions, &ask, node);
            evictions.examined > TASKS_EXAMINED_MAX || !matches!(answer, NodeAnswer::Never)
        })
    }
}
