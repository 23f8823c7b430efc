//! Shapes: everything that a task asks of a node. Equal tasks of all jobs share one shape, so findings about it (that
//! it fits nowhere, say) serve all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::job::{Band, Constraint, ConstraintOperator, JobKind, Toleration, tolerations_in_force};
use borough_model::node::{CardSelector, Within};
use borough_model::{JobId, Resources};

use super::PlanSpec;
use super::columns::fixed_amounts;
use super::demand::CellDemand;
use crate::profile::ScoringProfile;
use crate::seed::{bytes_mixed, mixed};

const SEED_OF_SHAPES: u64 = 0x7368_6170_6573;

/// The number of a shape.
pub(crate) type ShapeId = u32;

/// Everything a task asks of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub resources: Resources,
    /// The accepted devices, by kind.
    pub device_selectors: BTreeMap<String, CardSelector>,
    /// Whether it must stay within one socket or NUMA domain.
    pub within: Option<Within>,
    /// Whether it gets exclusive cores there.
    pub exclusive_cores: bool,
    pub packages: Vec<String>,
    /// Fixed port numbers, ascending.
    pub ports_fixed: Vec<u16>,
    /// The number of ports that the scheduler chooses.
    pub ports_dynamic: u16,
    /// Hard and soft constraints, in the order of the spec.
    pub constraints: Vec<Constraint>,
    /// Tolerations of its spec and of its band.
    pub tolerations: Vec<Toleration>,
    /// The profile that scores its nodes; `None` for the cell's.
    pub profile: Option<ScoringProfile>,
    /// The job that owns the shape. Set if the job has rules between tasks, because such a shape is never shared.
    pub job: Option<JobId>,
    /// Whether it is of a daemon job: each task is for one node, which may be cordoned.
    pub daemon: bool,
    /// Whether it is of a job in an alloc set: each task goes where an alloc is.
    pub in_alloc: bool,
}

impl Shape {
    /// The shape of one task of a job. For an index that no task has, the shape of tasks without an override.
    pub(crate) fn of(spec: &PlanSpec, index: u32, band: Band, job: Option<JobId>) -> Self {
        let mut ports_fixed: Vec<u16> = spec.ports.iter().filter_map(|port| port.number).collect();
        ports_fixed.sort_unstable();
        let ports_dynamic = spec.ports.len() - ports_fixed.len();
        Self {
            resources: spec.resources_for(index).clone(),
            device_selectors: spec.device_selectors.clone(),
            within: spec.within,
            exclusive_cores: spec.exclusive_cores,
            packages: spec.packages.clone(),
            ports_fixed,
            ports_dynamic: u16::try_from(ports_dynamic).unwrap_or(u16::MAX),
            constraints: spec.constraints.clone(),
            tolerations: tolerations_in_force(&spec.tolerations, band),
            profile: spec.profile,
            job,
            daemon: spec.kind == JobKind::Daemon,
            in_alloc: spec.alloc_resources_for(index).is_some(),
        }
    }

    /// The shape of the tasks of a role; `index` is one of them.
    pub(crate) fn of_role(spec: &PlanSpec, index: u32, band: Band, job: Option<JobId>) -> Self {
        let mut ranges = spec.role_ranges();
        let role =
            ranges.find(|(_, range)| range.contains(&index)).and_then(|(role, _)| role.resources.clone());
        let plain = Self::of(spec, u32::MAX, band, job);
        Self { resources: role.unwrap_or(plain.resources), ..plain }
    }

    /// Returns true if it asks the same of a node as another, apart from rules between tasks.
    pub(crate) fn asks_as(&self, other: &Self) -> bool {
        let asked = |shape: &Self| Self { job: None, ..shape.clone() };
        asked(self) == asked(other)
    }

    /// The seed of its random choices. It depends on the request and not on the job, and is the same on every machine
    /// and in every release. So a dry run of a new job chooses as the job will.
    pub(crate) fn seed(&self) -> u64 {
        let Resources { device_millis, .. } = &self.resources;
        let fixed = fixed_amounts(&self.resources).into_iter().chain([u64::from(self.ports_dynamic)]);
        let numbers = fixed.chain(self.ports_fixed.iter().map(|&port| u64::from(port)));
        let seed = numbers.fold(SEED_OF_SHAPES, |seed, number| mixed(seed ^ number));
        let devices = device_millis
            .iter()
            .fold(seed, |seed, (kind, &amount)| bytes_mixed(mixed(seed ^ amount), kind.bytes()));
        self.constraints.iter().fold(devices, |seed, constraint| {
            let Constraint { attribute, operator, values, preference } = constraint;
            let seed = bytes_mixed(seed ^ u64::from(operator_number(*operator)), attribute.bytes());
            let seed = values.iter().fold(seed, |seed, value| bytes_mixed(seed, value.bytes()));
            mixed(seed ^ u64::from(preference.unwrap_or(0)))
        })
    }

