//! The table: every service of every cell with its endpoints, in memory and without input or output. The views are
//! functions of it.
//!
//! Each service has an index that grows with each of its changes. It follows from the position of the change in the
//! journal, so that the processes of one store agree about it.

mod cell;
mod endpoint;
mod index;
mod merged;
mod service;
mod times;
mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use borough_model::Name;

pub use cell::{CellTable, ListedCell, NamedJobEvent, NodePlace, ServiceFacts};
pub use endpoint::{EndpointHost, ServiceEndpoint};
pub use index::TableIndex;
pub use merged::{MergedJob, MergedKey, MergedPort, MergedView};
pub use service::Service;
pub use times::AnswerTimes;

/// The name of a service: that of a job in its cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceKey {
    pub cell: Name,
    pub user: Name,
    pub job: Name,
}

impl ServiceKey {
    /// The key of texts, if each of them is a name.
    pub fn of_texts(cell: &str, user: &str, job: &str) -> Option<Self> {
        let name = |text: &str| Name::new(text).ok();
        Some(Self { cell: name(cell)?, user: name(user)?, job: name(job)? })
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.job, self.user, self.cell)
    }
}

/// A service, or one of its ports, as lists of services have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedName {
    pub service: ServiceKey,
    /// Absent: the service as a whole.
    pub port: Option<Name>,
}

/// What a step has changed: whom it concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesChanges {
    /// Services with another answer.
    pub services: BTreeSet<ServiceKey>,
    /// What lists of services show otherwise: another name, port or label. What is gone is here too.
    pub listed: BTreeSet<ListedName>,
    /// Merged services with another answer.
    pub merged: BTreeSet<MergedKey>,
    /// Cells with other merged services in their list.
    pub lists: BTreeSet<Name>,
}

impl NamesChanges {
    /// Returns true if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && self.merged.is_empty() && self.listed.is_empty() && self.lists.is_empty()
    }

    /// Adds what another step has changed.
    pub fn extend(&mut self, other: Self) {
        self.services.extend(other.services);
        self.merged.extend(other.merged);
        self.listed.extend(other.listed);
        self.lists.extend(other.lists);
    }
}

/// The endpoint that an address belongs to.
pub type AddressOwner = (ServiceKey, u32);

/// The services of the cells.
#[derive(Clone, Debug, Default)]
pub struct NamesTable {
    cells: BTreeMap<Name, CellTable>,
    /// Cells that came when the others were complete, and are not listed yet.
    coming: BTreeMap<Name, CellTable>,
    /// The index of the last change of any service, by cell.
    changed: BTreeMap<Name, TableIndex>,
    addresses: BTreeMap<IpAddr, BTreeSet<AddressOwner>>,
}

impl NamesTable {
    /// A table of these cells. None of them is complete yet.
    pub fn new(cells: impl IntoIterator<Item = Name>) -> Self {
        let mut table = Self::default();
        table.enter(cells);
        table
    }

    /// Takes further cells. One that comes to a complete table is part of it from its first listing on, so that the
    /// others are answered meanwhile.
    pub fn enter(&mut self, cells: impl IntoIterator<Item = Name>) {
        let is_complete = self.is_complete();
        for cell in cells {
            if self.cells.contains_key(&cell) || self.coming.contains_key(&cell) {
                continue;
            }
            let to = if is_complete { &mut self.coming } else { &mut self.cells };
            to.insert(cell.clone(), CellTable::new(cell));
        }
    }

    /// Returns true if there are cells, and each was listed once. An incomplete table answers nobody.
    pub fn is_complete(&self) -> bool {
        !self.cells.is_empty() && self.cells.values().all(CellTable::is_complete)
    }

    /// The cells by name.
    pub fn cells(&self) -> impl Iterator<Item = &CellTable> {
        self.cells.values()
    }

    /// How long answers about names of a cell may be kept; about other names of the zone, the least of any cell.
    pub fn times(&self, cell: Option<&Name>) -> AnswerTimes {
        let of_cell = cell.and_then(|cell| self.cells.get(cell)).map(CellTable::times);
        let least = || self.cells.values().map(CellTable::times).reduce(AnswerTimes::least);
        of_cell.or_else(least).unwrap_or_default()
    }

    /// A cell.
    pub fn cell(&self, cell: &str) -> Option<&CellTable> {
        self.cells.get(cell)
    }

    /// The index of the last change of any service of a cell.
    pub fn changed_index(&self, cell: &CellTable) -> TableIndex {
        changed_index(cell, self.changed.get(cell.name()))
    }

    /// A service.
    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.cells.get(&key.cell)?.service(&key.user, &key.job)
    }

    /// A merged service.
    pub fn merged(&self, key: &MergedKey) -> Option<MergedView<'_>> {
        self.cells.get(&key.cell)?.merged(&key.user, &key.name)
    }

    /// The published endpoints with this address.
    pub fn at_address(&self, address: IpAddr) -> Option<&BTreeSet<AddressOwner>> {
        self.addresses.get(&address)
    }

    /// Changes a cell. Nothing happens for a cell that is not in the table.
    pub fn change(
        &mut self,
        cell: &Name,
        change: impl FnOnce(&mut CellTable) -> NamesChanges,
    ) -> NamesChanges {
        if let Some(coming) = self.coming.remove(cell) {
            self.cells.insert(cell.clone(), coming);
        }
        let Some(table) = self.cells.get_mut(cell) else { return NamesChanges::default() };
        let changes = change(table);
        if !changes.is_empty() {
            let last = changed_index(table, self.changed.get(cell));
            self.changed.insert(cell.clone(), last.next_at(table.index()));
        }
        for change in table.addresses_take() {
            match change {
                cell::AddressChange::Has(address, owner) => {
                    self.addresses.entry(address).or_default().insert(owner);
                }
                cell::AddressChange::Lacks(address, owner) => {
                    if let Some(owners) = self.addresses.get_mut(&address) {
                        owners.remove(&owner);
                        if owners.is_empty() {
                            self.addresses.remove(&address);
                        }
                    }
                }
            }
        }
        changes
    }
}

/// The index of the last change of any service of a cell, of which `known` is the last that was noted.
fn changed_index(cell: &CellTable, known: Option<&TableIndex>) -> TableIndex {
    let listed = cell.list_index();
    // A listing of another epoch of the store that has nothing is no change of a service.
    let known = known.filter(|known| known.is_of_epoch(listed));
    known.copied().unwrap_or_default().max(listed)
}

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
pub(crate) use merged::tests as merged_tests;
