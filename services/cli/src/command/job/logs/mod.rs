//! `job logs`: the output of every task of a job, or of several, each line whole and under the name of its task.
//!
//! With `--follow`, a watch of the job says which attempts there are, and one reader per task reads them in order. All
//! readers use one connection. A slow terminal stops the readers, and then the agents: what is not read stays in files.

mod reader;
mod seen;

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_client::{CellItem, Client, JobRef, LogQuery, TaskRef, count_with_surge};
use borough_proto::v1::read_logs_request::Stream;
use borough_proto::v1::watch_response::Change;
use borough_proto::v1::{Cursor, Job, JobState, PageRequest, Task, WatchFilter};
use futures::StreamExt as _;
use tokio::sync::{Semaphore, mpsc, watch};

use self::reader::{Shown, TaskReader, attempt_read};
use self::seen::{AttemptsSeen, LogScope};
use super::bulk::jobs_shown;
use super::jobs_once;
use super::restart::{absent_refuse, indexes};
use crate::args::{AttemptChoice, JobLogArguments};
use crate::command::attempts::TaskAttempts;
use crate::command::task::nothing_text;
use crate::command::unknown::job_missing;
use crate::exit::{Code, Failure, absence_text};
use crate::output::{LogStyle, Printer, end_when_stuck, tally};

/// The most attempts that are read at the same time. Others wait until one of these has ended.
const READERS_MAX: usize = 1_000;
/// Blocks of lines that wait for the terminal.
const BLOCKS_MAX: usize = 64;
/// What a gateway holds for one of many logs.
const WINDOW_BYTES: u32 = 16 * 1024;
/// Tries to reach an agent, if nothing is followed.
const TRIES_MAX: u32 = 4;

pub(super) async fn logs(
    client: &Client,
    mut arguments: JobLogArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let mut jobs = jobs_once(&arguments.targets, client.user());
    if jobs.is_empty() {
        jobs = jobs_shown(client, std::mem::take(&mut arguments.labels)).await?;
    }
    let mut each = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (mut all, known, cursor) = match all_logs(client, &arguments, job.clone(), printer).await {
            Ok(found) => found,
            Err(failure) => return Err(job_missing(client, &job, failure).await),
        };
        all.says_absence = each.is_empty();
        each.push((all, known, cursor));
    }
    if !arguments.follow {
        let mut codes = Vec::with_capacity(each.len());
        for (all, _, _) in each {
            codes.push(all.read().await?);
        }
        return Ok(code_of_all(&codes));
    }
    let following = each.into_iter().map(|(all, known, cursor)| all.follow(known, cursor));
    Ok(code_of_all(&futures::future::try_join_all(following).await?))
}

/// The code of several jobs: that of all of them, or that something failed.
fn code_of_all(codes: &[Code]) -> Code {
    let bad: Vec<Code> = codes.iter().copied().filter(|code| *code != Code::Done).collect();
    match bad.as_slice() {
        [] => Code::Done,
        [first, rest @ ..] if bad.len() == codes.len() && rest.iter().all(|code| code == first) => *first,
        _ => Code::Failed,
    }
}

/// What shows the output of one job, with the job and the position after which its watch begins.
async fn all_logs<'a>(
    client: &'a Client,
    arguments: &JobLogArguments,
    job: JobRef,
    printer: &'a Printer,
) -> Result<(AllLogs<'a>, Job, Option<Cursor>), Failure> {
    let answer = client.job_get(&job).await?;
    let known = answer.job.unwrap_or_default();
    absent_refuse(arguments.task.iter().map(|range| *range.end()), &job, count_with_surge(&known))?;
    let query = LogQuery { follow: arguments.follow, window_bytes: WINDOW_BYTES, ..arguments.show.query() };
    let style = LogStyle::new(printer, count_with_surge(&known));
    let style = if arguments.choice() == AttemptChoice::All { style.with_attempts() } else { style };
    let all = AllLogs {
        client,
        scope: LogScope::new(job, &indexes(&arguments.task), arguments.choice()),
        query,
        choice: arguments.choice(),
        style: if arguments.show.timestamps { style.with_times() } else { style },
        printer,
        failed: UnreadAttempts::default(),
        seen: AttemptsSeen::default(),
        is_empty: true,
        says_absence: true,
        is_absent: false,
    };
    Ok((all, known, answer.cursor))
}

/// Returns true if no task of the job writes any more.
fn is_over(job: &Job) -> bool {
    matches!(
        job.state(),
        JobState::Succeeded | JobState::Failed | JobState::Stopped | JobState::DependencyFailed
    )
}

/// Attempts with output that could not be read.
#[derive(Clone, Copy, Debug, Default)]
struct UnreadAttempts {
    all: usize,
    /// Those of which a gateway or an agent does not answer.
    unreachable: usize,
    /// Those without the helper whose output is wanted, or without output.
    unknown: usize,
}

