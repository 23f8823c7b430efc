//! Sets of failure domains that tasks of a plan are restricted to, and the shapes of classes in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::job::{Constraint, ConstraintOperator};

use super::equivalence::SearchKey;
use crate::tables::{CellTables, Shape, ShapeId};

/// Shapes in a domain set are numbered from here. No cell has as many shapes.
const SHAPES_FIRST: ShapeId = 1 << 31;

/// The number of a domain set: an index into [`DomainSets::known`].
pub(super) type DomainSetId = u32;

/// The domain sets of a plan.
#[derive(Default)]
pub(super) struct DomainSets {
    /// The attribute and its values. No values means any value.
    known: Vec<(u32, Vec<u32>)>,
    /// The search of a class in a domain set, by the number of its search over all domains.
    plans: BTreeMap<(usize, DomainSetId), SearchKey>,
    shapes: Vec<Arc<Shape>>,
}

impl DomainSets {
    /// The number of a set of domains.
    pub(super) fn of(&mut self, key: u32, mut values: Vec<u32>) -> DomainSetId {
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
    pub(super) fn key(&self, domain_set: DomainSetId) -> Option<u32> {
        self.known.get(domain_set as usize).map(|&(key, _)| key)
    }

    /// The shape of a class in a domain set; `None` if the number is that of an ordinary shape.
    pub(super) fn shape(&self, id: ShapeId) -> Option<&Arc<Shape>> {
        self.shapes.get(id.checked_sub(SHAPES_FIRST)? as usize)
    }

    /// Returns true if a shape belongs to a domain set. Later plans have no use for its candidates.
    pub(super) fn has(id: ShapeId) -> bool {
        id >= SHAPES_FIRST
    }

    /// The search of a class in a domain set, and whether it is new. `anywhere` is its search over all domains. A new
    /// search gets the number `next`.
    pub(super) fn search_key(
        &mut self,
        tables: &CellTables,
        anywhere: SearchKey,
        domain_set: DomainSetId,
        next: usize,
    ) -> Option<(SearchKey, bool)> {
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
        let made = SearchKey { number: next, shape: shape_id, ..anywhere };
        self.plans.insert((anywhere.number, domain_set), made);
        Some((made, true))
    }
}
