//! Merged services of a cell: which jobs each of them has, kept up to date job by job, and what they are in the views.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use borough_model::merged::MergedServiceRow;
use borough_model::{MergedServiceId, Name};

use super::TableIndex;

mod step;
#[cfg(test)]
pub(crate) mod tests;
mod view;

pub use view::{MergedJob, MergedPort, MergedView};

/// The name of a merged service in its cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MergedKey {
    pub cell: Name,
    pub user: Name,
    pub name: Name,
}

impl MergedKey {
    /// The key of texts, if each of them is a name.
    pub fn of_texts(cell: &str, user: &str, name: &str) -> Option<Self> {
        let parsed = |text: &str| Name::new(text).ok();
        Some(Self { cell: parsed(cell)?, user: parsed(user)?, name: parsed(name)? })
    }
}

impl fmt::Display for MergedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.name, self.user, self.cell)
    }
}

/// A merged service with the names of its jobs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MergedService {
    pub(super) row: Arc<MergedServiceRow>,
    pub(super) jobs: BTreeSet<Name>,
    /// The index of its last change.
    pub(super) index: TableIndex,
}

/// What a job is to the merged services of its user: its labels if it runs, and nothing if it does not.
pub(super) type MemberLabels<'l> = Option<&'l BTreeMap<String, String>>;

/// The merged services of a cell. A change of a job looks at those of its user only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MergedServices {
    /// By user and name.
    services: BTreeMap<(Name, Name), MergedService>,
    /// The names of the services that have a job, by user and job.
    of_jobs: BTreeMap<(Name, Name), BTreeSet<Name>>,
}

impl MergedServices {
    pub(super) fn get(&self, user: &Name, name: &Name) -> Option<&MergedService> {
        self.services.get(&(user.clone(), name.clone()))
    }

    pub(super) fn get_mut(&mut self, user: &Name, name: &Name) -> Option<&mut MergedService> {
        self.services.get_mut(&(user.clone(), name.clone()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&(Name, Name), &MergedService)> {
        self.services.iter()
    }

    /// Returns true if the user has one.
    pub(super) fn has_user(&self, user: &Name) -> bool {
        self.of_user(user).next().is_some()
    }

    fn of_user<'s>(&'s self, user: &'s Name) -> impl Iterator<Item = (&'s Name, &'s MergedService)> + 's {
        let from = self.services.range((user.clone(), Name::first())..);
        from.take_while(move |((of, _), _)| of == user).map(|((_, name), service)| (name, service))
    }

    /// The names of the services that have the job.
    pub(super) fn of_job(&self, user: &Name, job: &Name) -> impl Iterator<Item = &Name> {
        self.of_jobs.get(&(user.clone(), job.clone())).into_iter().flatten()
    }

    /// Puts a service with the jobs of its user that it selects.
    pub(super) fn put<'j>(
        &mut self,
        row: Arc<MergedServiceRow>,
        jobs: impl Iterator<Item = (&'j Name, MemberLabels<'j>)>,
        index: TableIndex,
    ) {
        let selected = jobs.filter(|(_, labels)| labels.is_some_and(|labels| row.selects(labels)));
        let jobs: BTreeSet<Name> = selected.map(|(job, _)| job.clone()).collect();
        let (user, name) = (row.user.clone(), row.name.clone());
        self.forget(&user, &name);
        for job in &jobs {
            self.of_jobs.entry((user.clone(), job.clone())).or_default().insert(name.clone());
        }
        self.services.insert((user, name), MergedService { row, jobs, index });
    }

    /// Removes a service, unless another one has been made with the name.
    pub(super) fn remove(&mut self, user: &Name, name: &Name, id: MergedServiceId) -> Option<MergedService> {
        let is_it = self.get(user, name).is_some_and(|known| known.row.id == id);
        if is_it { self.forget(user, name) } else { None }
    }

    fn forget(&mut self, user: &Name, name: &Name) -> Option<MergedService> {
        let removed = self.services.remove(&(user.clone(), name.clone()))?;
        for job in &removed.jobs {
            self.leave(user, job, name);
        }
        Some(removed)
    }

    fn leave(&mut self, user: &Name, job: &Name, name: &Name) {
        let key = (user.clone(), job.clone());
        if let Some(names) = self.of_jobs.get_mut(&key) {
            names.remove(name);
            if names.is_empty() {
                self.of_jobs.remove(&key);
            }
        }
    }

    /// Records the labels of a job. Returns the services that have gained or lost it.
    pub(super) fn job_set(&mut self, user: &Name, job: &Name, labels: MemberLabels<'_>) -> BTreeSet<Name> {
        let mut changed = BTreeSet::new();
        for (name, service) in self.of_user(user) {
            let selects = labels.is_some_and(|labels| service.row.selects(labels));
            if selects != service.jobs.contains(job) {
                changed.insert(name.clone());
            }
        }
        for name in &changed {
            let Some(service) = self.get_mut(user, name) else { continue };
            if service.jobs.remove(job) {
                self.leave(user, job, name);
            } else {
                service.jobs.insert(job.clone());
                self.of_jobs.entry((user.clone(), job.clone())).or_default().insert(name.clone());
            }
        }
        changed
    }
}
