//! What a single task really runs, and a spec as it is in force.

use crate::job::{JobRow, JobSpec, TaskSpec};
use crate::resource::Resources;

impl JobSpec {
    /// The spec of one task: the job's, with the overrides of its index.
    pub fn for_task(&self, index: u32) -> TaskSpec {
        let mut task = self.task.clone();
        let Some(own) = self.overrides.get(&index) else { return task };
        if let Some(command) = &own.command {
            task.command.clone_from(command);
        }
        task.command.extend(own.arguments.iter().cloned());
        task.environment.extend(own.environment.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(resources) = &own.resources {
            task.resources.clone_from(resources);
        }
        task.weight = own.weight.unwrap_or(task.weight);
        task
    }

    /// What one task needs: as [`JobSpec::for_task`], without building the rest.
    pub fn resources_for(&self, index: u32) -> &Resources {
        let own = self.overrides.get(&index).and_then(|own| own.resources.as_ref());
        own.unwrap_or(&self.task.resources)
    }

    /// The spec with the count and priority that are in force, which may have been changed since.
    pub fn in_force(&self, row: &JobRow) -> Self {
        Self { count: row.count, priority: row.priority, ..self.clone() }
    }

    /// Whether some of its tasks must fit together before any is placed.
    pub fn is_gang(&self) -> bool {
        self.min_member > 1
    }
}
