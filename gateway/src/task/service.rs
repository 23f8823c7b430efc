//! The gRPC service of tasks.

use std::sync::Arc;
use std::time::Duration;

use borough_model::{TaskId, TaskRow, TaskState};
use borough_proto::v1;
use borough_proto::v1::exec_request::Message as FromCaller;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_proto::v1::task_service_server::TaskService;
use borough_store::task::{task_attempt_stop, task_restart};
use borough_store::{RefusalRemedy, StoreError, StoreResult};
use tonic::{Request, Response, Status, Streaming};

use super::exec::{ExecStream, command_check, exec_again, exec_start};
use super::explain::task_explained;
use super::list::tasks_listed;
use super::log::{LogStream, log_read};
use super::message::{job_found, task_found};
use super::session::{AgentReached, FoundAttempt, WantedAttempt, attempt_found};
use super::slot::{StreamSlots, window_of};
use crate::cell::{
    Ask as _, Asked, CallSeen, Caller, CellContext, Cells, KeyedRequest, admit_stream, cursor_to_message,
    keyed_found, keyed_run,
};
use crate::peer::{Peers, is_handed_on};
use crate::session::message::attempt_to_message;
use crate::session::registry::AgentAnswer;
use crate::status::{status_from_field, status_from_store, status_refused, status_unavailable};

/// How long an agent has to answer a command.
const COMMAND_WAIT: Duration = Duration::from_secs(10);

/// Lists, explains, restarts and signals tasks, and streams their logs.
#[derive(Clone)]
pub struct TaskServer {
    cells: Arc<Cells>,
    peers: Peers,
    streams: StreamSlots,
}

impl TaskServer {
    /// Serves `cells`. Forwards calls to `peers` if another gateway holds the agent's session.
    pub fn new(cells: Arc<Cells>, peers: Peers) -> Self {
        Self { cells, peers, streams: StreamSlots::default() }
    }
}

#[tonic::async_trait]
impl TaskService for TaskServer {
    type ReadLogsStream = LogStream;
    type ExecStream = ExecStream;

