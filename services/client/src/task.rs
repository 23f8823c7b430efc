//! Tasks: their state, their output, and operations on a single one.

use borough_proto::bounds::{REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX};
use borough_proto::v1::task_service_client::TaskServiceClient;
use borough_proto::v1::{
    Cursor, ExecOpen, ExecRequest, ExecResponse, ExplainTaskRequest, ExplainTaskResponse, LabelMatch,
    ListTasksRequest, ListTasksResponse, PageRequest, RestartTaskRequest, RestartTaskResponse,
    SignalTaskRequest, StopTaskRequest, StopTaskResponse, Task, TaskCondition, TaskState, WindowSize,
    exec_request,
};
use futures::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use tonic::Streaming;

use crate::call::{Client, ItemStream, rpc};
use crate::error::ClientError;
use crate::job::JobRef;

/// A task by its job and index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskRef {
    pub job: JobRef,
    /// Its number within the job, from 0.
    pub index: u32,
}

impl std::fmt::Display for TaskRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.job, self.index)
    }
}

/// Which tasks are listed: of one job, of a node, of a user, or of all.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskFilter {
    /// The user of the job, or of all jobs that are listed; empty: every user.
    pub user: String,
    /// Empty: every job.
    pub job: String,
    /// Only tasks on this node, of every user and job.
    pub node: String,
    /// Only this task of the job.
    pub index: Option<u32>,
    /// Only tasks in one of these states or conditions; without both: in any.
    pub states: Vec<TaskState>,
    pub conditions: Vec<TaskCondition>,
    /// Only tasks of jobs with labels that meet all of these conditions.
    pub selector: Vec<LabelMatch>,
    /// Without `job` and `node`: also tasks of jobs that are over.
    pub ended: bool,
    /// Without tasks beyond the count of their job that have ended.
    pub wanted: bool,
}

impl TaskFilter {
    /// The tasks of a job.
    pub fn of_job(job: &JobRef) -> Self {
        Self { user: job.user.clone(), job: job.name.clone(), ..Self::default() }
    }

    /// The tasks on a node.
    pub fn of_node(node: impl Into<String>) -> Self {
        Self { node: node.into(), ..Self::default() }
    }
}

impl Client {
    /// All pages of a list, and the first page's cursor: a watch from there replays the changes between pages.
    async fn task_pages(&self, filter: &TaskFilter) -> Result<(Vec<Task>, Option<Cursor>), ClientError> {
        let first = self.task_list_page(filter, PageRequest::default()).await?;
        let (mut tasks, cursor, mut next) = (first.tasks, first.cursor, first.next_page);
        while !next.is_empty() {
            let answer = self.task_list_page(filter, PageRequest { limit: 0, page: next }).await?;
            tasks.extend(answer.tasks);
            next = answer.next_page;
        }
        Ok((tasks, cursor))
    }

