//! Tasks: their state, their output, and operations on a single one.

use borough_proto::bounds::{REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX};
use borough_proto::v1::task_service_client::TaskServiceClient;
use borough_proto::v1::{
    Cursor, ExecOpen, ExecRequest, ExecResponse, ExplainTaskRequest, ExplainTaskResponse, ListTasksRequest,
    ListTasksResponse, PageRequest, ReadLogsRequest, ReadLogsResponse, RestartTaskRequest,
    RestartTaskResponse, SignalTaskRequest, StopTaskRequest, StopTaskResponse, Task, TaskState, WindowSize,
    exec_request, read_logs_request,
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

/// Which part of a task's output to return. The default is all kept output of both streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// One stream; [`read_logs_request::Stream::Unspecified`] is both.
    pub stream: read_logs_request::Stream,
    /// Whole lines from the end.
    pub tail_lines: Option<u32>,
    /// Streams new output until the attempt ends.
    pub follow: bool,
    /// Absent: the current or last attempt.
    pub incarnation: Option<u64>,
}

impl Client {
    async fn task_page(&self, message: ListTasksRequest) -> Result<ListTasksResponse, ClientError> {
        self.call("ListTasks", message, rpc!(TaskServiceClient.list_tasks)).await
    }

    /// All pages of a list, and the first page's cursor: a watch from there replays the changes between pages.
    async fn task_pages(
        &self,
        mut message: ListTasksRequest,
    ) -> Result<(Vec<Task>, Option<Cursor>), ClientError> {
        let first = self.task_page(message.clone()).await?;
        let (mut tasks, cursor, mut next) = (first.tasks, first.cursor, first.next_page);
        while !next.is_empty() {
            message.page = Some(PageRequest { limit: 0, page: next });
            let answer = self.task_page(message.clone()).await?;
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
        let message = ListTasksRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            job: job.name.clone(),
            node: String::new(),
            page: None,
            states: Vec::new(),
        };
        self.task_pages(message).await
    }

    /// One page of the tasks of a job by index: those in one of `states`, or all if it is empty.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_list_page(
        &self,
        job: &JobRef,
        states: &[TaskState],
        page: PageRequest,
    ) -> Result<ListTasksResponse, ClientError> {
        let message = ListTasksRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            job: job.name.clone(),
            node: String::new(),
            page: Some(page),
            states: states.iter().map(|&state| state.into()).collect(),
        };
        self.task_page(message).await
    }

    /// The tasks on a node, with the cursor for a watch that misses nothing.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_list_of_node(&self, node: &str) -> Result<(Vec<Task>, Option<Cursor>), ClientError> {
        let message = ListTasksRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: String::new(),
            job: String::new(),
            node: node.to_owned(),
            page: None,
            states: Vec::new(),
        };
        self.task_pages(message).await
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
        let message = StopTaskRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: task.job.user.clone(),
            job: task.job.name.clone(),
            index: task.index,
        };
        self.call("StopTask", message, rpc!(TaskServiceClient.stop_task)).await
    }

    /// A task's output. The stream ends with the kept output or, with `follow`, with the attempt. A broken connection
    /// ends it with an error: output has no cursor to resume from.
    ///
    /// # Errors
    /// As for every call, for the opening; each item may be one.
    pub async fn task_logs(
        &self,
        task: &TaskRef,
        query: LogQuery,
    ) -> Result<ItemStream<ReadLogsResponse>, ClientError> {
        let message = ReadLogsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: task.job.user.clone(),
            job: task.job.name.clone(),
            index: task.index,
            stream: query.stream.into(),
            tail_lines: query.tail_lines,
            follow: query.follow,
            incarnation: query.incarnation,
        };
        let opened = self.call("ReadLogs", message, rpc!(TaskServiceClient.read_logs)).await?;
        Ok(items(self.clone(), opened))
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
        let deadline = self.config().deadline;
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
        let opened = tokio::time::timeout(deadline, self.attempt((), &send)).await;
        let opened = opened.map_err(|_| self.deadline("Exec", deadline))?;
        let opened = opened.map_err(|status| self.failed_once(status))?;
        Ok(items(self.clone(), opened))
    }
}

/// A stream's items with decoded errors.
fn items<T: Send + 'static>(client: Client, opened: Streaming<T>) -> ItemStream<T> {
    opened.map(move |item| item.map_err(|status| client.failed_once(status))).boxed()
}
