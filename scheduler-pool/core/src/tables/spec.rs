//! What planning reads of a job's spec. A worker keeps nothing else of it, and equal ones only once. Most of the jobs
//! that have one task are equal here, because names, commands and probes decide no placement.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use borough_model::disruption::EvictionBudget;
use borough_model::job::{
    Affinity, After, Constraint, GangTopology, JobKind, PortSpec, PreemptionSpec, Spread, Toleration,
};
use borough_model::node::{CardSelector, Within};
use borough_model::task::{leave_asked_ms, leave_due_after_ms};
use borough_model::{JobSpec, Name, Resources};

use crate::profile::ScoringProfile;

/// The parts of a job's spec that decide where its tasks run, and which tasks they evict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanSpec {
    pub(crate) kind: JobKind,
    pub(crate) min_member: u32,
    pub(crate) after: Vec<After>,
    pub(crate) constraints: Vec<Constraint>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) spread: Vec<Spread>,
    pub(crate) affinity: Vec<Affinity>,
    pub(crate) labels: BTreeMap<String, String>,
    /// The scheduler that the job names.
    pub(crate) scheduler: Option<Name>,
    /// The profile that scores its nodes; `None` for the cell's, also if this release does not know the named one.
    pub(crate) profile: Option<ScoringProfile>,
    pub(crate) preemption: Option<PreemptionSpec>,
    /// How many of its tasks evictions should leave without a place.
    pub(crate) evictions: EvictionBudget,
    topology: Option<GangTopology>,
    pub(crate) roles: Vec<PlanRole>,
    /// What tasks without a role or override ask for, with their helpers.
    pub(crate) resources: Resources,
    /// What tasks with an override ask for, if their override says it.
    pub(crate) resources_own: BTreeMap<u32, Resources>,
    pub(crate) device_selectors: BTreeMap<String, CardSelector>,
    pub(crate) within: Option<Within>,
    pub(crate) exclusive_cores: bool,
    /// Whether it runs until somebody stops it.
    pub(crate) is_endless: bool,
    pub(crate) packages: Vec<String>,
    pub(crate) ports: Vec<PortSpec>,
    /// What its tasks take of allocs, if they are in some: `resources` and `resources_own` are nothing then.
    in_alloc: Option<Box<AllocDemand>>,
    /// Milliseconds that a task may take to stop: the drain delay and the grace.
    leave_ms: u64,
}

/// What the tasks of a job take of allocs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AllocDemand {
    resources: Resources,
    own: BTreeMap<u32, Resources>,
}

/// A role, as planning reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlanRole {
    pub count: u32,
    pub min_member: u32,
    /// What its tasks ask for, if they differ from the job's.
    pub resources: Option<Resources>,
}

impl PlanSpec {
    /// The planning part of a spec.
    pub fn of(spec: &JobSpec) -> Self {
        let own = |(&index, own): (&u32, &borough_model::job::TaskOverride)| {
            own.resources.as_ref().map(|resources| (index, spec.with_helpers(resources).into_owned()))
        };
        let roles = spec.roles().iter().map(|role| PlanRole {
            count: role.count,
            min_member: role.min_member,
            resources: role.task.resources.as_ref().map(|own| spec.with_helpers(own).into_owned()),
        });
        let asked = AllocDemand {
            resources: spec.with_helpers(&spec.task.resources).into_owned(),
            own: spec.overrides.iter().filter_map(own).collect(),
        };
        // The node and the shares of queues have given it to the alloc.
        let (resources, resources_own, in_alloc) = match &spec.alloc_set {
            Some(_) => (Resources::default(), BTreeMap::new(), Some(Box::new(asked))),
            None => (asked.resources, asked.own, None),
        };
        Self {
            kind: spec.kind,
            is_endless: spec.restart.is_endless(),
            min_member: spec.min_member,
            after: spec.after.clone(),
            constraints: spec.constraints_in_force().collect(),
            tolerations: spec.tolerations.clone(),
            spread: spec.spread.clone(),
            affinity: spec.affinity.clone(),
            labels: spec.labels.clone(),
            scheduler: spec.scheduler.clone(),
            profile: spec.profile.as_deref().and_then(|profile| profile.parse().ok()),
            preemption: spec.preemption,
            evictions: EvictionBudget::of(spec),
            topology: spec.gang_topology().cloned(),
            roles: roles.collect(),
            resources,
            resources_own,
            in_alloc,
            device_selectors: spec.task.device_selectors.clone(),
            within: spec.task.within_in_force(),
            exclusive_cores: spec.task.exclusive_cores,
            packages: spec.task.packages.clone(),
            ports: spec.task.ports.clone(),
            leave_ms: leave_asked_ms(spec),
        }
    }

