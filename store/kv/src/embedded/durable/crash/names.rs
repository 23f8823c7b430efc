//! The directory of the simulated disk: names as the machine shows them, as the disk has them, and the subset of
//! changes that a power cut may leave.

use std::collections::BTreeMap;

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

use super::inode::Survival;

/// The number of the file behind a name.
pub(super) type InodeId = usize;

#[derive(Clone, Debug)]
enum NameChange {
    Link(String, InodeId),
    Unlink(String),
    Rename { from: String, to: String, inode: InodeId },
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, InodeId>) {
        match self {
            Self::Link(name, inode) => drop(names.insert(name.clone(), *inode)),
            Self::Unlink(name) => drop(names.remove(name)),
            Self::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }

    fn names(&self) -> [&String; 2] {
        match self {
            Self::Link(name, _) | Self::Unlink(name) => [name, name],
            Self::Rename { from, to, .. } => [from, to],
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// As the machine shows them.
    pub(super) shown: BTreeMap<String, InodeId>,
    durable: BTreeMap<String, InodeId>,
    pending: Vec<NameChange>,
}

impl Names {
    /// A directory that is on the disk.
    pub(super) fn durable(names: BTreeMap<String, InodeId>) -> Self {
        Self { shown: names.clone(), durable: names, pending: Vec::new() }
    }

    pub(super) fn link(&mut self, name: &str, inode: InodeId) {
        self.change(NameChange::Link(name.to_owned(), inode));
    }

    pub(super) fn unlink(&mut self, name: &str) {
        self.change(NameChange::Unlink(name.to_owned()));
    }

    /// Returns false if the name does not exist.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(inode) = self.shown.get(from).copied() else { return false };
        self.change(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        true
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.shown);
        self.pending.push(change);
    }

    /// A successful flush. A change lost by an earlier failed one stays lost.
    pub(super) fn flush(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.durable);
        }
    }

    /// A failing flush: any part of it is on the disk, and the rest will not be tried again.
    pub(super) fn flush_fail(&mut self, rng: &mut ChaCha8Rng) {
        self.durable = self.survive(Survival::Any, rng);
        self.pending.clear();
    }

    /// The names after a power cut. A change is made whole or not at all, and not before an earlier one of the same
    /// name.
    pub(super) fn survive(&self, survival: Survival, rng: &mut ChaCha8Rng) -> BTreeMap<String, InodeId> {
        let mut left = self.durable.clone();
        let mut lost: Vec<&String> = Vec::new();
        for (index, change) in self.pending.iter().enumerate() {
            let last = index + 1 == self.pending.len();
            let survives = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::LastTorn => !last || rng.random_bool(0.5),
                Survival::Any => rng.random_bool(0.5),
            };
            if survives && !change.names().iter().any(|name| lost.contains(name)) {
                change.apply(&mut left);
            } else {
                lost.extend(change.names());
            }
        }
        left
    }
}
