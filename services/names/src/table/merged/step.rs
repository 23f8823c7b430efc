//! What the steps of a cell do to its merged services.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_model::merged::MergedServiceRow;
use borough_model::{MergedServiceId, Name};
use borough_store::Cursor;

use super::{MergedKey, MergedView};
use crate::table::{CellTable, NamesChanges, TableIndex};

impl CellTable {
    /// The index of a merged service, or that of services that do not exist.
    pub fn index_of_merged(&self, user: &Name, name: &Name) -> TableIndex {
        self.merged.get(user, name).map_or(self.missing_index, |service| service.index)
    }

    /// A merged service.
    pub fn merged(&self, user: &Name, name: &Name) -> Option<MergedView<'_>> {
        self.merged.get(user, name).map(|service| MergedView::of(self, service))
    }

    /// The names of all merged services, by user and name.
    pub fn merged_keys(&self) -> impl Iterator<Item = MergedKey> {
        self.merged.iter().map(|((user, name), _)| self.merged_key(user, name))
    }

    /// Returns true if the user has a merged service.
    pub fn has_merged(&self, user: &Name) -> bool {
        self.merged.has_user(user)
    }

    fn merged_key(&self, user: &Name, name: &Name) -> MergedKey {
        MergedKey { cell: self.name().clone(), user: user.clone(), name: name.clone() }
    }

    /// Puts a merged service that was made or changed.
    pub fn merged_put(&mut self, row: Arc<MergedServiceRow>, cursor: Cursor) -> NamesChanges {
        let known = self.merged.get(&row.user, &row.name);
        if known.is_some_and(|known| known.row.id == row.id && known.row.revision >= row.revision) {
            return NamesChanges::default();
        }
        let at = TableIndex::of(cursor);
        let index = self.index_of_merged(&row.user, &row.name).next_at(at);
        let key = self.merged_key(&row.user, &row.name);
        self.merged_insert(row, index);
        self.merged_listed(key, at)
    }

    pub(in crate::table) fn merged_insert(&mut self, row: Arc<MergedServiceRow>, index: TableIndex) {
        let mut merged = std::mem::take(&mut self.merged);
        let jobs = self.jobs_of(&row.user).map(|(job, service)| (job, service.facts().labels_live()));
        merged.put(Arc::clone(&row), jobs, index);
        self.merged = merged;
    }

    /// Removes a merged service, unless another one has been made with the name.
    pub fn merged_remove(
        &mut self,
        user: &Name,
        name: &Name,
        id: MergedServiceId,
        cursor: Cursor,
    ) -> NamesChanges {
        let Some(removed) = self.merged.remove(user, name, id) else { return NamesChanges::default() };
        let at = removed.index.next_at(TableIndex::of(cursor));
        self.missing_index = self.missing_index.next_at(at);
        self.merged_listed(self.merged_key(user, name), at)
    }

    /// A merged service begins, ends or has other ports, perhaps: the list of services is another one.
    fn merged_listed(&mut self, key: MergedKey, at: TableIndex) -> NamesChanges {
        self.list_index = self.list_index.next_at(at);
        let lists = [self.name().clone()].into();
        NamesChanges { merged: [key].into(), lists, ..NamesChanges::default() }
    }

    /// Passes the change of a job on to the merged services that have it, and to those in `others`.
    pub(in crate::table) fn merged_touch(
        &mut self,
        user: &Name,
        job: &Name,
        others: BTreeSet<Name>,
        at: TableIndex,
        changes: &mut NamesChanges,
    ) {
        let mut names = others;
        names.extend(self.merged.of_job(user, job).cloned());
        for name in names {
            if let Some(service) = self.merged.get_mut(user, &name) {
                service.index = service.index.next_at(at);
                changes.merged.insert(self.merged_key(user, &name));
            }
        }
    }

    /// Gives the merged services of a listing their index: the same if nothing of them has changed since.
    pub(in crate::table) fn merged_compare(&self, next: &mut Self, changes: &mut NamesChanges) {
        let mut same = Vec::new();
        for ((user, name), new) in next.merged.iter() {
            let has_changed = |job: &Name| changes.services.contains(&self.key(user, job));
            let known = self.merged.get(user, name).filter(|known| {
                known.index.is_of_epoch(new.index)
                    && (&known.row, &known.jobs) == (&new.row, &new.jobs)
                    && !known.jobs.iter().any(has_changed)
            });
            match known {
                Some(known) => same.push((user.clone(), name.clone(), known.index)),
                None => drop(changes.merged.insert(self.merged_key(user, name))),
            }
        }
        for (user, name, index) in same {
            if let Some(service) = next.merged.get_mut(&user, &name) {
                service.index = index;
            }
        }
        let gone = self.merged.iter().filter(|((user, name), _)| next.merged.get(user, name).is_none());
        changes.merged.extend(gone.map(|((user, name), _)| self.merged_key(user, name)));
    }
}