    async fn list_tasks(
        &self,
        request: Request<v1::ListTasksRequest>,
    ) -> Result<Response<v1::ListTasksResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        Ok(Response::new(tasks_listed(cell, &request).await?))
    }

    async fn explain_task(
        &self,
        request: Request<v1::ExplainTaskRequest>,
    ) -> Result<Response<v1::ExplainTaskResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        Ok(Response::new(task_explained(cell, &self.peers, &request).await?))
    }

    async fn read_logs(&self, request: Request<v1::ReadLogsRequest>) -> Result<Response<LogStream>, Status> {
        let handed_on = is_handed_on(request.metadata());
        let (Asked { cell, message: request }, ongoing) = self.cells.admit_watch(request)?;
        let slot = self.streams.take_for(window_of(request.window_bytes))?;
        let (index, incarnation) = (request.index, request.incarnation);
        let wanted = WantedAttempt { user: &request.user, job: &request.job, index, incarnation, handed_on };
        match attempt_found(cell, &self.peers, &wanted).await? {
            AgentReached::Here(found) => {
                Ok(Response::new(ongoing.hold(log_read(found, &request, slot).await?)))
            }
            AgentReached::Elsewhere(gateway) => {
                let task = format!("{}/{}/{}", request.user, request.job, request.index);
                let stream = self.peers.tasks(&gateway)?.read_logs(request).await;
                let stream = stream.map_err(|status| Peers::refusal(&task, status))?.into_inner();
                Ok(Response::new(ongoing.hold(slot.held(stream))))
            }
        }
    }

    async fn exec(
        &self,
        request: Request<Streaming<v1::ExecRequest>>,
    ) -> Result<Response<ExecStream>, Status> {
        let handed_on = is_handed_on(request.metadata());
        let seen = CallSeen::of(request.extensions())?;
        let mut inbound = request.into_inner();
        let open = match inbound.message().await?.and_then(|first| first.message) {
            Some(FromCaller::Open(open)) => open,
            _ => return Err(Status::invalid_argument("the first message of an exec opens it")),
        };
        let (Asked { cell, message: open }, ongoing) = admit_stream(&self.cells, &seen, open)?;
        command_check(&open)?;
        let slot = self.streams.take()?;
        let wanted = WantedAttempt {
            user: &open.user,
            job: &open.job,
            index: open.index,
            incarnation: None,
            handed_on,
        };
        match attempt_found(cell, &self.peers, &wanted).await? {
            AgentReached::Here(found) => {
                running(&found.row, &open.user, &open.job)?;
                let started = exec_start(found, open, inbound, slot).await?;
                // Another gateway that has handed it on knows who asked, and from where.
                if !handed_on {
                    cell.audit.done(seen.trace.call(v1::ExecOpen::METHOD), cell.clock.wall_ms());
                }
                Ok(Response::new(ongoing.hold(started)))
            }
            AgentReached::Elsewhere(gateway) => {
                let task = format!("{}/{}/{}", open.user, open.job, open.index);
                let stream = self.peers.tasks(&gateway)?.exec(exec_again(open, inbound)).await;
                let stream = stream.map_err(|status| Peers::refusal(&task, status))?;
                cell.audit.done(seen.trace.call(v1::ExecOpen::METHOD), cell.clock.wall_ms());
                Ok(Response::new(ongoing.hold(slot.held(stream.into_inner()))))
            }
        }
    }

    async fn signal_task(
        &self,
        request: Request<v1::SignalTaskRequest>,
    ) -> Result<Response<v1::SignalTaskResponse>, Status> {
        let handed_on = is_handed_on(request.metadata());
        let (cell, caller, request) = self.cells.admit_change(request)?;
        if !(1..=64).contains(&request.signal) {
            let given = request.signal.to_string();
            let refused = borough_proto::convert::FieldRefused::new("signal", given, "a number from 1 to 64");
            return Err(status_from_field(&refused));
        }
        let (user, job, index) = (&request.user, &request.job, request.index);
        let incarnation = signal_attempt(cell, &caller, &request).await?;
        let wanted = WantedAttempt { user, job, index, incarnation: Some(incarnation), handed_on };
        match attempt_found(cell, &self.peers, &wanted).await? {
            AgentReached::Here(found) => {
                signal_send(&found, &caller, request.signal).await?;
                Ok(Response::new(v1::SignalTaskResponse {}))
            }
            AgentReached::Elsewhere(gateway) => {
                let task = format!("{}/{}/{}", request.user, request.job, request.index);
                let sent = self.peers.tasks(&gateway)?.signal_task(request).await;
                sent.map_err(|status| Peers::refusal(&task, status))
            }
        }
    }

    async fn restart_task(
        &self,
        request: Request<v1::RestartTaskRequest>,
    ) -> Result<Response<v1::RestartTaskResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let keyed = KeyedRequest::new(&caller, "task_restart", &request);
        let task = TaskNamed { user: &request.user, job: &request.job, index: request.index };
        let (incarnation, cursor) =
            attempt_end(cell, &keyed, &task, AttemptMeant::default(), AttemptEnd::Restart).await?;
        Ok(Response::new(v1::RestartTaskResponse { cursor, incarnation }))
    }

    async fn stop_task(
        &self,
        request: Request<v1::StopTaskRequest>,
    ) -> Result<Response<v1::StopTaskResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let keyed = KeyedRequest::new(&caller, "task_attempt_stop", &request);
        let task = TaskNamed { user: &request.user, job: &request.job, index: request.index };
        let meant = AttemptMeant { job: &request.expected_job, incarnation: request.expected_incarnation };
        let (incarnation, cursor) = attempt_end(cell, &keyed, &task, meant, AttemptEnd::Move).await?;
        Ok(Response::new(v1::StopTaskResponse { cursor, incarnation }))
    }
}

/// A task as a request names it.
struct TaskNamed<'a> {
    user: &'a str,
    job: &'a str,
    index: u32,
}

/// The attempt that a caller has seen. The default is any.
#[derive(Clone, Copy, Default)]
struct AttemptMeant<'a> {
    /// The id of the job; empty: any.
    job: &'a str,
    /// 0: any.
    incarnation: u64,
}

