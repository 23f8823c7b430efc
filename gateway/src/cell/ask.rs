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

macro_rules! methods {
    ($($method:literal = $request:ident: $need:expr, $cell:ident, $owner:expr $(, $object:expr)?;)*) => {
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
                let objects: &[fn(&Self) -> String] = &[$($object)?];
                objects.first().map(|object| object(self)).unwrap_or_default()
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

fn spec_name(spec: Option<&v1::JobSpec>) -> &str {
    spec.map_or("", |spec| spec.name.as_str())
}

fn grant_subject(grant: Option<&v1::Grant>) -> &str {
    grant.map_or("", |grant| grant.subject.as_str())
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

/// The name of an object: its kind and its parts.
fn named(parts: &[&str]) -> String {
    parts.join("/")
}

fn filter_user(filter: Option<&v1::WatchFilter>) -> &str {
    filter.map_or("", |filter| filter.user.as_str())
}

methods! {
    "CellService/GetCell" = GetCellRequest: ActionNeed::Any, name, nobody;
    "CellService/UpdateCell" = UpdateCellRequest: ADMINISTER, name, nobody,
        |request| named(&["cell", &request.name]);

    "JobService/SubmitJob" = SubmitJobRequest: CHANGE, cell, |request| spec_user(request.spec.as_ref()),
        |request| named(&["job", spec_user(request.spec.as_ref()), spec_name(request.spec.as_ref())]);
    "JobService/PlanJob" = PlanJobRequest: SEE, cell, |request| spec_user(request.spec.as_ref()),
        |request| named(&["job", spec_user(request.spec.as_ref()), spec_name(request.spec.as_ref())]);
    "JobService/ScaleJob" = ScaleJobRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["job", &request.user, &request.name]);
    "JobService/OrderRollout" = OrderRolloutRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["job", &request.user, &request.name]);
    "JobService/StopJob" = StopJobRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["job", &request.user, &request.name]);
    "JobService/PurgeJob" = PurgeJobRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["job", &request.user, &request.name]);
    "JobService/LabelJob" = LabelJobRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["job", &request.user, &request.name]);
    "JobService/GetJob" = GetJobRequest: SEE, cell, |request| &request.user,
        |request| named(&["job", &request.user, &request.name]);
    "JobService/ListJobs" = ListJobsRequest: SEE, cell, |request| &request.user;
    "JobService/GetJobHistory" = GetJobHistoryRequest: SEE, cell, |request| &request.user,
        |request| named(&["job", &request.user, &request.name]);

    "TaskService/ListTasks" = ListTasksRequest: SEE, cell, |request| &request.user;
    "TaskService/ExplainTask" = ExplainTaskRequest: SEE, cell, |request| &request.user;
    "TaskService/ReadLogs" = ReadLogsRequest: SEE, cell, |request| &request.user,
        |request| named(&["task", &request.user, &request.job, &request.index.to_string()]);
    "TaskService/Exec" = ExecOpen: ENTER, cell, |request| &request.user,
        |request| named(&["task", &request.user, &request.job, &request.index.to_string()]);
    "TaskService/SignalTask" = SignalTaskRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["task", &request.user, &request.job, &request.index.to_string()]);
    "TaskService/RestartTask" = RestartTaskRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["task", &request.user, &request.job, &request.index.to_string()]);
    "TaskService/StopTask" = StopTaskRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["task", &request.user, &request.job, &request.index.to_string()]);

    "NodeService/ListNodes" = ListNodesRequest: READ, cell, nobody;
    "NodeService/GetNode" = GetNodeRequest: READ, cell, nobody,
        |request| named(&["node", &request.name]);
    "NodeService/CordonNode" = CordonNodeRequest: ADMINISTER, cell, nobody,
        |request| named(&["node", &request.name]);
    "NodeService/UncordonNode" = UncordonNodeRequest: ADMINISTER, cell, nobody,
        |request| named(&["node", &request.name]);
    "NodeService/DrainNode" = DrainNodeRequest: ADMINISTER, cell, nobody,
        |request| named(&["node", &request.name]);
    "NodeService/TaintNode" = TaintNodeRequest: ADMINISTER, cell, nobody,
        |request| named(&["node", &request.name]);
    "NodeService/UntaintNode" = UntaintNodeRequest: ADMINISTER, cell, nobody,
        |request| named(&["node", &request.name]);
    "NodeService/AdmitNode" = AdmitNodeRequest: ADMINISTER, cell, nobody,
        |request| named(&["node", &request.name]);
    "NodeService/LabelNode" = LabelNodeRequest: ADMINISTER, cell, nobody,
        |request| named(&["node", &request.name]);
    "NodeService/RemoveNode" = RemoveNodeRequest: ADMINISTER, cell, nobody,
        |request| named(&["node", &request.name]);

    "NameService/ListEndpoints" = ListEndpointsRequest: SEE, cell, |request| &request.user;
    "NameService/WatchEndpoints" = WatchEndpointsRequest: SEE, cell, |request| &request.user;

    "MergeService/ListMergedServices" = ListMergedServicesRequest: SEE, cell, |request| &request.user;
    "MergeService/GetMergedService" = GetMergedServiceRequest: SEE, cell, |request| &request.user;
    "MergeService/SetMergedService" = SetMergedServiceRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["service", &request.user, &request.name]);
    "MergeService/RemoveMergedService" = RemoveMergedServiceRequest: CHANGE, cell, |request| &request.user,
        |request| named(&["service", &request.user, &request.name]);

    "QuotaService/ListQuotas" = ListQuotasRequest: SEE, cell, |request| &request.user;
    "QuotaService/GetQuota" = GetQuotaRequest: SEE, cell, |request| &request.user;
    "QuotaService/SetQuota" = SetQuotaRequest: ADMINISTER, cell, nobody,
        |request| named(&["quota", &request.user, band_text(request.band)]);

    "AccessService/ListGrants" = ListGrantsRequest: READ, cell, nobody;
    "AccessService/GetGrant" = GetGrantRequest: READ, cell, nobody;
    "AccessService/SetGrant" = SetGrantRequest: ADMINISTER, cell, nobody,
        |request| named(&["grant", grant_subject(request.grant.as_ref())]);
    "AccessService/CheckAccess" = CheckAccessRequest: ActionNeed::Identity, cell, nobody;
    "AccessService/ListHolders" = ListHoldersRequest: READ, cell, nobody;

    "AuditService/ListAudit" = ListAuditRequest: ADMINISTER, cell, nobody;
    "AuditService/ListAuditChunks" = ListAuditChunksRequest: ADMINISTER, cell, nobody;

    "WatchService/Watch" = WatchRequest: SEE, cell, |request| filter_user(request.filter.as_ref());
    "WatchService/ListEvents" = ListEventsRequest: SEE, cell, |request| filter_user(request.filter.as_ref());
}
