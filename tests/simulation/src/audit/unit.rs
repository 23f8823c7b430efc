//! Gangs in the eyes of the auditor: those that are placed in one commit, and those that gather by holds, or wait for
//! their victims, until one small transaction makes all of them placements.

use borough_model::task::{TaskRow, TaskState, UnitRow, UnitState};
use borough_model::{JobId, JournalEntry, TaskId};

use super::{Auditor, Touched, UNDER_WAY_MS};

impl Auditor {
    pub(super) fn unit(&mut self, row: &UnitRow, touched: &mut Touched) {
        let before = self.units.get(&row.id);
        let newer = before.is_none_or(|known| known.revision < row.revision && known.epoch <= row.epoch);
        let gathered =
            before.is_some_and(|known| matches!(known.state, UnitState::Gathering | UnitState::Waiting));
        self.require(newer, "unit_revision", || {
            format!("{} goes back to {} in epoch {}", row.id, row.revision, row.epoch)
        });
        if gathered && row.state == UnitState::Committed {
            touched.gathered.push(row.clone());
        }
        self.note(&format!("unit {:?}", row.state));
        self.units.insert(row.id, row.clone());
    }

    /// Whether a row is that of a member whose gang has not come together, or that was let go: it has no place yet. Those that
    /// wait for their victims are among them: a gang that takes the places of others starts whole.
    pub(super) fn gathers(&self, row: &TaskRow) -> bool {
        let Some(unit) = row.unit.filter(|_| row.state == TaskState::Held) else { return false };
        let together = |unit: &UnitRow| unit.state == UnitState::Committed && unit.epoch == row.unit_epoch;
        !self.units.get(&unit).is_some_and(together)
    }

    /// Members of a job that have a node, or had one and ended.
    fn standing(&self, job: JobId) -> u32 {
        let stands = |row: &&TaskRow| row.state != TaskState::Pending && !self.gathers(row);
        u32::try_from(self.tasks_of(job).filter(stands).count()).unwrap_or(u32::MAX)
    }

    pub(super) fn tasks_of(&self, job: JobId) -> impl Iterator<Item = &TaskRow> {
        let all = TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX };
        self.tasks.range(all).map(|(_, row)| row)
    }

    /// A gang whose member has just been placed, or that has come together, is whole.
    pub(super) fn gang_check(&mut self, job: JobId, entry: &JournalEntry) {
        let least = self.gangs.get(&job).copied().unwrap_or(1);
        let standing = self.standing(job);
        // One that replaces a member while another is being lost: the scheduler could not know of that one yet.
        let lately = self.departed.get(&job).is_some_and(|at_ms| entry.at_ms - at_ms <= UNDER_WAY_MS);
        self.require(standing >= least || lately, "gang_short", || {
            format!("{job} is placed where {standing} of a gang of {least} have a node")
        });
    }

    /// A unit comes together only with as many holds of its epoch as it needs.
    pub(super) fn gathered_check(&mut self, unit: &UnitRow, entry: &JournalEntry) {
        let holds = |row: &&TaskRow| {
            let held = row.state == TaskState::Held && !row.promised;
            held && row.unit == Some(unit.id) && row.unit_epoch == unit.epoch
        };
        let held = u32::try_from(self.tasks_of(unit.job).filter(holds).count()).unwrap_or(u32::MAX);
        self.require(held >= unit.min_member, "unit_short", || {
            format!("{} comes together with {held} of {} holds", unit.id, unit.min_member)
        });
        self.gang_check(unit.job, entry);
    }

    /// A member starts only with its gang.
    pub(super) fn hold_check(&mut self, before: &TaskRow, row: &TaskRow) {
        let begins = matches!(row.state, TaskState::Assigned | TaskState::Starting | TaskState::Running);
        self.require(!(begins && self.gathers(before)), "gang_alone", || {
            format!("{} is {:?} and {:?} has not come together", row.id, row.state, before.unit)
        });
    }
}
