//! The federated jobs of a mirror, if it is that of a federation's home.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::federation::FederatedJobRow;
use borough_model::{FederatedJobId, Name};

use super::MirrorState;

impl MirrorState {
    /// Federated jobs by user and name.
    pub fn federated_jobs(&self) -> &BTreeMap<(Name, Name), Arc<FederatedJobRow>> {
        &self.federated_jobs
    }

    pub(super) fn federated_put(&mut self, row: &FederatedJobRow) {
        let key = (row.user().clone(), row.name().clone());
        let is_newer = |known: &Arc<FederatedJobRow>| known.id != row.id || known.revision < row.revision;
        if self.federated_jobs.get(&key).is_none_or(is_newer) {
            self.federated_jobs.insert(key, Arc::new(row.clone()));
        }
    }

    /// A later job of the name stays.
    pub(super) fn federated_remove(&mut self, id: FederatedJobId, user: &Name, name: &Name) {
        let key = (user.clone(), name.clone());
        if self.federated_jobs.get(&key).is_some_and(|known| known.id == id) {
            self.federated_jobs.remove(&key);
        }
    }
}
