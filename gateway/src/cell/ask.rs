//! What every method of the API needs of its caller: the one table of methods.
//!
//! A service reaches a cell only through `Cells::admit_read` and `Cells::admit_change`, which a request without a line
//! in the table does not fit. An operator's token may do everything, in every user's name. A user's credential may do
//! what the cell's grants say.

use borough_model::access::{ActionNeed, Right};
use borough_model::job::Band;
use borough_proto::v1;

/// A request of the API, with what its method needs.
pub(crate) trait Ask {
    /// Such as `JobService/StopJob`.
    const METHOD: &'static str;
    const NEED: ActionNeed;
    fn context_mut(&mut self) -> &mut Option<v1::RequestContext>;
    /// The name of the cell that it is for; empty: of every cell.
    fn cell(&self) -> &str;
    /// The user whose work it concerns; empty: everybody's.
    fn owner(&self) -> &str;
    /// What it is about, for the audit, such as `job/ann/web`; empty: nothing by a name.
    fn object(&self) -> String;
}

/// A method of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodRule {
    /// Such as `JobService/StopJob`.
    pub method: &'static str,
    pub need: ActionNeed,
}

impl MethodRule {
    /// The name without its service.
    pub fn name(&self) -> &'static str {
        self.method.split_once('/').map_or(self.method, |(_, name)| name)
    }
}

const READ: ActionNeed = ActionNeed::Right(Right::Read);
const ADMINISTER: ActionNeed = ActionNeed::Right(Right::Administer);
/// What the owner may see.
const SEE: ActionNeed = ActionNeed::Own { others: Right::Read };
/// What the owner may change.
const CHANGE: ActionNeed = ActionNeed::Own { others: Right::ModifyAnyJob };
const ENTER: ActionNeed = ActionNeed::Own { others: Right::ExecAnyTask };

/// The name of what a request is about, by the kind of object that its fields name.
macro_rules! object {
    ($request:ident) => {
        String::new()
    };
    ($request:ident, spec) => {{
        let spec = $request.spec.as_ref();
        format!("job/{}/{}", spec_user(spec), spec.map_or("", |spec| spec.name.as_str()))
    }};
    ($request:ident, task) => {
        format!("task/{}/{}/{}", $request.user, $request.job, $request.index)
    };
    ($request:ident, quota) => {
        format!("quota/{}/{}", $request.user, band_text($request.band))
    };
    ($request:ident, grant) => {
        format!("grant/{}", $request.grant.as_ref().map_or("", |grant| grant.subject.as_str()))
    };
    ($request:ident, node) => {
        format!("node/{}", $request.name)
    };
    ($request:ident, cell) => {
        format!("cell/{}", $request.name)
    };
    ($request:ident, member) => {
        format!("member/{}", $request.member)
    };
    ($request:ident, $kind:ident) => {
        format!("{}/{}/{}", stringify!($kind), $request.user, $request.name)
    };
}

macro_rules! methods {
    ($($method:literal = $request:ident: $need:expr, $cell:ident, $owner:expr $(, $object:ident)?;)*) => {
        $(impl Ask for v1::$request {
            const METHOD: &'static str = $method;
            const NEED: ActionNeed = $need;

            fn context_mut(&mut self) -> &mut Option<v1::RequestContext> {
                &mut self.context
            }

            fn cell(&self) -> &str {
                &self.$cell
            }

            fn owner(&self) -> &str {
                let owner: fn(&Self) -> &str = $owner;
                owner(self)
            }

            fn object(&self) -> String {
                object!(self $(, $object)?)
            }
        })*

        /// Every method that services answer, in the order of services. `AgentService` has sessions of nodes, which
        /// tokens of nodes open.
        pub const METHODS: &[MethodRule] = &[
            MethodRule { method: "CellService/ListCells", need: ActionNeed::Identity },
            // The change that it asks about has a need of its own.
            MethodRule { method: "DryRunService/DryRun", need: ActionNeed::Identity },
            $(MethodRule { method: $method, need: $need },)*
        ];
    };
}

/// What concerns everybody.
fn nobody<T>(_: &T) -> &str {
    ""
}

fn spec_user(spec: Option<&v1::JobSpec>) -> &str {
    spec.map_or("", |spec| spec.user.as_str())
}

