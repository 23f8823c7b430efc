//! The auditor's rules of gangs. Some are placed in one commit. Others gather by holds, or wait for their victims,
//! until one small transaction turns all holds into placements.

use borough_model::task::{GangRow, GangState, TaskRow, TaskState};
use borough_model::{JobId, JournalEntry, TaskId};

use super::{Auditor, Touched, UNDER_WAY_MS};

impl Auditor {
    pub(super) fn gang(&mut self, row: &GangRow, touched: &mut Touched) {
        let before = self.gangs.get(&row.id);
        let newer = before.is_none_or(|known| known.revision < row.revision && known.epoch <= row.epoch);
        let gathered =
            before.is_some_and(|known| matches!(known.state, GangState::Gathering | GangState::Waiting));
        self.require(newer, "gang_revision", || {
            format!("{} goes back to {} in epoch {}", row.id, row.revision, row.epoch)
        });
        if gathered && row.state == GangState::Committed {
            touched.gathered.push(row.clone());
        }
        self.note(&format!("gang {:?}", row.state));
        self.gangs.insert(row.id, row.clone());
    }

    /// Returns true if a row is that of a member without a place yet: its gang has not been committed, or it was given
    /// up. Members that wait for victims are among them, since a gang that preempts others starts whole.
    pub(super) fn gathers(&self, row: &TaskRow) -> bool {
        let Some(gang) = row.gang.filter(|_| row.state == TaskState::Held) else { return false };
        let together = |gang: &GangRow| gang.state == GangState::Committed && gang.epoch == row.gang_epoch;
        !self.gangs.get(&gang).is_some_and(together)
    }

    /// Members of a job that have a node, or had one and ended.
    fn placed_members(&self, job: JobId) -> u32 {
        let has_place = |row: &&TaskRow| row.state != TaskState::Pending && !self.gathers(row);
        u32::try_from(self.tasks_of(job).filter(has_place).count()).unwrap_or(u32::MAX)
    }

    pub(super) fn tasks_of(&self, job: JobId) -> impl Iterator<Item = &TaskRow> {
        let all = TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX };
        self.tasks.range(all).map(|(_, row)| row)
    }

    /// A gang is complete after one of its members was placed, and after its commit.
    pub(super) fn gang_check(&mut self, job: JobId, entry: &JournalEntry) {
        let least = self.min_members.get(&job).copied().unwrap_or(1);
        let placed_members = self.placed_members(job);
        // This one replaces a member while another is being lost: the scheduler could not know that yet.
        let recently_departed =
            self.departed.get(&job).is_some_and(|at_ms| entry.at_ms - at_ms <= UNDER_WAY_MS);
        self.require(placed_members >= least || recently_departed, "gang_short", || {
            format!("{job} is placed where {placed_members} of a gang of {least} have a node")
        });
    }

    /// A gang is committed only with as many holds of its epoch as it needs.
    pub(super) fn gathered_check(&mut self, gang: &GangRow, entry: &JournalEntry) {
        let holds = |row: &&TaskRow| {
            let held = row.state == TaskState::Held && !row.promised;
            held && row.gang == Some(gang.id) && row.gang_epoch == gang.epoch
        };
        let held = u32::try_from(self.tasks_of(gang.job).filter(holds).count()).unwrap_or(u32::MAX);
        self.require(held >= gang.min_member, "gang_commit_short", || {
            format!("{} comes together with {held} of {} holds", gang.id, gang.min_member)
        });
        self.gang_check(gang.job, entry);
    }

    /// A member starts only with its gang.
    pub(super) fn hold_check(&mut self, before: &TaskRow, row: &TaskRow) {
        let begins = matches!(row.state, TaskState::Assigned | TaskState::Starting | TaskState::Running);
        self.require(!(begins && self.gathers(before)), "gang_alone", || {
            format!("{} is {:?} and {:?} has not come together", row.id, row.state, before.gang)
        });
    }
}
