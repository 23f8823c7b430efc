//! Reads the attempts of one task, one after the other.

use std::future::Future;
use std::sync::Arc;

use borough_client::{Client, LogEvent, LogFollower, LogQuery, LogWait, TaskRef};
use borough_proto::v1::ReadLogsResponse;
use borough_proto::v1::read_logs_request::Stream;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::args::AttemptChoice;
use crate::command::attempts::TaskAttempts;
use crate::command::task::{gone_text, wait_text};
use crate::exit::{Code, Failure};
use crate::output::{Foreign, LogLines, LogOutput, LogStyle};

/// Tries to reach the agent of an attempt that has a successor.
const LAST_TRIES: u32 = 4;

/// What a reader has to show.
pub(super) enum Shown {
    /// Whole lines of standard output.
    Out(Vec<u8>),
    /// Whole lines of standard error.
    Err(Vec<u8>),
    Remark(String),
    /// Why an attempt could not be read to its end.
    Failed {
        text: String,
        code: Code,
    },
}

pub(super) struct TaskReader {
    pub(super) client: Client,
    pub(super) task: TaskRef,
    pub(super) query: LogQuery,
    pub(super) choice: AttemptChoice,
    pub(super) style: LogStyle,
    pub(super) news: watch::Receiver<TaskAttempts>,
    /// Bounds the attempts that all readers read at once.
    pub(super) places: Arc<Semaphore>,
    pub(super) blocks: mpsc::Sender<Shown>,
    /// Attempts up to this one were read.
    pub(super) done: u64,
}

impl TaskReader {
    /// Reads until no attempt follows, or nobody reads what this sends.
    pub(super) async fn run(mut self) {
        loop {
            let attempts = *self.news.borrow_and_update();
            match attempts.next_chosen(self.done, self.choice) {
                Some(attempt) => self.attempt(attempt).await,
                None if attempts.over || self.choice.is_past(self.done) => return,
                None => {
                    if self.news.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn attempt(&mut self, attempt: u64) {
        let places = Arc::clone(&self.places);
        let Ok(_place) = places.acquire().await else { return };
        let (task, expected) = (&self.task, self.done.saturating_add(1));
        if self.done > 0 && attempt > expected {
            let last = attempt.saturating_sub(1);
            let text =
                format!("{task}: attempts {expected} to {last} had ended before they could be followed");
            let _ = self.blocks.send(Shown::Remark(text)).await;
        }
        let query = LogQuery { incarnation: Some(attempt), ..self.query.clone() };
        // Only the first attempt begins near its end.
        (self.query.tail_lines, self.query.since_ms) = (None, None);
        let mut log = self.client.task_log(task, query);
        log.attempts_max_set(None);
        let mut news = self.news.clone();
        let passed = async move {
            // The agent of an attempt with a successor may be gone for good.
            let _ = news.wait_for(|attempts| attempts.over || attempts.next(attempt).is_some()).await;
        };
        attempt_read(log, task, attempt, self.style, &self.blocks, passed).await;
        self.done = attempt;
    }
}

/// Reads one attempt to its end. Until `passed` completes, waits for an agent that is away.
pub(super) async fn attempt_read(
    mut log: LogFollower,
    task: &TaskRef,
    attempt: u64,
    style: LogStyle,
    blocks: &mpsc::Sender<Shown>,
    passed: impl Future<Output = ()>,
) {
    let mut lines = LogLines::new(task.clone(), attempt, style);
    let mut is_passed = false;
    tokio::pin!(passed);
    loop {
        let item = tokio::select! {
            item = log.next() => item,
            () = &mut passed, if !is_passed => {
                is_passed = true;
                log.attempts_max_set(Some(LAST_TRIES));
                continue;
            }
        };
        let shown = match item {
            // The watch of the job says it once for all readers. Of an agent that is slow, its gateway soon says more.
            Some(Ok(LogEvent::Waits(LogWait::Gateway(_) | LogWait::Answer))) => continue,
            Some(Ok(LogEvent::Waits(wait))) => vec![Shown::Remark(wait_text(task, &wait))],
            Some(Ok(LogEvent::Part(part))) => part_shown(task, &mut lines, &part),
            Some(Err(error)) => {
                let failure = Failure::from(error);
                let text = Foreign::from(failure.message());
                // What the attempt does not have was never read.
                let text = match failure.code() {
                    Code::NotFound => format!("{task}: attempt {attempt}: {text}"),
                    _ => format!("{task}: attempt {attempt} cannot be read further: {text}"),
                };
                vec![Shown::Failed { text, code: failure.code() }]
            }
            None => break,
        };
        for block in shown {
            if blocks.send(block).await.is_err() {
                return;
            }
        }
    }
    for (stream, shown) in
        [(LogOutput::Stdout, Shown::Out as fn(Vec<u8>) -> Shown), (LogOutput::Stderr, Shown::Err)]
    {
        let rest = lines.end(stream);
        if !rest.is_empty() {
            let _ = blocks.send(shown(rest)).await;
        }
    }
}

fn part_shown(task: &TaskRef, lines: &mut LogLines, part: &ReadLogsResponse) -> Vec<Shown> {
    let mut shown = Vec::new();
    if part.gone_bytes > 0 {
        shown.push(Shown::Remark(gone_text(task, part.gone_bytes)));
    }
    let of_stream = match part.stream() {
        Stream::Stderr => Shown::Err(lines.add(LogOutput::Stderr, &part.data, &part.times)),
        _ => Shown::Out(lines.add(LogOutput::Stdout, &part.data, &part.times)),
    };
    if !matches!(&of_stream, Shown::Out(lines) | Shown::Err(lines) if lines.is_empty()) {
        shown.push(of_stream);
    }
    shown
}