impl UnreadAttempts {
    fn add(&mut self, code: Code) {
        self.all += 1;
        self.unreachable += usize::from(code == Code::Unreachable);
        self.unknown += usize::from(code == Code::NotFound);
    }

    /// The code of the verb: that of `task logs` if every attempt failed like this.
    fn code(self) -> Code {
        match self {
            Self { all: 0, .. } => Code::Done,
            Self { all, unreachable, .. } if all == unreachable => Code::Unreachable,
            Self { all, unknown, .. } if all == unknown => Code::NotFound,
            _ => Code::Failed,
        }
    }
}

struct AllLogs<'a> {
    client: &'a Client,
    scope: LogScope,
    query: LogQuery,
    choice: AttemptChoice,
    style: LogStyle,
    printer: &'a Printer,
    failed: UnreadAttempts,
    seen: AttemptsSeen,
    /// Nothing was shown, and nothing said of output that is gone.
    is_empty: bool,
    /// Whether it says that no gateway answers: of several jobs that are followed, one does.
    says_absence: bool,
    /// It was said that no gateway answers, and none has since.
    is_absent: bool,
}

impl AllLogs<'_> {
    /// Shows what is kept, task by task.
    async fn read(mut self) -> Result<Code, Failure> {
        for filter in self.scope.filters() {
            let mut page = String::new();
            loop {
                let request = PageRequest { limit: 0, page };
                let answer = self.client.task_list_page(&filter, request).await?;
                for row in &answer.tasks {
                    self.read_task(row).await?;
                }
                page = answer.next_page;
                if page.is_empty() {
                    break;
                }
            }
        }
        self.seen.check(&self.scope, self.choice, self.printer)?;
        if self.is_empty && self.seen.read > 0 {
            self.printer.remark(&format!("{}: {}", self.scope.job, nothing_text(&self.query)));
        }
        Ok(self.code())
    }

    async fn read_task(&mut self, row: &Task) -> Result<(), Failure> {
        let task = TaskRef { job: self.scope.job.clone(), index: row.index };
        let attempts = TaskAttempts::of(row);
        self.seen.add(&attempts);
        let mut done = attempts.done_at_first(self.choice);
        while let Some(attempt) = attempts.next_chosen(done, self.choice) {
            done = attempt;
            self.seen.read += 1;
            self.read_one(&task, attempt).await?;
        }
        Ok(())
    }

    async fn read_one(&mut self, task: &TaskRef, attempt: u64) -> Result<(), Failure> {
        let (sender, mut shown) = mpsc::channel(BLOCKS_MAX);
        let mut log =
            self.client.task_log(task, LogQuery { incarnation: Some(attempt), ..self.query.clone() });
        log.attempts_max_set(Some(TRIES_MAX));
        let style = self.style;
        let reading =
            async move { attempt_read(log, task, attempt, style, &sender, std::future::pending()).await };
        // Its end, also by a failure, ends the reading.
        let showing = async move {
            while let Some(block) = shown.recv().await {
                self.show(block)?;
            }
            Ok(())
        };
        let ((), shown) = futures::join!(reading, showing);
        shown
    }

    fn show(&mut self, block: Shown) -> Result<(), Failure> {
        self.is_empty = false;
        match block {
            Shown::Out(lines) => self.printer.bytes(&lines),
            // Of one requested stream, all goes to standard output, and so do objects.
            Shown::Err(lines) if self.query.stream != Stream::Unspecified || self.style.is_object() => {
                self.printer.bytes(&lines)
            }
            Shown::Err(lines) => self.printer.error_bytes(&lines),
            Shown::Remark(text) => {
                self.printer.remark(&text);
                Ok(())
            }
            Shown::Failed { text, code } => {
                self.failed.add(code);
                self.printer.failure(&Failure::new(code, text));
                Ok(())
            }
        }
    }

    /// Says once that no gateway answers, and that one does again.
    fn answered(&mut self, item: Option<&CellItem>) {
        match item {
            Some(CellItem::Absent(_)) if !self.says_absence => {}
            Some(CellItem::Absent(absence)) => {
                self.printer.remark(&absence_text(absence));
                self.is_absent = true;
            }
            Some(_) if std::mem::take(&mut self.is_absent) => self.printer.remark("a gateway answers again"),
            _ => {}
        }
    }

    fn code(&self) -> Code {
        let UnreadAttempts { all, .. } = self.failed;
        // One error has said all of one attempt.
        if all > 1 {
            self.printer.remark(&format!("{} could not be read to the end", tally(all, "attempt")));
        }
        self.failed.code()
    }

    /// Shows what is kept and what comes, until the job is over or the caller interrupts.
    async fn follow(mut self, mut job: Job, mut cursor: Option<Cursor>) -> Result<Code, Failure> {
        let (sender, mut shown) = mpsc::channel(BLOCKS_MAX);
        let mut readers = Readers {
            client: self.client.clone(),
            scope: self.scope.clone(),
            query: self.query.clone(),
            choice: self.choice,
            style: self.style,
            known: BTreeMap::new(),
            places: Arc::new(Semaphore::new(READERS_MAX)),
            blocks: sender,
        };
        end_when_stuck();
        let mut interrupted = Box::pin(tokio::signal::ctrl_c());
        'listed: loop {
            readers.list().await?;
            if is_over(&job) {
                break;
            }
            let filter = WatchFilter {
                user: self.scope.job.user.clone(),
                job: self.scope.job.name.clone(),
                jobs: true,
                tasks: true,
                ..WatchFilter::default()
            };
            let mut changes = self.client.watch_cell(filter, cursor);
            loop {
                tokio::select! {
                    _ = &mut interrupted => return Err(Failure::new(Code::Interrupted, "")),
                    Some(block) = shown.recv() => self.show(block)?,
                    item = changes.next() => {
                        let item = item.transpose()?;
                        self.answered(item.as_ref());
                        match item {
                            Some(CellItem::Change(message)) => match message.change {
                                Some(Change::Task(task)) => readers.task(&task),
                                Some(Change::Job(now)) if now.id != job.id || is_over(&now) => break 'listed,
                                Some(Change::JobRemoved(gone)) if gone.id == job.id => break 'listed,
                                _ => {}
                            },
                            Some(CellItem::Bookmark(_) | CellItem::Absent(_)) => {}
                            Some(CellItem::Resync(_)) | None => break,
                        }
                    }
                }
            }
            let answer = self.client.job_get(&self.scope.job).await?;
            (job, cursor) = (answer.job.unwrap_or_default(), answer.cursor);
        }
        let known = readers.over();
        for told in known.values() {
            let attempts = *told.borrow();
            self.seen.add(&attempts);
            let first = attempts.next_chosen(attempts.done_at_first(self.choice), self.choice);
            self.seen.read += usize::from(first.is_some());
        }
        loop {
            tokio::select! {
                _ = &mut interrupted => return Err(Failure::new(Code::Interrupted, "")),
                block = shown.recv() => match block {
                    Some(block) => self.show(block)?,
                    None => {
                        self.seen.check(&self.scope, self.choice, self.printer)?;
                        return Ok(self.code());
                    }
                },
            }
        }
    }
}

