//! The merged services of a mirror, and the jobs that they may have.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::merged::MergedServiceRow;
use borough_model::{JobRow, MergedServiceId, Name};

use super::MirrorState;

impl MirrorState {
    /// Merged services by user and name.
    pub fn merged_services(&self) -> &BTreeMap<(Name, Name), Arc<MergedServiceRow>> {
        &self.merged_services
    }

    /// The jobs of a user that have their names, by name.
    pub fn named_jobs_of(&self, user: &Name) -> impl Iterator<Item = &Arc<JobRow>> {
        let of_user = move |((of, _), _): &(&(Name, Name), _)| of == user;
        let names = self.job_names.range((user.clone(), Name::first())..).take_while(of_user);
        names.filter_map(|(_, job)| self.jobs().get(job))
    }

    pub(super) fn merged_put(&mut self, row: &MergedServiceRow) {
        let key = (row.user.clone(), row.name.clone());
        let is_newer = |known: &Arc<MergedServiceRow>| known.id != row.id || known.revision < row.revision;
        if self.merged_services.get(&key).is_none_or(is_newer) {
            self.merged_services.insert(key, Arc::new(row.clone()));
        }
    }

    /// One that was made again with the name stays.
    pub(super) fn merged_remove(&mut self, id: MergedServiceId, user: &Name, name: &Name) {
        let key = (user.clone(), name.clone());
        if self.merged_services.get(&key).is_some_and(|known| known.id == id) {
            self.merged_services.remove(&key);
        }
    }
}