impl AttemptMeant<'_> {
    fn check(self, task: TaskId, incarnation: u64) -> StoreResult<()> {
        if !self.job.is_empty() && self.job != task.job.to_string() {
            return Err(StoreError::refused_with(
                RefusalRemedy::ReadAgain,
                format!("job {} is over, and the name has another one", self.job),
            ));
        }
        if self.incarnation != 0 && self.incarnation != incarnation {
            let Self { incarnation: meant, .. } = self;
            return Err(StoreError::refused_with(
                RefusalRemedy::ReadAgain,
                format!("attempt {meant} is not the present one, which is {incarnation}"),
            ));
        }
        Ok(())
    }
}

/// What the owner of a task wants after the end of its attempt.
#[derive(Clone, Copy)]
enum AttemptEnd {
    Restart,
    /// The next attempt, preferably on another node.
    Move,
}

/// Ends the attempt of a task. Returns the attempt, and the position of the change.
async fn attempt_end(
    cell: &CellContext,
    keyed: &KeyedRequest,
    task: &TaskNamed<'_>,
    meant: AttemptMeant<'_>,
    end: AttemptEnd,
) -> Result<(u64, Option<v1::Cursor>), Status> {
    let found = cell.state(|state| {
        let job = job_found(state, &cell.name, task.user, task.job)?;
        Ok::<_, Status>(task_found(state, &cell.name, job, task.index)?.id)
    })?;
    // A completed request keeps its answer, even if the job is forgotten by now.
    let task = keyed_found(cell, keyed, found).await?;
    let ended = keyed_run(cell, keyed, |tx, mut changes| async move {
        let task = task.ok_or_else(|| StoreError::not_found("the task"))?;
        let row = match end {
            AttemptEnd::Restart => task_restart(&tx, &mut changes, task).await?,
            AttemptEnd::Move => task_attempt_stop(&tx, &mut changes, task).await?,
        };
        meant.check(task, row.incarnation.0)?;
        Ok((row.incarnation.0, changes))
    });
    let (incarnation, cursor) = cell.settled(ended.await).await?;
    Ok((incarnation, Some(cursor_to_message(cursor))))
}

/// The attempt that a signal is for: the one that runs when the request first arrives. It is recorded under the
/// request's id. A repetition, also through another gateway, reaches the same attempt and never its successor.
async fn signal_attempt(
    cell: &CellContext,
    caller: &Caller,
    request: &v1::SignalTaskRequest,
) -> Result<u64, Status> {
    let found = cell.state(|state| {
        let job = job_found(state, &cell.name, &request.user, &request.job)?;
        let row = task_found(state, &cell.name, job, request.index)?;
        running(&row, &request.user, &request.job)?;
        Ok::<_, Status>(row.incarnation.0)
    })?;
    let keyed = KeyedRequest::new(caller, "task_signal", request).beyond_changes();
    let found = keyed_found(cell, &keyed, found).await?;
    let recorded = keyed_run(cell, &keyed, |_, changes| async move {
        Ok((found.ok_or_else(|| StoreError::not_found("the task"))?, changes))
    });
    Ok(recorded.await.map_err(|error| status_from_store(&error))?.0)
}

/// Sends the signal to the agent and waits for its answer. The agent remembers the request's id. A call that is
/// repeated because its answer was late therefore sends no second signal.
async fn signal_send(found: &FoundAttempt, caller: &Caller, signal: i32) -> Result<(), Status> {
    let mut answers = found.session.request();
    let attempt = Some(attempt_to_message(found.attempt));
    let request_id = caller.request.to_string();
    let command = v1::SignalCommand { id: answers.id, attempt, signal, request_id };
    found.session.send(ToAgent::Signal(command)).await;
    let answer = tokio::time::timeout(COMMAND_WAIT, answers.next()).await;
    match answer {
        Ok(Some(AgentAnswer::Result(error))) if error.is_empty() => Ok(()),
        Ok(Some(AgentAnswer::Result(error))) => Err(status_refused("SIGNAL_REFUSED", error)),
        Ok(Some(AgentAnswer::Gone)) => Err(found.agent.away().await),
        Ok(_) | Err(_) => {
            let text = format!("the agent that has task {} did not answer in time", found.agent.task);
            Err(status_unavailable("AGENT_SILENT", text))
        }
    }
}

