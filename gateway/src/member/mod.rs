//! `MemberService`: operators say which cells a federation has, and see what was last seen of each. The gateway opens
//! no connection to a member: a federation process looks, and the store of the federation's home has what it saw.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::member::{
    MemberHealth, MemberReport, MemberRow, MemberSeen, MemberSpec, ProblemKind, member_health,
};
use borough_model::{MemberId, Name};
use borough_proto::convert::resources_to_message;
use borough_proto::v1;
use borough_proto::v1::member_service_server::MemberService;
use borough_store::member::{
    MemberEdit, member_change, member_join, member_leave, member_seen_read, members_seen_list,
};
use tonic::{Request, Response, Status};

use crate::cell::{Asked, CellContext, Cells, KeyedRequest, keyed_run};
use crate::select::{labels_meet, selector_checked};
use crate::status::{name_read, status_from_store, status_not_found};

/// The gRPC service of member cells.
#[derive(Clone)]
pub struct MemberServer {
    cells: Arc<Cells>,
}

impl MemberServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

#[tonic::async_trait]
impl MemberService for MemberServer {
    async fn list_members(
        &self,
        request: Request<v1::ListMembersRequest>,
    ) -> Result<Response<v1::ListMembersResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        selector_checked("selector", &request.selector)?;
        let rows: Vec<Arc<MemberRow>> = cell.state(|state| state.members().values().cloned().collect())?;
        let seen = seen_read(cell).await?;
        let now_ms = cell.clock.wall_ms();
        let wanted = rows.iter().filter(|row| labels_meet(&request.selector, &row.labels));
        let members = wanted.map(|row| message_of(row, seen.get(&row.cell), now_ms)).collect();
        Ok(Response::new(v1::ListMembersResponse { members }))
    }

    async fn get_member(
        &self,
        request: Request<v1::GetMemberRequest>,
    ) -> Result<Response<v1::GetMemberResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let member = name_read("member", &request.member)?;
        let row = cell.state(|state| state.members().get(&member).cloned())?;
        let row = row.ok_or_else(|| status_not_found(&format!("member cell \"{member}\"")))?;
        let member = Some(message_now(cell, &row).await?);
        Ok(Response::new(v1::GetMemberResponse { member }))
    }

    async fn join_member(
        &self,
        request: Request<v1::JoinMemberRequest>,
    ) -> Result<Response<v1::JoinMemberResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (member, new) = (&name_read("member", &request.member)?, MemberId(cell.id()));
        let spec = MemberSpec { gateways: request.gateways.clone(), labels: request.labels.clone() };
        let (keyed, spec) = (KeyedRequest::new(&caller, "member_join", &request), &spec);
        let joined = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let row = member_join(&tx, &mut changes, new, member, spec.clone()).await?;
            Ok((row, changes))
        });
        let (row, _) = cell.settled(joined.await).await?;
        let member = Some(message_now(cell, &row).await?);
        Ok(Response::new(v1::JoinMemberResponse { member }))
    }

    async fn change_member(
        &self,
        request: Request<v1::ChangeMemberRequest>,
    ) -> Result<Response<v1::ChangeMemberResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (member, expected) = (&name_read("member", &request.member)?, request.expected_revision);
        let change = MemberEdit {
            gateways: (!request.gateways.is_empty()).then(|| request.gateways.clone()),
            labels: request.labels.clone(),
            labels_removed: request.labels_removed.clone(),
            cordoned: request.cordoned,
            draining: request.draining,
        };
        let (keyed, change) = (KeyedRequest::new(&caller, "member_change", &request), &change);
        let changed = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let row = member_change(&tx, &mut changes, member, change, expected).await?;
            Ok((row, changes))
        });
        let (row, _) = cell.settled(changed.await).await?;
        let member = Some(message_now(cell, &row).await?);
        Ok(Response::new(v1::ChangeMemberResponse { member }))
    }

    async fn remove_member(
        &self,
        request: Request<v1::RemoveMemberRequest>,
    ) -> Result<Response<v1::RemoveMemberResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let member = &name_read("member", &request.member)?;
        let keyed = KeyedRequest::new(&caller, "member_leave", &request);
        let left = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let row = member_leave(&tx, &mut changes, member).await?;
            Ok((row, changes))
        });
        let (row, _) = cell.settled(left.await).await?;
        let member = Some(message_of(&row, None, cell.clock.wall_ms()));
        Ok(Response::new(v1::RemoveMemberResponse { member }))
    }
}

async fn seen_read(cell: &CellContext) -> Result<BTreeMap<Name, MemberSeen>, Status> {
    let space = &cell.space;
    let seen = cell.db.run("members_seen_list", Idempotency::ReadOnly, |tx, _| async move {
        members_seen_list(&tx, space).await
    });
    seen.await.map_err(|error| status_from_store(&error))
}