    /// The limit of the failure domains of the gang, if any.
    pub(crate) fn gang_topology(&self) -> Option<&GangTopology> {
        self.topology.as_ref()
    }

    /// As [`JobSpec::is_gang`].
    pub(crate) fn is_gang(&self) -> bool {
        self.min_member > 1 || self.roles.iter().any(|role| role.min_member > 0)
    }

    /// The roles with the indexes of their tasks.
    pub(crate) fn role_ranges(&self) -> impl Iterator<Item = (&PlanRole, Range<u32>)> {
        let mut first = 0u32;
        self.roles.iter().map(move |role| {
            let range = first..first.saturating_add(role.count);
            first = range.end;
            (role, range)
        })
    }

    /// As [`JobSpec::minimums`].
    pub(crate) fn minimums(&self, count: u32) -> Vec<(Range<u32>, u32)> {
        if self.roles.is_empty() {
            return vec![(0..count, self.min_member)];
        }
        self.role_ranges().map(|(role, range)| (range, role.min_member)).collect()
    }

    /// As [`JobSpec::resources_for`].
    pub(crate) fn resources_for(&self, index: u32) -> &Resources {
        let of_role = || {
            let mut ranges = self.role_ranges();
            let (role, _) = ranges.find(|(_, range)| range.contains(&index))?;
            role.resources.as_ref()
        };
        self.resources_own.get(&index).or_else(of_role).unwrap_or(&self.resources)
    }

    /// What a task takes of an alloc; `None`: it has a place of its own.
    pub(crate) fn alloc_resources_for(&self, index: u32) -> Option<&Resources> {
        let in_alloc = self.in_alloc.as_deref()?;
        Some(in_alloc.own.get(&index).unwrap_or(&in_alloc.resources))
    }

    /// As [`borough_model::task::leave_due_ms`].
    pub(crate) fn leave_due_ms(&self, since_ms: i64) -> i64 {
        leave_due_after_ms(since_ms, self.leave_ms)
    }
}

/// The specs of all jobs, equal ones once, each with the number of its users.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanSpecs {
    users: BTreeMap<Arc<PlanSpec>, u32>,
}

impl PlanSpecs {
    /// The one copy of a spec. The caller becomes one of its users.
    pub(super) fn acquired(&mut self, spec: PlanSpec) -> Arc<PlanSpec> {
        let known = self.users.get_key_value(&spec).map(|(known, _)| Arc::clone(known));
        let spec = known.unwrap_or_else(|| Arc::new(spec));
        *self.users.entry(Arc::clone(&spec)).or_default() += 1;
        spec
    }

    /// Removes a user of a spec. The last one takes the spec with it.
    pub(super) fn released(&mut self, spec: &Arc<PlanSpec>) {
        let Some(users) = self.users.get_mut(spec) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.users.remove(spec);
        }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.users.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> JobSpec {
        let named = |text: &str| Name::new(text).unwrap();
        JobSpec::defaults(named("ann"), named(name), JobKind::Batch, vec!["/bin/true".to_owned()])
    }

    /// A million equal one-task jobs have one spec, and the last of them takes it along.
    #[test]
    fn equal_specs_are_kept_once_and_only_as_long_as_a_job_has_them() {
        let mut specs = PlanSpecs::default();
        let mut other = spec("second");
        other.task.command = vec!["/bin/false".to_owned()];
        other.task.environment.insert("A".to_owned(), "b".to_owned());
        let first = specs.acquired(PlanSpec::of(&spec("first")));
        let second = specs.acquired(PlanSpec::of(&other));
        assert!(Arc::ptr_eq(&first, &second));
        other.task.resources.cpu_millis += 1;
        let third = specs.acquired(PlanSpec::of(&other));
        assert_eq!(specs.count(), 2);
        specs.released(&first);
        specs.released(&third);
        assert_eq!(specs.count(), 1);
        specs.released(&second);
        assert_eq!(specs.count(), 0);
    }
}