/// The user whose line it is. That of a group concerns everybody.
fn quota_user(holder: &str) -> &str {
    let user = holder.strip_prefix("user/").unwrap_or(holder);
    if user.starts_with("group/") { "" } else { user }
}

fn band_text(band: i32) -> &'static str {
    match v1::Band::try_from(band) {
        Ok(v1::Band::BestEffort) => Band::BestEffort.name(),
        Ok(v1::Band::Batch) => Band::Batch.name(),
        Ok(v1::Band::Production) => Band::Production.name(),
        Ok(v1::Band::Monitoring) => Band::Monitoring.name(),
        Ok(v1::Band::Unspecified) | Err(_) => "",
    }
}

fn filter_user(filter: Option<&v1::WatchFilter>) -> &str {
    filter.map_or("", |filter| filter.user.as_str())
}

methods! {
    "CellService/GetCell" = GetCellRequest: ActionNeed::Any, name, nobody;
    "CellService/UpdateCell" = UpdateCellRequest: ADMINISTER, name, nobody, cell;

    "JobService/SubmitJob" = SubmitJobRequest: CHANGE, cell, |request| spec_user(request.spec.as_ref()), spec;
    "JobService/PlanJob" = PlanJobRequest: SEE, cell, |request| spec_user(request.spec.as_ref()), spec;
    "JobService/ScaleJob" = ScaleJobRequest: CHANGE, cell, |request| &request.user, job;
    "JobService/OrderRollout" = OrderRolloutRequest: CHANGE, cell, |request| &request.user, job;
    "JobService/StopJob" = StopJobRequest: CHANGE, cell, |request| &request.user, job;
    "JobService/PurgeJob" = PurgeJobRequest: CHANGE, cell, |request| &request.user, job;
    "JobService/LabelJob" = LabelJobRequest: CHANGE, cell, |request| &request.user, job;
    "JobService/GetJob" = GetJobRequest: SEE, cell, |request| &request.user, job;
    "JobService/ListJobs" = ListJobsRequest: SEE, cell, |request| &request.user;
    "JobService/GetJobHistory" = GetJobHistoryRequest: SEE, cell, |request| &request.user, job;

    "TaskService/ListTasks" = ListTasksRequest: SEE, cell, |request| &request.user;
    "TaskService/ExplainTask" = ExplainTaskRequest: SEE, cell, |request| &request.user;
    "TaskService/ReadLogs" = ReadLogsRequest: SEE, cell, |request| &request.user, task;
    "TaskService/Exec" = ExecOpen: ENTER, cell, |request| &request.user, task;
    "TaskService/SignalTask" = SignalTaskRequest: CHANGE, cell, |request| &request.user, task;
    "TaskService/RestartTask" = RestartTaskRequest: CHANGE, cell, |request| &request.user, task;
    "TaskService/StopTask" = StopTaskRequest: CHANGE, cell, |request| &request.user, task;

    "NodeService/ListNodes" = ListNodesRequest: READ, cell, nobody;
    "NodeService/GetNode" = GetNodeRequest: READ, cell, nobody, node;
    "NodeService/CordonNode" = CordonNodeRequest: ADMINISTER, cell, nobody, node;
    "NodeService/UncordonNode" = UncordonNodeRequest: ADMINISTER, cell, nobody, node;
    "NodeService/DrainNode" = DrainNodeRequest: ADMINISTER, cell, nobody, node;
    "NodeService/TaintNode" = TaintNodeRequest: ADMINISTER, cell, nobody, node;
    "NodeService/UntaintNode" = UntaintNodeRequest: ADMINISTER, cell, nobody, node;
    "NodeService/AdmitNode" = AdmitNodeRequest: ADMINISTER, cell, nobody, node;
    "NodeService/LabelNode" = LabelNodeRequest: ADMINISTER, cell, nobody, node;
    "NodeService/RemoveNode" = RemoveNodeRequest: ADMINISTER, cell, nobody, node;
    "NodeService/CreateJoinToken" = CreateJoinTokenRequest: ADMINISTER, cell, nobody, node;
    "NodeService/ListJoinTokens" = ListJoinTokensRequest: ADMINISTER, cell, nobody;
    "NodeService/RevokeJoinToken" = RevokeJoinTokenRequest: ADMINISTER, cell, nobody, node;

    "NameService/ListEndpoints" = ListEndpointsRequest: SEE, cell, |request| &request.user;
    "NameService/WatchEndpoints" = WatchEndpointsRequest: SEE, cell, |request| &request.user;

    "MergeService/ListMergedServices" = ListMergedServicesRequest: SEE, cell, |request| &request.user;
    "MergeService/GetMergedService" = GetMergedServiceRequest: SEE, cell, |request| &request.user;
    "MergeService/SetMergedService" = SetMergedServiceRequest: CHANGE, cell, |request| &request.user, service;
    "MergeService/RemoveMergedService" = RemoveMergedServiceRequest: CHANGE, cell, |request| &request.user, service;

    "MemberService/ListMembers" = ListMembersRequest: READ, cell, nobody;
    "MemberService/GetMember" = GetMemberRequest: READ, cell, nobody, member;
    "MemberService/JoinMember" = JoinMemberRequest: ADMINISTER, cell, nobody, member;
    "MemberService/ChangeMember" = ChangeMemberRequest: ADMINISTER, cell, nobody, member;
    "MemberService/RemoveMember" = RemoveMemberRequest: ADMINISTER, cell, nobody, member;

    "FederatedService/RunFederatedJob" = RunFederatedJobRequest: CHANGE, cell, |request| &request.user, federated_job;
    "FederatedService/PlanFederatedJob" = PlanFederatedJobRequest: SEE, cell, |request| &request.user, federated_job;
    "FederatedService/ListFederatedJobs" = ListFederatedJobsRequest: SEE, cell, |request| &request.user;
    "FederatedService/GetFederatedJob" = GetFederatedJobRequest: SEE, cell, |request| &request.user, federated_job;
    "FederatedService/ScaleFederatedJob" = ScaleFederatedJobRequest: CHANGE, cell, |request| &request.user,
        federated_job;
    "FederatedService/StopFederatedJob" = StopFederatedJobRequest: CHANGE, cell, |request| &request.user, federated_job;
    "FederatedService/RebalanceFederatedJob" = RebalanceFederatedJobRequest: CHANGE, cell, |request| &request.user,
        federated_job;
    "FederatedService/OrderFederatedRelease" = OrderFederatedReleaseRequest: CHANGE, cell, |request| &request.user,
        federated_job;
    "FederatedService/ForgetFederatedJob" = ForgetFederatedJobRequest: CHANGE, cell, |request| &request.user,
        federated_job;
    "FederatedService/GetFederatedJobHistory" = GetFederatedJobHistoryRequest: SEE, cell, |request| &request.user,
        federated_job;

    "QuotaService/ListQuotas" = ListQuotasRequest: SEE, cell, |request| quota_user(&request.user);
    "QuotaService/GetQuota" = GetQuotaRequest: SEE, cell, |request| quota_user(&request.user);
    "QuotaService/SetQuota" = SetQuotaRequest: ADMINISTER, cell, nobody, quota;

    "AccessService/ListGrants" = ListGrantsRequest: READ, cell, nobody;
    "AccessService/GetGrant" = GetGrantRequest: READ, cell, nobody;
    "AccessService/SetGrant" = SetGrantRequest: ADMINISTER, cell, nobody, grant;
    "AccessService/CheckAccess" = CheckAccessRequest: ActionNeed::Identity, cell, nobody;
    "AccessService/ListHolders" = ListHoldersRequest: READ, cell, nobody;
    "AccessService/ListIdentityKeys" = ListIdentityKeysRequest: READ, cell, nobody;
    "AccessService/RotateIdentityKeys" = RotateIdentityKeysRequest: ADMINISTER, cell, nobody;

    "AuditService/ListAudit" = ListAuditRequest: ADMINISTER, cell, nobody;
    "AuditService/ListAuditChunks" = ListAuditChunksRequest: ADMINISTER, cell, nobody;

    "WatchService/Watch" = WatchRequest: SEE, cell, |request| filter_user(request.filter.as_ref());
    "WatchService/ListEvents" = ListEventsRequest: SEE, cell, |request| filter_user(request.filter.as_ref());
}