async fn message_now(cell: &CellContext, row: &MemberRow) -> Result<v1::Member, Status> {
    let space = &cell.space;
    let seen = cell.db.run("member_seen_read", Idempotency::ReadOnly, |tx, _| async move {
        member_seen_read(&tx, space, &row.cell).await
    });
    let seen = seen.await.map_err(|error| status_from_store(&error))?;
    Ok(message_of(row, seen.as_ref(), cell.clock.wall_ms()))
}

/// A member cell with what is known of it at `now_ms`.
fn message_of(row: &MemberRow, seen: Option<&MemberSeen>, now_ms: i64) -> v1::Member {
    let seen = seen.filter(|seen| seen.member == row.id);
    let (health, since_ms) = match member_health(row, seen, now_ms) {
        MemberHealth::Current => (v1::MemberHealth::Current, 0),
        MemberHealth::NotLooked => (v1::MemberHealth::NotLooked, 0),
        MemberHealth::Unwatched { since_ms } => (v1::MemberHealth::Unwatched, since_ms),
        MemberHealth::Failing { kind, since_ms } => (failing_message(kind), since_ms),
    };
    // A problem of other addresses is none of the present ones.
    let problem = seen.filter(|seen| seen.is_of(row)).and_then(|seen| seen.problem.as_ref());
    let report = seen.and_then(|seen| seen.report.as_ref());
    let age_ms = seen.filter(|_| report.is_some()).map_or(0, |seen| now_ms.saturating_sub(seen.reported_ms));
    v1::Member {
        cell: row.cell.to_string(),
        gateways: row.gateways.clone(),
        labels: row.labels.clone(),
        cordoned: row.cordoned,
        draining: row.draining,
        revision: row.revision,
        joined_ms: row.joined_ms,
        changed_ms: row.changed_ms,
        changed_by: row.changed_by.clone(),
        health: health.into(),
        health_since_ms: since_ms,
        problem: problem.map(|problem| problem.message.clone()).unwrap_or_default(),
        report: report.map(report_message),
        report_age_ms: u64::try_from(age_ms).unwrap_or(0),
    }
}

fn failing_message(kind: ProblemKind) -> v1::MemberHealth {
    match kind {
        ProblemKind::Silent => v1::MemberHealth::Silent,
        ProblemKind::Refused => v1::MemberHealth::Refused,
        ProblemKind::OlderStore => v1::MemberHealth::OlderStore,
    }
}

fn report_message(report: &MemberReport) -> v1::MemberReport {
    v1::MemberReport {
        store_epoch: report.store_epoch,
        nodes: report.nodes,
        nodes_ready: report.nodes_ready,
        capacity: Some(resources_to_message(&report.capacity)),
        used: Some(resources_to_message(&report.used)),
        jobs: report.jobs,
        running: report.running,
        pending: report.pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_cell_shows_its_last_report_with_its_age() {
        let row = MemberRow {
            id: MemberId(3),
            cell: Name::new("beta").unwrap(),
            gateways: vec!["a:1".to_owned()],
            labels: BTreeMap::new(),
            cordoned: true,
            revision: 4,
            joined_ms: 1_000,
            changed_ms: 2_000,
            changed_by: "user/ann".to_owned(),
            draining: false,
        };
        let fresh = message_of(&row, None, 3_000);
        assert_eq!((fresh.health(), fresh.report.is_none()), (v1::MemberHealth::NotLooked, true));
        let report = MemberReport { nodes: 7, ..MemberReport::default() };
        let seen = MemberSeen::looked(None, &row, Ok(report), 5_000);
        let seen =
            MemberSeen::looked(Some(&seen), &row, Err((ProblemKind::Silent, "refused".to_owned())), 9_000);
        let silent = message_of(&row, Some(&seen), 12_000);
        assert_eq!((silent.health(), silent.health_since_ms), (v1::MemberHealth::Silent, 9_000));
        assert_eq!((silent.problem.as_str(), silent.report_age_ms), ("refused", 7_000));
        assert_eq!(silent.report.map(|report| report.nodes), Some(7));
        let moved = MemberRow { gateways: vec!["b:1".to_owned()], ..row.clone() };
        let moved = message_of(&moved, Some(&seen), 12_000);
        assert_eq!((moved.health(), moved.problem.as_str()), (v1::MemberHealth::NotLooked, ""));
        assert_eq!(moved.report.map(|report| report.nodes), Some(7), "the cell is the same");
        let other = MemberRow { id: MemberId(4), ..row };
        let joined_again = message_of(&other, Some(&seen), 12_000);
        assert_eq!((joined_again.health(), joined_again.report), (v1::MemberHealth::NotLooked, None));
    }
}