fn running(row: &TaskRow, user: &str, job: &str) -> Result<(), Status> {
    match row.state {
        TaskState::Running | TaskState::Stopping => Ok(()),
        state => {
            let state = format!("{state:?}").to_lowercase();
            Err(status_refused(
                "NOT_RUNNING",
                format!("task {user}/{job}/{} is {state}, not running", row.id.index),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_model::Incarnation;
    use borough_model::task::{Attempt, EndReason, Exit, StopReason, TaskEvent};

    use super::super::away::TaskAgent;
    use super::*;
    use crate::cell::caller_of_mutation;
    use crate::cell::tests::{TASK, TestGateway, context};
    use crate::session::desired;
    use crate::session::registry::Opening;

    /// A signal for one attempt never reaches its successor, however late its caller repeats it.
    #[tokio::test(start_paused = true)]
    async fn a_repeated_signal_is_for_the_attempt_that_ran_when_it_first_came() {
        let gateway = TestGateway::new().await;
        let cell = gateway.cells.get("alpha").unwrap();
        let signal = async |request: u128| {
            let request = v1::SignalTaskRequest {
                context: context(request),
                cell: "alpha".to_owned(),
                user: "ada".to_owned(),
                job: "web".to_owned(),
                index: TASK.index,
                signal: 15,
            };
            let caller = caller_of_mutation(request.context.as_ref()).unwrap();
            signal_attempt(cell, &caller, &request).await
        };
        assert_eq!(signal(1).await.unwrap(), 1);
        let node = cell.mirror.read(|state| state.tasks().get(&TASK).unwrap().node).unwrap();
        let attempt = Attempt { node, incarnation: Incarnation(1) };
        let exit = Exit {
            reason: EndReason::Signaled,
            code: None,
            signal: Some(15),
            message: String::new(),
            at_ms: 1_000,
            incarnation: attempt.incarnation,
            node: Some(node),
            start_failure: None,
        };
        let spec = cell.mirror.read(|state| {
            let job = state.jobs().get(&TASK.job).unwrap();
            state.spec_of(job).unwrap().as_ref().into()
        });
        let stop = TaskEvent::StopRequested { reason: StopReason::Restart };
        let ended = TaskEvent::ProcessExited { attempt, exit, released: true, rules: spec };
        gateway.task_events(&[stop, ended]).await;
        assert_eq!(signal(1).await.unwrap(), 1, "nothing runs, and it is answered as before");
        let refused = signal(2).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "a new one is refused");
        gateway.task_starts(2).await;
        assert_eq!(signal(1).await.unwrap(), 1);
        assert_eq!(signal(3).await.unwrap(), 2);
    }

    /// The agent recognises a repeated signal by the id of its request.
    #[tokio::test(start_paused = true)]
    async fn a_signal_goes_to_the_agent_under_the_id_of_its_request() {
        let gateway = TestGateway::new().await;
        let cell = gateway.cells.get("alpha").unwrap();
        let row = cell.mirror.read(|state| Arc::clone(state.tasks().get(&TASK).unwrap()));
        let opening = Opening {
            node: row.node.unwrap(),
            id: 7,
            now: Duration::ZERO,
            report_interval: Duration::from_secs(1),
            failed: 0,
        };
        let (session, mut outbound) = cell.sessions.open(opening);
        let attempt = desired::DesiredAttempt { task: TASK, incarnation: row.incarnation };
        let agent = TaskAgent { cell: Arc::clone(cell), task: "ada/web/0".to_owned(), node: opening.node };
        let found = FoundAttempt { row, attempt, session: Arc::clone(&session), agent };
        let caller = caller_of_mutation(context(9).as_ref()).unwrap();
        let agent = async {
            let message = outbound.recv().await.unwrap().unwrap().message;
            let Some(ToAgent::Signal(command)) = message else { panic!("no signal: {message:?}") };
            session.answer(command.id, AgentAnswer::Result(String::new()));
            (command.request_id, command.signal)
        };
        let (sent, received) = tokio::join!(signal_send(&found, &caller, 15), agent);
        sent.unwrap();
        assert_eq!(received, (caller.request.to_string(), 15));
    }
}
