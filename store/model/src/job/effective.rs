//! The spec of a single task after all overrides, and the spec of a job as it is in force.

use std::borrow::Cow;

use crate::job::{JobKind, JobRow, JobSpec, TaskOverride, TaskSpec, defaults, resources_with_helpers};
use crate::resource::Resources;

impl JobSpec {
    /// The spec of one task: that of the job, then the override of its role, then that of its index.
    pub fn for_task(&self, index: u32) -> TaskSpec {
        let mut task = self.task.clone();
        if let Some((role, number)) = self.role_of(index) {
            overridden(&mut task, &role.task);
            task.environment.insert("BOROUGH_ROLE".to_owned(), role.name.to_string());
            task.environment.insert("BOROUGH_ROLE_INDEX".to_owned(), number.to_string());
        }
        if let Some(own) = self.overrides.get(&index) {
            overridden(&mut task, own);
        }
        task
    }

    /// The weight of [`JobSpec::for_task`], without the cost of the rest.
    pub fn weight_for(&self, index: u32) -> u32 {
        let own = self.overrides.get(&index).and_then(|own| own.weight);
        let of_role = || self.role_of(index).and_then(|(role, _)| role.task.weight);
        own.or_else(of_role).unwrap_or(self.task.weight)
    }

    /// What a node holds for an attempt of one task: the resources of [`JobSpec::for_task`] with its helpers, without
    /// the cost of the rest.
    pub fn resources_for(&self, index: u32) -> Cow<'_, Resources> {
        let own = self.overrides.get(&index).and_then(|own| own.resources.as_ref());
        let of_role = || self.role_of(index).and_then(|(role, _)| role.task.resources.as_ref());
        self.with_helpers(own.or_else(of_role).unwrap_or(&self.task.resources))
    }

    /// What a node holds for an attempt with a main command that requests `main`.
    pub fn with_helpers<'r>(&self, main: &'r Resources) -> Cow<'r, Resources> {
        match self.task.helpers.as_slice() {
            [] => Cow::Borrowed(main),
            helpers => Cow::Owned(resources_with_helpers(main, helpers)),
        }
    }

    /// The spec with the count and priority in force, which may have changed since its submission. The owner of a
    /// daemon job decides about no count.
    pub fn in_force(&self, row: &JobRow) -> Self {
        let count = if self.kind == JobKind::Daemon { self.count } else { row.owner_count() };
        Self { count, priority: row.priority, ..self.clone() }
    }

    /// How long its rollout, or a wait for it, goes on without progress, in milliseconds.
    pub fn progress_deadline_in_force(&self) -> u64 {
        self.progress_deadline_ms.unwrap_or(defaults::PROGRESS_DEADLINE_MS)
    }

    /// The spec without what its count does not allow: overrides of further tasks, and more canaries than tasks. A
    /// version is taken back to it although the count has changed since.
    #[must_use]
    pub fn fitted(mut self) -> Self {
        let count = self.count;
        if self.kind == JobKind::Daemon || count == 0 {
            return self;
        }
        self.overrides.retain(|index, _| *index < count);
        if let Some(update) = &mut self.update {
            update.canaries = update.canaries.min(count);
        }
        self
    }

    /// How many tasks a rollout runs beside the `count` of its owner. A gang runs only as it is, batch work serves
    /// nobody, and a node has one task of a daemon job.
    pub fn surge(&self, count: u32) -> u32 {
        if self.kind != JobKind::Service || self.keeps_together() {
            return 0;
        }
        self.update.map_or(0, |update| update.surge(count))
    }

    /// How many canaries a rollout begins with, if its owner wants `count` tasks.
    pub fn canaries(&self, count: u32) -> u32 {
        if self.kind != JobKind::Service || self.keeps_together() {
            return 0;
        }
        self.update.map_or(0, |update| update.canaries(count))
    }

    /// How many tasks run beside the `count` of its owner when a rollout begins: its canaries, or what surges.
    pub fn surge_first(&self, count: u32) -> u32 {
        match self.canaries(count) {
            0 => self.surge(count),
            canaries => canaries,
        }
    }

    /// Returns true if its tasks belong together as they are: a gang, or several roles.
    pub(super) fn keeps_together(&self) -> bool {
        self.is_gang() || !self.roles().is_empty()
    }

    /// Returns true if some of its tasks must fit together before any is placed.
    pub fn is_gang(&self) -> bool {
        self.min_member > 1 || self.roles().iter().any(|role| role.min_member > 0)
    }
}

fn overridden(task: &mut TaskSpec, own: &TaskOverride) {
    if let Some(command) = &own.command {
        task.command.clone_from(command);
    }
    task.command.extend(own.arguments.iter().cloned());
    task.environment.extend(own.environment.iter().map(|(name, value)| (name.clone(), value.clone())));
    if let Some(resources) = &own.resources {
        task.resources.clone_from(resources);
    }
    task.weight = own.weight.unwrap_or(task.weight);
}
