//! What the view shows, and thus asks the gateway for.

use borough_client::{JobRef, TaskRef};
use borough_proto::v1::TaskState;

use super::rows::TableRow;

/// Rows that the view asks for and keeps at most: a cell may have a hundred thousand of them.
pub(super) const PAGE_ROWS: u32 = 500;

/// One screen of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    Cells,
    Nodes,
    Jobs,
    Tasks(TaskScope),
    Logs(TaskRef),
    Why(WhySubject),
}

/// Whose tasks are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskScope {
    Job(JobRef),
    Node(String),
}

/// What is explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WhySubject {
    pub(super) job: JobRef,
    /// Absent: every task that waits.
    pub(super) index: Option<u32>,
}

impl Screen {
    /// Its name in the title.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Cells => "cells".to_owned(),
            Self::Nodes => "nodes".to_owned(),
            Self::Jobs => "jobs".to_owned(),
            Self::Tasks(TaskScope::Job(job)) => format!("tasks of {job}"),
            Self::Tasks(TaskScope::Node(node)) => format!("tasks on {node}"),
            Self::Logs(task) => format!("output of {task}"),
            Self::Why(WhySubject { job, index: None }) => format!("why {job}"),
            Self::Why(WhySubject { job, index: Some(index) }) => format!("why {job}/{index}"),
        }
    }
}

/// A question to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScreenQuery {
    pub(super) cell: String,
    pub(super) screen: Screen,
    /// The page of a list; empty: the first.
    pub(super) page: String,
    /// The states of the listed tasks of a job; empty: all.
    pub(super) states: Vec<TaskState>,
}

/// The stats of the cell above every screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CellHeader {
    pub(super) cell: String,
    pub(super) state: String,
    pub(super) nodes: u32,
    pub(super) nodes_ready: u32,
    pub(super) jobs: u32,
    /// The counts of tasks that are not zero.
    pub(super) tasks: String,
    pub(super) cpu_millis: CellAmounts,
    pub(super) memory_bytes: CellAmounts,
}

/// One dimension of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CellAmounts {
    pub(super) capacity: u64,
    pub(super) allocated: u64,
    /// Absent: no node has reported its load.
    pub(super) in_use: Option<u64>,
}

/// The content of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScreenAnswer {
    Rows {
        rows: Vec<TableRow>,
        /// Empty on the last page.
        next_page: String,
    },
    Lines(Vec<String>),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AskProblem {
    /// No gateway answers. The view goes on asking.
    Unanswered(String),
    /// A gateway refused. Its reason is shown, and the view goes on asking.
    Refused(String),
}

/// What the gateway said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FeedUpdate {
    Header(Result<CellHeader, AskProblem>),
    Answer(Result<ScreenAnswer, AskProblem>),
    /// Output is read from its tail on.
    LogBegin,
    LogPart {
        stream: TaskStream,
        data: Vec<u8>,
    },
    /// The attempt is over.
    LogEnd,
}

/// Where a task wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskStream {
    Stdout,
    Stderr,
}
