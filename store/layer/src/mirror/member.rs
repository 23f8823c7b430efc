//! The member cells of a mirror, if it is that of a federation's home.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::member::MemberRow;
use borough_model::{MemberId, Name};

use super::MirrorState;

impl MirrorState {
    /// Member cells by name.
    pub fn members(&self) -> &BTreeMap<Name, Arc<MemberRow>> {
        &self.members
    }

    pub(super) fn member_put(&mut self, row: &MemberRow) {
        let is_newer = |known: &Arc<MemberRow>| known.id != row.id || known.revision < row.revision;
        if self.members.get(&row.cell).is_none_or(is_newer) {
            self.members.insert(row.cell.clone(), Arc::new(row.clone()));
        }
    }

    /// One that has joined again with the name stays.
    pub(super) fn member_remove(&mut self, id: MemberId, cell: &Name) {
        if self.members.get(cell).is_some_and(|known| known.id == id) {
            self.members.remove(cell);
        }
    }
}
