//! Federated jobs as messages.

use std::collections::BTreeMap;

use borough_model::Name;
use borough_model::federation::{
    FailedCell, FederatedJob, FederatedJobRow, FederatedPart, FederatedState, FederatedStatus,
    FederatedVersion, PartRollout, PartSeen, ReleasePhase, ReleaseState, parts_finished,
};
use borough_proto::v1;

/// What was last decided and seen of a job.
#[derive(Default)]
pub(super) struct Divided {
    pub(super) parts: BTreeMap<Name, FederatedPart>,
    pub(super) status: FederatedStatus,
}

/// A job with all that is known of it.
pub(super) fn job_message(row: &FederatedJobRow, divided: &Divided) -> v1::FederatedJob {
    let Divided { parts, status } = divided;
    let sum = |of: fn(&PartSeen) -> u32| {
        let seen = parts.values().filter_map(|part| part.seen.as_ref());
        seen.map(of).fold(0, u32::saturating_add)
    };
    let state = match row.state {
        FederatedState::Active => v1::FederatedJobState::Active,
        FederatedState::Stopping => v1::FederatedJobState::Stopping,
        FederatedState::Stopped => v1::FederatedJobState::Stopped,
    };
    let reason = |reason: &borough_model::federation::CellsReason| v1::CellsReason {
        words: reason.words.clone(),
        cells: reason.cells.iter().map(ToString::to_string).collect(),
    };
    v1::FederatedJob {
        id: row.id.to_string(),
        user: row.user().to_string(),
        name: row.name().to_string(),
        state: state.into(),
        count: row.spec.job.count,
        version: row.version,
        revision: row.revision,
        submitted_ms: row.submitted_ms,
        changed_ms: row.changed_ms,
        changed_by: row.changed_by.clone(),
        divided_revision: status.divided,
        unplaced: status.unplaced,
        shortfall: status.shortfall.clone().unwrap_or_default(),
        cells: u32::try_from(parts.values().filter(|part| part.count > 0).count()).unwrap_or(u32::MAX),
        running: sum(|seen| seen.running),
        healthy: sum(|seen| seen.healthy),
        pending: sum(|seen| seen.pending),
        parts: parts.values().map(part_message).collect(),
        // Nothing is divided of a job that is being stopped.
        reasons: if row.state == FederatedState::Active {
            status.reasons.iter().map(reason).collect()
        } else {
            Vec::new()
        },
        divided_ms: status.at_ms,
        release: status.release.as_ref().map(|release| release_message(release, status)),
        holds: status.holds.iter().map(reason).collect(),
        ended: parts_finished(row, status, parts),
        failed: sum(|seen| seen.failed),
    }
}

fn release_message(release: &ReleaseState, status: &FederatedStatus) -> v1::FederatedRelease {
    let phase = match release.phase {
        ReleasePhase::Rolling => v1::ReleasePhase::Rolling,
        ReleasePhase::Failed => v1::ReleasePhase::Failed,
        ReleasePhase::Reverting => v1::ReleasePhase::Reverting,
        ReleasePhase::Reverted => v1::ReleasePhase::Reverted,
        ReleasePhase::Done => v1::ReleasePhase::Done,
    };
    let failed = |failed: &FailedCell| v1::CellsReason {
        words: failed.why.clone(),
        cells: vec![failed.cell.to_string()],
    };
    v1::FederatedRelease {
        version: release.version,
        from: release.from,
        phase: phase.into(),
        stage: release.stage,
        paused: release.paused,
        failed: release.failed.iter().map(failed).collect(),
        waits: status.release_wait.clone().unwrap_or_default(),
    }
}

fn part_message(part: &FederatedPart) -> v1::FederatedPart {
    let seen = part.seen.clone().unwrap_or_default();
    let rollout = match (&part.seen, seen.rollout) {
        (None, _) => v1::PartRollout::Unspecified,
        (Some(_), PartRollout::Rolling) => v1::PartRollout::Rolling,
        (Some(_), PartRollout::Done) => v1::PartRollout::Done,
        (Some(_), PartRollout::Failed) => v1::PartRollout::Failed,
    };
    let problem = part.problem.as_ref();
    v1::FederatedPart {
        cell: part.cell.to_string(),
        count: part.count,
        target: part.target,
        version: part.version,
        arrived: part.is_arrived(),
        job_id: part.admitted.as_ref().map(|job| job.id.clone()).unwrap_or_default(),
        running: seen.running,
        healthy: seen.healthy,
        pending: seen.pending,
        succeeded: seen.succeeded,
        failed: seen.failed,
        rollout: rollout.into(),
        seen_ms: seen.at_ms,
        problem: problem.map(|problem| problem.message.clone()).unwrap_or_default(),
        problem_since_ms: problem.map_or(0, |problem| problem.since_ms),
        failed_over_ms: part.failed_over_ms.unwrap_or(0),
        finished: part.is_finished(),
    }
}

pub(super) fn version_message(number: u64, version: &FederatedVersion) -> v1::FederatedJobVersion {
    v1::FederatedJobVersion {
        version: number,
        at_ms: version.at_ms,
        by: version.by.clone(),
        job_file: file_text(&version.spec),
    }
}

/// The job file of a job, as JSON.
pub(super) fn file_text(job: &FederatedJob) -> String {
    job.to_file().to_string()
}
