//! Asks the gateway for what the view shows, again and again, and converts the answers. It never gives up.

use std::time::Duration;

use borough_client::{Client, ClientError, LogEvent, LogQuery, NodeFilter, TaskFilter, TaskRef};
use borough_proto::v1::read_logs_request::Stream;
use borough_proto::v1::{Cell, PageRequest};
use tokio::sync::{mpsc, watch};

use super::log_tail::LINES_MAX;
use super::query::{
    AskProblem, CellAmounts, CellHeader, FeedUpdate, PAGE_ROWS, Screen, ScreenAnswer, ScreenQuery, TaskScope,
    TaskStream, WhySubject,
};
use super::rows::{cell_row, job_row, node_row, task_row};
use crate::command::task::wait_text;
use crate::exit::Failure;
use crate::output::{CellOutput, ExplanationView, explanations_text};

/// The longest pause before the next try while no gateway answers.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What the gateway said, and to which question.
pub(super) type Said = (ScreenQuery, FeedUpdate);

/// Where questions come from, and where the answers go.
pub(super) struct Feed {
    pub(super) client: Client,
    pub(super) wanted: watch::Receiver<ScreenQuery>,
    pub(super) said: mpsc::Sender<Said>,
    pub(super) interval: Duration,
}

impl Feed {
    /// Asks until the view is gone.
    pub(super) async fn run(mut self) {
        loop {
            let query = self.wanted.borrow_and_update().clone();
            let mut wanted = self.wanted.clone();
            let is_gone = tokio::select! {
                // Answers to the question before are of no use.
                changed = wanted.changed() => changed.is_err(),
                () = self.ask_again(&query) => true,
            };
            if is_gone {
                return;
            }
        }
    }

    /// Asks one question until it is dropped. Returns if nobody listens.
    async fn ask_again(&self, query: &ScreenQuery) {
        let client = self.client.with_cell(query.cell.as_str());
        let screen = async {
            loop {
                let pause = self.ask(&client, query).await?;
                tokio::time::sleep(pause).await;
            }
        };
        // `None`: the view is gone.
        let gone: Option<()> = match &query.screen {
            Screen::Logs(task) => tokio::select! {
                gone = screen => gone,
                gone = self.log_follow(&client, query, task) => gone,
            },
            _ => screen.await,
        };
        debug_assert!(gone.is_none(), "it asks until nobody listens");
    }

    async fn tell(&self, query: &ScreenQuery, update: FeedUpdate) -> Option<()> {
        self.said.send((query.clone(), update)).await.ok()
    }

    /// Asks once. Returns the pause before the next time.
    async fn ask(&self, client: &Client, query: &ScreenQuery) -> Option<Duration> {
        let header = client.cell_get_with_load().await.map(|cell| header_of(&cell)).map_err(problem_of);
        if matches!(header, Err(AskProblem::Unanswered(_))) {
            self.tell(query, FeedUpdate::Header(header)).await?;
            return Some(self.interval.min(RETRY_PAUSE));
        }
        self.tell(query, FeedUpdate::Header(header)).await?;
        if let Some(answer) = answer(client, query).await {
            self.tell(query, FeedUpdate::Answer(answer.map_err(problem_of))).await?;
        }
        Some(self.interval)
    }

    /// Streams the output of a task: of its attempt, and then of the next.
    async fn log_follow(&self, client: &Client, query: &ScreenQuery, task: &TaskRef) -> Option<()> {
        loop {
            match self.log_read(client, query, task).await? {
                Ok(()) => self.tell(query, FeedUpdate::LogEnd).await?,
                Err(problem @ AskProblem::Refused(_)) => {
                    self.tell(query, FeedUpdate::Answer(Err(problem))).await?;
                }
                // The question about the cell reports it.
                Err(AskProblem::Unanswered(_)) => {}
            }
            tokio::time::sleep(self.interval).await;
        }
    }