    /// Returns true if it needs any port, so that a port that has cooled down could help it.
    pub(crate) fn ports_any(&self) -> bool {
        self.ports_dynamic > 0 || !self.ports_fixed.is_empty()
    }
}

#[derive(Clone, Debug)]
struct ShapeEntry {
    shape: Arc<Shape>,
    seed: u64,
    jobs: u32,
    /// How many tasks jobs want of it. Counted only for shapes with devices.
    tasks: u64,
}

/// The shapes in use, with reference counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    numbers: BTreeMap<Arc<Shape>, ShapeId>,
    entries: Vec<Option<ShapeEntry>>,
    vacant: Vec<ShapeId>,
    /// Shapes with devices of which jobs want tasks.
    weighed: BTreeSet<ShapeId>,
    /// What jobs want of all shapes.
    demand: CellDemand,
}

impl Shapes {
    pub(crate) fn get(&self, id: ShapeId) -> Option<&Arc<Shape>> {
        self.entries.get(id as usize)?.as_ref().map(|entry| &entry.shape)
    }

    /// See [`Shape::seed`].
    pub(crate) fn seed(&self, id: ShapeId) -> Option<u64> {
        self.entries.get(id as usize)?.as_ref().map(|entry| entry.seed)
    }

    /// The number of a shape. The caller becomes one of its users.
    pub(crate) fn acquired(&mut self, shape: Shape) -> ShapeId {
        if let Some(&id) = self.numbers.get(&shape) {
            if let Some(Some(entry)) = self.entries.get_mut(id as usize) {
                entry.jobs += 1;
            }
            return id;
        }
        let shape = Arc::new(shape);
        let entry = Some(ShapeEntry { shape: Arc::clone(&shape), seed: shape.seed(), jobs: 1, tasks: 0 });
        let id = match self.vacant.pop() {
            Some(id) => {
                if let Some(slot) = self.entries.get_mut(id as usize) {
                    *slot = entry;
                }
                id
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(shape, id);
        id
    }

    /// Changes how many tasks jobs want of a shape. Only shapes that ask for devices keep a count of their own.
    pub(crate) fn weigh(&mut self, id: ShapeId, before: u32, after: u32) {
        let Some(Some(entry)) = self.entries.get_mut(id as usize) else { return };
        self.demand.follow(&entry.shape.resources, before, after);
        if entry.shape.resources.device_millis.is_empty() {
            return;
        }
        entry.tasks = entry.tasks.saturating_add(u64::from(after)).saturating_sub(u64::from(before));
        if entry.tasks > 0 {
            self.weighed.insert(id);
        } else {
            self.weighed.remove(&id);
        }
    }

    /// What jobs want of all shapes.
    pub(crate) fn demand(&self) -> &CellDemand {
        &self.demand
    }

    /// Shapes with devices, with the number of tasks that jobs want of them.
    pub(crate) fn weighed(&self) -> impl Iterator<Item = (&Arc<Shape>, u64)> + Clone {
        let entries = self.weighed.iter().filter_map(|&id| self.entries.get(id as usize)?.as_ref());
        entries.map(|entry| (&entry.shape, entry.tasks))
    }

    /// Removes a user of a shape. Returns true if it was the last, and the number is free again.
    pub(crate) fn released(&mut self, id: ShapeId) -> bool {
        let Some(slot) = self.entries.get_mut(id as usize) else { return false };
        let Some(entry) = slot else { return false };
        entry.jobs = entry.jobs.saturating_sub(1);
        if entry.jobs > 0 {
            return false;
        }
        if let Some(entry) = slot.take() {
            self.numbers.remove(&entry.shape);
        }
        self.vacant.push(id);
        true
    }
}
/// The number of an operator in seeds and token names. It must never change.
pub(crate) fn operator_number(operator: ConstraintOperator) -> u8 {
    match operator {
        ConstraintOperator::In => 0,
        ConstraintOperator::NotIn => 1,
        ConstraintOperator::Exists => 2,
        ConstraintOperator::Absent => 3,
        ConstraintOperator::GreaterThan => 4,
        ConstraintOperator::LessThan => 5,
    }
}
