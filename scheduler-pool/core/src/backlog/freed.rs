//! Nodes that got something back, held against requests that fit nowhere.

use std::collections::BTreeSet;

use borough_model::Resources;

use crate::filter::{Requirement, fits};
use crate::overlay::PlanOverlay;
use crate::preempt::{Evictions, NodeAnswer, PreemptionRequest, TASKS_EXAMINED_MAX, offer_of};
use crate::tables::{CellTables, Shape, StretchCapacity};

/// After so many checks of freed nodes against unschedulable shapes, a shape that is small enough counts as fitting.
const CHECKS_MAX: usize = 100_000;

/// Freed nodes as of one moment.
pub(super) struct FreedNodes<'a> {
    tables: &'a CellTables,
    nodes: &'a BTreeSet<u32>,
    pub now_ms: i64,
    work: PlanOverlay<'a>,
    /// The most that is free on any of them.
    most: StretchCapacity,
    /// Nodes that were held against shapes.
    checks: usize,
}

impl<'a> FreedNodes<'a> {
    pub fn new(tables: &'a CellTables, nodes: &'a BTreeSet<u32>, now_ms: i64) -> Self {
        let most = tables.nodes.room_most(nodes.iter().copied());
        Self { tables, nodes, now_ms, work: PlanOverlay::new(tables), most, checks: 0 }
    }

    /// Nodes that were held against shapes.
    pub fn checks(&self) -> u64 {
        self.checks as u64
    }

    /// Whether a task of a shape fits on one of them.
    pub fn fit(&mut self, shape: &Shape) -> bool {
        let Resources { cpu_millis, memory_bytes, .. } = shape.resources;
        if self.nodes.is_empty() || cpu_millis > self.most.cpu_millis || memory_bytes > self.most.memory_bytes
        {
            return false;
        }
        if self.checks > CHECKS_MAX {
            return true;
        }
        let requirement = Requirement::of(shape, self.tables);
        let fits = |&node: &u32| fits(&self.work, &requirement, node, self.now_ms);
        let found = self.nodes.iter().position(fits);
        self.checks += found.map_or(self.nodes.len(), |found| found + 1);
        found.is_some()
    }

    /// Whether evictions below a priority on one of them would let in a task of a shape.
    pub fn evictions_help(&mut self, shape: &Shape, below: u32) -> bool {
        if below == 0 || self.nodes.is_empty() {
            return false;
        }
        let requirement = Requirement::of(shape, self.tables);
        let mut work = PlanOverlay::new(self.tables);
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
            let answer = offer_of(&mut work, &mut evictions, &ask, node);
            evictions.examined > TASKS_EXAMINED_MAX || !matches!(answer, NodeAnswer::Never)
        })
    }
}