    async fn log_read(
        &self,
        client: &Client,
        query: &ScreenQuery,
        task: &TaskRef,
    ) -> Option<Result<(), AskProblem>> {
        let tail_lines = Some(u32::try_from(LINES_MAX).unwrap_or(u32::MAX));
        let asked = LogQuery { tail_lines, follow: true, ..LogQuery::default() };
        let mut log = match client.task_log_open(task, asked).await {
            Ok(log) => log,
            Err(error) => return Some(Err(problem_of(error))),
        };
        self.tell(query, FeedUpdate::LogBegin).await?;
        while let Some(event) = log.next().await {
            let part = match event {
                Ok(LogEvent::Part(part)) => part,
                Ok(LogEvent::Waits(wait)) => {
                    let data = format!("{}\n", wait_text(task, &wait)).into_bytes();
                    self.tell(query, FeedUpdate::LogPart { stream: TaskStream::Stderr, data }).await?;
                    continue;
                }
                Err(error) => return Some(Err(problem_of(error))),
            };
            let stream = match part.stream() {
                Stream::Stderr => TaskStream::Stderr,
                Stream::Stdout | Stream::Unspecified => TaskStream::Stdout,
            };
            self.tell(query, FeedUpdate::LogPart { stream, data: part.data.to_vec() }).await?;
        }
        Some(Ok(()))
    }
}

/// A refusal comes from a gateway that answers. Everything else is no answer.
fn problem_of(error: ClientError) -> AskProblem {
    let is_refused = error.refusal().is_some();
    let failure = Failure::from(error);
    let reason = failure.message().to_owned();
    if is_refused { AskProblem::Refused(reason) } else { AskProblem::Unanswered(reason) }
}

/// The content of the screen; `None` if it is a stream.
async fn answer(client: &Client, query: &ScreenQuery) -> Option<Result<ScreenAnswer, ClientError>> {
    let page = PageRequest { limit: PAGE_ROWS, page: query.page.clone() };
    Some(match &query.screen {
        Screen::Cells => client.cell_list_with_load().await.map(|cells| ScreenAnswer::Rows {
            rows: cells.iter().map(cell_row).collect(),
            next_page: String::new(),
        }),
        Screen::Nodes => {
            client.node_list_page(&NodeFilter::default(), page).await.map(|listed| ScreenAnswer::Rows {
                rows: listed.nodes.into_iter().map(node_row).collect(),
                next_page: listed.next_page,
            })
        }
        Screen::Jobs => client.job_list_page_with_usage(page).await.map(|listed| ScreenAnswer::Rows {
            rows: listed.jobs.iter().map(job_row).collect(),
            next_page: listed.next_page,
        }),
        Screen::Tasks(scope) => {
            let filter = match scope {
                TaskScope::Job(job) => TaskFilter {
                    states: query.states.clone(),
                    wanted: query.states.is_empty(),
                    ..TaskFilter::of_job(job)
                },
                TaskScope::Node(node) => TaskFilter { node: node.clone(), ..TaskFilter::default() },
            };
            client.task_list_page(&filter, page).await.map(|listed| ScreenAnswer::Rows {
                rows: listed.tasks.into_iter().map(|task| task_row(task, scope)).collect(),
                next_page: listed.next_page,
            })
        }
        Screen::Why(subject) => why(client, subject).await.map(ScreenAnswer::Lines),
        Screen::Logs(_) => return None,
    })
}

async fn why(client: &Client, subject: &WhySubject) -> Result<Vec<String>, ClientError> {
    let answer = client.task_explain(&subject.job, subject.index).await?;
    let views: Vec<ExplanationView> = answer.explanations.into_iter().map(ExplanationView::from).collect();
    if views.is_empty() {
        return Ok(vec![match subject.index {
            None => format!("{}: every task is placed or has ended", subject.job),
            Some(index) => format!("{}/{index}: it is placed or has ended", subject.job),
        }]);
    }
    Ok(explanations_text(&views).lines().map(str::to_owned).collect())
}

/// The stats of a cell above every screen.
pub(super) fn header_of(cell: &Cell) -> CellHeader {
    let capacity = cell.capacity.clone().unwrap_or_default();
    let used = cell.used.clone().unwrap_or_default();
    let load = cell.load.as_ref().filter(|load| load.nodes > 0);
    let view = CellOutput::from(cell.clone());
    CellHeader {
        cell: cell.name.clone(),
        state: view.state,
        nodes: cell.nodes,
        nodes_ready: cell.nodes_ready,
        jobs: cell.jobs,
        tasks: view.tasks.text(),
        cpu_millis: CellAmounts {
            capacity: capacity.cpu_millis,
            allocated: used.cpu_millis,
            in_use: load.map(|load| load.cpu_millis),
        },
        memory_bytes: CellAmounts {
            capacity: capacity.memory_bytes,
            allocated: used.memory_bytes,
            in_use: load.map(|load| load.memory_bytes),
        },
    }
}
