//! Constraints on attributes and labels.

use std::cmp::Ordering;

use borough_model::job::{Constraint, ConstraintOperator};
use smallvec::SmallVec;

use crate::tables::{NodeTable, Number, Texts};

/// A constraint with interned attribute and values.
#[derive(Clone, Debug)]
pub(crate) struct ConstraintReady {
    /// Its index among the constraints of the spec.
    pub position: usize,
    /// `None`: no node has the attribute.
    key: Option<u32>,
    operator: ConstraintOperator,
    /// The listed values that any node has.
    values: SmallVec<[u32; 4]>,
    number: Option<Number>,
}

impl ConstraintReady {
    pub(crate) fn of(constraint: &Constraint, position: usize, texts: &Texts) -> Self {
        Self {
            position,
            key: texts.known(&constraint.attribute),
            operator: constraint.operator,
            values: constraint.values.iter().filter_map(|value| texts.known(value)).collect(),
            number: constraint.values.first().and_then(|value| Number::parsed(value)),
        }
    }

    /// The only nodes that can meet it, if it lists values: one list of nodes per value.
    pub(crate) fn listed<'n>(&self, nodes: &'n NodeTable) -> Option<SmallVec<[&'n [u32]; 4]>> {
        if self.operator != ConstraintOperator::In {
            return None;
        }
        let Some(key) = self.key else { return Some(SmallVec::new()) };
        Some(self.values.iter().map(|&value| nodes.index.with_value(key, value)).collect())
    }

    /// Returns true if it depends on an attribute.
    pub(crate) fn looks_at(&self, key: u32) -> bool {
        self.key == Some(key)
    }

    /// Returns true if a node meets it.
    pub(crate) fn met(&self, nodes: &NodeTable, node: u32) -> bool {
        let value = self.key.and_then(|key| nodes.attribute(node, key));
        match self.operator {
            ConstraintOperator::In => value.is_some_and(|value| self.values.contains(&value)),
            ConstraintOperator::NotIn => value.is_none_or(|value| !self.values.contains(&value)),
            ConstraintOperator::Exists => value.is_some(),
            ConstraintOperator::Absent => value.is_none(),
            ConstraintOperator::GreaterThan => self.compares(nodes, value, Ordering::Greater),
            ConstraintOperator::LessThan => self.compares(nodes, value, Ordering::Less),
        }
    }

    fn compares(&self, nodes: &NodeTable, value: Option<u32>, ordering: Ordering) -> bool {
        let number = value.and_then(|value| nodes.texts.number(value));
        number.zip(self.number).is_some_and(|(number, bound)| number.compared(bound) == ordering)
    }
}