/// The readers of a job that is followed, one per task.
struct Readers {
    client: Client,
    scope: LogScope,
    query: LogQuery,
    choice: AttemptChoice,
    style: LogStyle,
    /// What each reader knows, by index.
    known: BTreeMap<u32, watch::Sender<TaskAttempts>>,
    places: Arc<Semaphore>,
    blocks: mpsc::Sender<Shown>,
}

impl Readers {
    async fn list(&mut self) -> Result<(), Failure> {
        for filter in self.scope.filters() {
            let mut page = String::new();
            loop {
                let request = PageRequest { limit: 0, page };
                let answer = self.client.task_list_page(&filter, request).await?;
                answer.tasks.iter().for_each(|task| self.task(task));
                page = answer.next_page;
                if page.is_empty() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Tells the reader of a task what there is of it. The first time, starts it.
    fn task(&mut self, row: &Task) {
        if !self.scope.includes(row.index) {
            return;
        }
        let attempts = TaskAttempts::of(row);
        if let Some(known) = self.known.get(&row.index) {
            known.send_if_modified(|before| {
                let newer = attempts.is_newer(before);
                if newer {
                    *before = attempts;
                }
                newer
            });
            return;
        }
        let (told, news) = watch::channel(attempts);
        self.known.insert(row.index, told);
        let reader = TaskReader {
            client: self.client.clone(),
            task: TaskRef { job: self.scope.job.clone(), index: row.index },
            query: self.query.clone(),
            choice: self.choice,
            style: self.style,
            news,
            places: Arc::clone(&self.places),
            blocks: self.blocks.clone(),
            done: attempts.done_at_first(self.choice),
        };
        tokio::spawn(reader.run());
    }

    /// Tells every reader that no attempt follows. The blocks end with the last reader, as long as the result is held.
    fn over(self) -> BTreeMap<u32, watch::Sender<TaskAttempts>> {
        for told in self.known.values() {
            told.send_modify(|attempts| attempts.over = true);
        }
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_cannot_be_read_have_the_code_of_task_logs() {
        let of = |codes: &[Code]| {
            let mut unread = UnreadAttempts::default();
            codes.iter().for_each(|code| unread.add(*code));
            unread.code()
        };
        assert_eq!(of(&[]), Code::Done);
        assert_eq!(of(&[Code::Unreachable, Code::Unreachable]), Code::Unreachable);
        assert_eq!(of(&[Code::Unreachable, Code::Refused]), Code::Failed);
        assert_eq!(of(&[Code::NotFound]), Code::NotFound);
        assert_eq!(of(&[Code::NotFound, Code::Unreachable]), Code::Failed);
    }
}
