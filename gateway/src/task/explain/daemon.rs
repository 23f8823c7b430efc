//! Explains that nodes lack a task of a daemon job, although no task of it waits.

use borough_model::JobId;
use borough_model::job::band;
use borough_proto::v1;
use borough_store::mirror::MirrorState;

use super::explanation_of;

/// That the quota has no room for the tasks of some nodes that match; `None` if it has.
pub(super) fn unadmitted(state: &MirrorState, job: JobId) -> Option<v1::Explanation> {
    let row = state.jobs().get(&job)?;
    let nodes = row.daemon.as_ref().map(|daemon| daemon.unadmitted).filter(|nodes| *nodes > 0)?;
    let which = if nodes == 1 {
        "1 node that matches has no task".to_owned()
    } else {
        format!("{nodes} nodes that match have no task")
    };
    let line = band(row.priority).name();
    let user = &row.user;
    let headline = format!("{which}: the quota of {user} for {line} has no room for it");
    let next =
        "they get their tasks when the quota has room: `borough quota status` says what is used".to_owned();
    Some(explanation_of(Vec::new(), headline, vec![next]))
}
