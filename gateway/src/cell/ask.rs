//! What every method of the API needs of its caller: the one table of methods.
//!
//! A service reaches a cell only through `Cells::admit_read` and `Cells::admit_change`, which a request without a line
//! in the table does not fit. An operator's token may do everything, in every user's name. A user's credential may do
//! what the cell's grants say.

use borough_model::access::{ActionNeed, Right};
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

macro_rules! methods {
    ($($method:literal = $request:ident: $need:expr, $cell:ident, $owner:expr;)*) => {
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
        })*

        /// Every method that services answer, in the order of services. `AgentService` has sessions of nodes, which
        /// tokens of nodes open.
        pub const METHODS: &[MethodRule] = &[
            MethodRule { method: "CellService/ListCells", need: ActionNeed::Identity },
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

fn filter_user(filter: Option<&v1::WatchFilter>) -> &str {
    filter.map_or("", |filter| filter.user.as_str())
}

methods! {
    "CellService/GetCell" = GetCellRequest: ActionNeed::Any, name, nobody;
    "CellService/UpdateCell" = UpdateCellRequest: ADMINISTER, name, nobody;

    "JobService/SubmitJob" = SubmitJobRequest: CHANGE, cell, |request| spec_user(request.spec.as_ref());
    "JobService/PlanJob" = PlanJobRequest: SEE, cell, |request| spec_user(request.spec.as_ref());
    "JobService/ScaleJob" = ScaleJobRequest: CHANGE, cell, |request| &request.user;
    "JobService/OrderRollout" = OrderRolloutRequest: CHANGE, cell, |request| &request.user;
    "JobService/StopJob" = StopJobRequest: CHANGE, cell, |request| &request.user;
    "JobService/PurgeJob" = PurgeJobRequest: CHANGE, cell, |request| &request.user;
    "JobService/LabelJob" = LabelJobRequest: CHANGE, cell, |request| &request.user;
    "JobService/GetJob" = GetJobRequest: SEE, cell, |request| &request.user;
    "JobService/ListJobs" = ListJobsRequest: SEE, cell, |request| &request.user;
    "JobService/GetJobHistory" = GetJobHistoryRequest: SEE, cell, |request| &request.user;

    "TaskService/ListTasks" = ListTasksRequest: SEE, cell, |request| &request.user;
    "TaskService/ExplainTask" = ExplainTaskRequest: SEE, cell, |request| &request.user;
    "TaskService/ReadLogs" = ReadLogsRequest: SEE, cell, |request| &request.user;
    "TaskService/Exec" = ExecOpen: ENTER, cell, |request| &request.user;
    "TaskService/SignalTask" = SignalTaskRequest: CHANGE, cell, |request| &request.user;
    "TaskService/RestartTask" = RestartTaskRequest: CHANGE, cell, |request| &request.user;
    "TaskService/StopTask" = StopTaskRequest: CHANGE, cell, |request| &request.user;

    "NodeService/ListNodes" = ListNodesRequest: READ, cell, nobody;
    "NodeService/GetNode" = GetNodeRequest: READ, cell, nobody;
    "NodeService/CordonNode" = CordonNodeRequest: ADMINISTER, cell, nobody;
    "NodeService/UncordonNode" = UncordonNodeRequest: ADMINISTER, cell, nobody;
    "NodeService/DrainNode" = DrainNodeRequest: ADMINISTER, cell, nobody;
    "NodeService/TaintNode" = TaintNodeRequest: ADMINISTER, cell, nobody;
    "NodeService/UntaintNode" = UntaintNodeRequest: ADMINISTER, cell, nobody;
    "NodeService/AdmitNode" = AdmitNodeRequest: ADMINISTER, cell, nobody;
    "NodeService/LabelNode" = LabelNodeRequest: ADMINISTER, cell, nobody;
    "NodeService/RemoveNode" = RemoveNodeRequest: ADMINISTER, cell, nobody;

    "NameService/ListEndpoints" = ListEndpointsRequest: SEE, cell, |request| &request.user;
    "NameService/WatchEndpoints" = WatchEndpointsRequest: SEE, cell, |request| &request.user;

    "MergeService/ListMergedServices" = ListMergedServicesRequest: SEE, cell, |request| &request.user;
    "MergeService/GetMergedService" = GetMergedServiceRequest: SEE, cell, |request| &request.user;
    "MergeService/SetMergedService" = SetMergedServiceRequest: CHANGE, cell, |request| &request.user;
    "MergeService/RemoveMergedService" = RemoveMergedServiceRequest: CHANGE, cell, |request| &request.user;

    "QuotaService/ListQuotas" = ListQuotasRequest: SEE, cell, |request| &request.user;
    "QuotaService/GetQuota" = GetQuotaRequest: SEE, cell, |request| &request.user;
    "QuotaService/SetQuota" = SetQuotaRequest: ADMINISTER, cell, nobody;

    "AccessService/ListGrants" = ListGrantsRequest: READ, cell, nobody;
    "AccessService/GetGrant" = GetGrantRequest: READ, cell, nobody;
    "AccessService/SetGrant" = SetGrantRequest: ADMINISTER, cell, nobody;
    "AccessService/CheckAccess" = CheckAccessRequest: ActionNeed::Identity, cell, nobody;
    "AccessService/ListHolders" = ListHoldersRequest: READ, cell, nobody;

    "WatchService/Watch" = WatchRequest: SEE, cell, |request| filter_user(request.filter.as_ref());
    "WatchService/ListEvents" = ListEventsRequest: SEE, cell, |request| filter_user(request.filter.as_ref());
}
