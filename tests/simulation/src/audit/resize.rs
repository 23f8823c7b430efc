//! The auditor's rules of resizes in place: what may be in force is charged, and no attempt is ended for one.

use borough_model::resource::resources_most;
use borough_model::task::{TaskRow, TaskState};

use super::Auditor;

impl Auditor {
    /// Checks a running attempt that goes on by the row before it.
    pub(super) fn resize_check(&mut self, row: &TaskRow, action: &str) {
        let Some(before) =
            self.tasks.get(&row.id).filter(|before| before.incarnation == row.incarnation).cloned()
        else {
            return;
        };
        if (before.state, row.state) != (TaskState::Running, TaskState::Running) {
            // Whatever writes a node keeps the promises that it can keep by now.
            let is_kept = (before.state, row.state) == (TaskState::Held, TaskState::Assigned);
            let is_ordered = action == "rollout_resize" && !is_kept;
            return self
                .require(!is_ordered, "resize_state", || format!("{} was {:?}", row.id, before.state));
        }
        let (charge, had) = (&row.charge.resources, &before.charge.resources);
        let (task, pid) = (row.id, (before.pid, row.pid));
        let (note, is_right) = match (before.resize_ordered(), row.resize.as_deref()) {
            _ if row.resize == before.resize => ("resize_none", charge == had),
            (None, Some(resize)) if resize.refused.is_none() => {
                let most = resources_most(&resize.granted, &resize.in_force);
                ("resize_ordered", *charge == most && resize.in_force == *had)
            }
            (None, Some(_)) => ("resize_refused_at_once", charge == had),
            (Some(ordered), None) => {
                ("resize_in_force", *charge == ordered.granted && row.spec_version == ordered.version)
            }
            (Some(ordered), Some(_)) => {
                ("resize_refused", *charge == ordered.in_force && row.spec_version == before.spec_version)
            }
            (None, None) => ("resize_forgotten", charge == had),
        };
        self.note(note);
        self.require(is_right && pid.0 == pid.1, "resize_charge", || {
            format!("{note} of {task}: charged {charge}")
        });
    }
}