    /// The tasks of a job by index, with the cursor for a watch that misses nothing.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_list_of_job(&self, job: &JobRef) -> Result<(Vec<Task>, Option<Cursor>), ClientError> {
        self.task_pages(&TaskFilter::of_job(job)).await
    }

    /// One page of tasks, by the ids of their jobs and their indexes.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_list_page(
        &self,
        filter: &TaskFilter,
        page: PageRequest,
    ) -> Result<ListTasksResponse, ClientError> {
        let message = ListTasksRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: filter.user.clone(),
            job: filter.job.clone(),
            node: filter.node.clone(),
            page: Some(page),
            states: filter.states.iter().map(|&state| state.into()).collect(),
            conditions: filter.conditions.iter().map(|&condition| condition.into()).collect(),
            selector: filter.selector.clone(),
            ended: filter.ended,
            index: filter.index,
            wanted: filter.wanted,
        };
        self.call("ListTasks", message, rpc!(TaskServiceClient.list_tasks)).await
    }

    /// The tasks on a node, with the cursor for a watch that misses nothing.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_list_of_node(&self, node: &str) -> Result<(Vec<Task>, Option<Cursor>), ClientError> {
        self.task_pages(&TaskFilter::of_node(node)).await
    }

    /// Explains the placement of a task, or of every pending class of a job.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_explain(
        &self,
        job: &JobRef,
        index: Option<u32>,
    ) -> Result<ExplainTaskResponse, ClientError> {
        let message = ExplainTaskRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            job: job.name.clone(),
            index,
            elsewhere: false,
        };
        self.call("ExplainTask", message, rpc!(TaskServiceClient.explain_task)).await
    }

    /// Explains why a task has no room elsewhere, as if it left its node now.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_explain_elsewhere(&self, task: &TaskRef) -> Result<ExplainTaskResponse, ClientError> {
        let message = ExplainTaskRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: task.job.user.clone(),
            job: task.job.name.clone(),
            index: Some(task.index),
            elsewhere: true,
        };
        self.call("ExplainTask", message, rpc!(TaskServiceClient.explain_task)).await
    }

    /// Sends signal `signal` (1–64) to a running task's process.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_signal(&self, task: &TaskRef, signal: i32) -> Result<(), ClientError> {
        let message = SignalTaskRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: task.job.user.clone(),
            job: task.job.name.clone(),
            index: task.index,
            signal,
        };
        self.call("SignalTask", message, rpc!(TaskServiceClient.signal_task)).await?;
        Ok(())
    }

    /// Ends the task's attempt and starts the next. Returns when the end is committed.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_restart(&self, task: &TaskRef) -> Result<RestartTaskResponse, ClientError> {
        let message = RestartTaskRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: task.job.user.clone(),
            job: task.job.name.clone(),
            index: task.index,
        };
        self.call("RestartTask", message, rpc!(TaskServiceClient.restart_task)).await
    }

    /// Ends the task's attempt and starts the next, preferably on another node. Returns when the end is committed.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if the task has no attempt.
    pub async fn task_stop(&self, task: &TaskRef) -> Result<StopTaskResponse, ClientError> {
        self.task_stop_of(task, "", 0).await
    }

    /// As [`Client::task_stop`], of the attempt with the number `incarnation` of a task of the job with the id `job`.
    /// Another one is refused.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` also if that attempt is over.
    pub async fn task_stop_of(
        &self,
        task: &TaskRef,
        job: &str,
        incarnation: u64,
    ) -> Result<StopTaskResponse, ClientError> {
        let message = StopTaskRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: task.job.user.clone(),
            job: task.job.name.clone(),
            index: task.index,
            expected_job: job.to_owned(),
            expected_incarnation: incarnation,
        };
        self.call("StopTask", message, rpc!(TaskServiceClient.stop_task)).await
    }

    /// Runs `command` inside a running task's environment, on a terminal of the size `terminal` if given. `input` is
    /// the caller's side after the opening. Nothing is retried, so that a command never runs twice.
    ///
    /// # Errors
    /// As for every call, for the opening; each item may be one.
    pub async fn task_exec(
        &self,
        task: &TaskRef,
        command: Vec<String>,
        terminal: Option<WindowSize>,
        input: impl Stream<Item = exec_request::Message> + Send + 'static,
    ) -> Result<ItemStream<ExecResponse>, ClientError> {
        if self.is_dry_run() {
            return Err(ClientError::DryRun { method: "Exec", answer: Box::default() });
        }
        let open = ExecOpen {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: task.job.user.clone(),
            job: task.job.name.clone(),
            index: task.index,
            command,
            terminal,
        };
        let messages = stream::iter([exec_request::Message::Open(open)]).chain(input);
        let requests = messages.map(|message| ExecRequest { message: Some(message) });
        let requests = Mutex::new(Some(requests));
        let deadline = self.deadline();
        let send = |channel, request: tonic::Request<()>| {
            let (metadata, extensions, ()) = request.into_parts();
            let requests = requests.lock().take();
            async move {
                let requests =
                    requests.ok_or_else(|| tonic::Status::internal("a command is not run twice"))?;
                let request = tonic::Request::from_parts(metadata, extensions, requests);
                TaskServiceClient::new(channel)
                    .max_decoding_message_size(RESPONSE_BYTES_MAX)
                    .max_encoding_message_size(REQUEST_BYTES_MAX)
                    .exec(request)
                    .await
            }
        };
        let opened = tokio::time::timeout(deadline, self.attempt_once((), &send)).await;
        let opened = opened.map_err(|_| self.late("Exec", deadline))?;
        let opened = opened.map_err(|status| self.failed_once(status))?;
        Ok(items(self.clone(), opened))
    }
}

/// A stream's items with decoded errors.
fn items<T: Send + 'static>(client: Client, opened: Streaming<T>) -> ItemStream<T> {
    opened.map(move |item| item.map_err(|status| client.failed_once(status))).boxed()
}
