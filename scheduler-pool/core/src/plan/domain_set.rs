//! Sets of failure domains that tasks of a plan are kept to, and the shapes of classes in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::job::{Constraint, ConstraintOperator};

use super::equivalence::PlanOf;
use crate::tables::{CellTables, Shape, ShapeId};

/// Shapes of a domain set are numbered from here: no cell has as many.
const SHAPES_FIRST: ShapeId = 1 << 31;

/// The number of a set of domains that tasks are kept to: an index into [`DomainSets::known`].
pub(super) type DomainSetId = u32;

/// Sets of domains that tasks of a plan are kept to.
#[derive(Default)]
pub(super) struct DomainSets {
    /// The attribute and its values; none: any value.
    known: Vec<(u32, Vec<u32>)>,
    /// The search of a class in a domain set, by the search of the class anywhere.
    plans: BTreeMap<(usize, DomainSetId), PlanOf>,
    shapes: Vec<Arc<Shape>>,
}

impl DomainSets {
    /// The number of a set of domains.
    pub fn of(&mut self, key: u32, mut values: Vec<u32>) -> DomainSetId {
        values.sort_unstable();
        let domain_set = (key, values);
        let known = self.known.iter().position(|known| *known == domain_set);
        let at = known.unwrap_or_else(|| {
            self.known.push(domain_set);
            self.known.len() - 1
        });
        DomainSetId::try_from(at).unwrap_or(DomainSetId::MAX)
    }

    /// The attribute that names the domains of a set.
    pub fn key(&self, domain_set: DomainSetId) -> Option<u32> {
        self.known.get(domain_set as usize).map(|&(key, _)| key)
    }

    /// The shape of a class in a domain set; `None` for the number of any other shape.
    pub fn shape(&self, id: ShapeId) -> Option<&Arc<Shape>> {
        self.shapes.get(id.checked_sub(SHAPES_FIRST)? as usize)
    }

    /// Whether a shape is that of a class in a domain set: what is found out about it is of no use to later plans.
    pub fn has(id: ShapeId) -> bool {
        id >= SHAPES_FIRST
    }

    /// The search in a domain set of a class whose search is `anywhere`, and whether it is a new one, with the number
    /// `next`.
    pub fn plan_of(
        &mut self,
        tables: &CellTables,
        anywhere: PlanOf,
        domain_set: DomainSetId,
        next: usize,
    ) -> Option<(PlanOf, bool)> {
        if let Some(&known) = self.plans.get(&(anywhere.number, domain_set)) {
            return Some((known, false));
        }
        let mut shape: Shape = (**tables.shapes.get(anywhere.shape)?).clone();
        let (key, values) = self.known.get(domain_set as usize)?;
        let texts = &tables.nodes.texts;
        let operator = if values.is_empty() { ConstraintOperator::Exists } else { ConstraintOperator::In };
        shape.constraints.push(Constraint {
            attribute: texts.text(*key).unwrap_or_default().to_owned(),
            operator,
            values: values.iter().filter_map(|&value| texts.text(value)).map(str::to_owned).collect(),
            preference: None,
        });
        let shape_id = SHAPES_FIRST.saturating_add(u32::try_from(self.shapes.len()).ok()?);
        self.shapes.push(Arc::new(shape));
        let made = PlanOf { number: next, shape: shape_id, ..anywhere };
        self.plans.insert((anywhere.number, domain_set), made);
        Some((made, true))
    }
}
