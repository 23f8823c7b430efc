//! Reads the output of one attempt. A broken connection, a gateway that ends and an agent that changes its gateway cost
//! no byte and repeat none. Each answer has a position, and the next request begins there.

use borough_proto::v1::task_service_client::TaskServiceClient;
use borough_proto::v1::{LogPosition, ReadLogsRequest, ReadLogsResponse, read_logs_request};
use futures::{StreamExt as _, stream};
use tonic::{Status, Streaming};

use crate::call::{Client, ItemStream, rpc};
use crate::error::ClientError;
use crate::retry::worth_repeating;
use crate::task::TaskRef;

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
    /// How much the gateway holds for a slow reader; 0: the usual amount. Less suits the reader of many tasks.
    pub window_bytes: u32,
    /// Also says when the output was written.
    pub times: bool,
    /// Only what was written in the last so many milliseconds.
    pub since_ms: Option<u64>,
}

/// Decides where a broken read goes on. Pure.
#[derive(Clone, Debug)]
struct LogResumption {
    /// The request that goes on behind everything that was delivered.
    request: ReadLogsRequest,
    /// Whether some answer had a position. Older gateways send none.
    positioned: bool,
    /// Whether an answer without a position was delivered.
    lost: bool,
}

impl LogResumption {
    fn new(request: ReadLogsRequest) -> Self {
        Self { request, positioned: false, lost: false }
    }

    /// Records an answer that is delivered.
    fn delivered(&mut self, answer: &ReadLogsResponse) {
        if answer.incarnation > 0 {
            self.request.incarnation = Some(answer.incarnation);
        }
        let Some(next) = answer.next else {
            self.lost |= !answer.data.is_empty();
            return;
        };
        self.positioned = true;
        let from: &mut Option<LogPosition> = match answer.stream() {
            read_logs_request::Stream::Stderr => &mut self.request.stderr_from,
            _ => &mut self.request.stdout_from,
        };
        *from = Some(next);
    }
}

/// A read of one attempt's output, over broken connections.
#[derive(Debug)]
pub struct LogFollower {
    client: Client,
    resumption: LogResumption,
    stream: Option<Streaming<ReadLogsResponse>>,
    /// Tries in a row without an answer.
    attempts: u32,
    attempts_max: Option<u32>,
    over: bool,
}

/// Why a stream has ended.
enum Break {
    Over,
    Repeat(Option<Box<Status>>),
    Fatal(ClientError),
}

impl LogFollower {
    fn new(client: &Client, request: ReadLogsRequest) -> Self {
        Self {
            client: client.clone(),
            resumption: LogResumption::new(request),
            stream: None,
            attempts: 0,
            attempts_max: client.config().watch_attempts_max,
            over: false,
        }
    }

    /// Sets after how many tries in a row without an answer the read fails; `None`: never.
    pub fn attempts_max_set(&mut self, most: Option<u32>) {
        self.attempts_max = most;
    }

    /// The next answer with data, or the last one. Safe to drop: nothing is lost. `None` after the end or an error.
    pub async fn next(&mut self) -> Option<Result<ReadLogsResponse, ClientError>> {
        while !self.over {
            let broken = match self.answer().await {
                Ok(answer) => {
                    self.attempts = 0;
                    self.resumption.delivered(&answer);
                    self.over = answer.end;
                    if answer.data.is_empty() && answer.gone_bytes == 0 {
                        continue;
                    }
                    return Some(Ok(answer));
                }
                Err(broken) => broken,
            };
            self.stream = None;
            match broken {
                Break::Over => self.over = true,
                Break::Fatal(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
                Break::Repeat(status) => {
                    self.attempts += 1;
                    if self.attempts_max.is_some_and(|most| self.attempts >= most) {
                        self.over = true;
                        return Some(Err(self.client.unreachable_after(self.attempts, status)));
                    }
                    let attempts = self.attempts;
                    tracing::debug!(attempts, ?status, "a log has broken; the client opens it again");
                    self.pause().await;
                }
            }
        }
        None
    }

    /// The next answer. Opens the stream first if none is open.
    async fn answer(&mut self) -> Result<ReadLogsResponse, Break> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let (client, request) = (self.client.clone(), self.resumption.request.clone());
                let deadline = client.config().deadline;
                let send = rpc!(TaskServiceClient.read_logs);
                let opened = tokio::time::timeout(deadline, client.attempt(request, &send)).await;
                match opened {
                    Ok(Ok(stream)) => self.stream.insert(stream),
                    Ok(Err(status)) => return Err(self.sorted(status)),
                    Err(_) => return Err(Break::Repeat(None)),
                }
            }
        };
        match stream.message().await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) if self.resumption.positioned => Err(Break::Repeat(None)),
            Ok(None) => Err(Break::Over),
            Err(status) => Err(self.sorted(status)),
        }
    }

    fn sorted(&self, status: Status) -> Break {
        if worth_repeating(&status) && !self.resumption.lost {
            Break::Repeat(Some(Box::new(status)))
        } else {
            Break::Fatal(self.client.failed_once(status))
        }
    }

    async fn pause(&self) {
        let pause = self.client.config().retry.pause(self.attempts, self.client.random_bits());
        tokio::time::sleep(pause).await;
    }
}

impl Client {
    fn log_request(&self, task: &TaskRef, query: LogQuery) -> ReadLogsRequest {
        ReadLogsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: task.job.user.clone(),
            job: task.job.name.clone(),
            index: task.index,
            stream: query.stream.into(),
            tail_lines: query.tail_lines,
            follow: query.follow,
            incarnation: query.incarnation,
            stdout_from: None,
            stderr_from: None,
            window_bytes: query.window_bytes,
            times: query.times,
            since_ms: query.since_ms,
        }
    }

    /// A read of a task's output that is opened by its first [`LogFollower::next`].
    pub fn task_log(&self, task: &TaskRef, query: LogQuery) -> LogFollower {
        LogFollower::new(self, self.log_request(task, query))
    }

    /// A task's output. The stream ends with the kept output or, with `follow`, with the attempt. It goes on over
    /// broken connections, without gap or repetition.
    ///
    /// # Errors
    /// As for every call, for the opening; an item that is one is the last.
    pub async fn task_logs(
        &self,
        task: &TaskRef,
        query: LogQuery,
    ) -> Result<ItemStream<ReadLogsResponse>, ClientError> {
        let mut follower = self.task_log(task, query);
        let request = follower.resumption.request.clone();
        let opened = self.call("ReadLogs", request, rpc!(TaskServiceClient.read_logs)).await?;
        follower.stream = Some(opened);
        let items = stream::unfold(follower, |mut follower| async move {
            let item = follower.next().await?;
            Some((item, follower))
        });
        Ok(items.boxed())
    }
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::read_logs_request::Stream;
    use proptest::prelude::*;

    use super::*;

    /// What an agent sends of an attempt with one text per stream, in files of `file` bytes, from where a request
    /// begins.
    fn sent(texts: [&str; 2], file: usize, request: &ReadLogsRequest) -> Vec<ReadLogsResponse> {
        let mut answers = Vec::new();
        let froms = [request.stdout_from, request.stderr_from];
        for ((text, from), stream) in texts.iter().zip(froms).zip([Stream::Stdout, Stream::Stderr]) {
            let answer = |data: &str, next| ReadLogsResponse {
                stream: stream.into(),
                data: data.as_bytes().to_vec().into(),
                incarnation: 3,
                next: Some(next),
                ..ReadLogsResponse::default()
            };
            let mut at = from.unwrap_or_default();
            answers.push(answer("", at));
            loop {
                let begin = usize::try_from(at.file + at.offset).unwrap();
                let end = usize::try_from(at.file).unwrap() + file;
                let data = &text[begin..text.len().min(end)];
                if data.is_empty() {
                    let behind = at.file + at.offset;
                    if begin >= text.len() {
                        break;
                    }
                    at = LogPosition { file: behind, offset: 0 };
                    continue;
                }
                // Two bytes at once.
                let part = &data[..data.len().min(2)];
                at.offset += u64::try_from(part.len()).unwrap();
                answers.push(answer(part, at));
            }
        }
        answers.push(ReadLogsResponse { end: true, incarnation: 3, ..ReadLogsResponse::default() });
        answers
    }

    proptest! {
        /// However often a stream breaks, every byte is delivered once and in order.
        #[test]
        fn breaks_neither_lose_nor_repeat(
            out in "[a-z]{0,30}", err in "[a-z]{0,30}", file in 1_usize..12,
            breaks in prop::collection::vec(0_usize..12, 0..8),
        ) {
            let mut resumption = LogResumption::new(ReadLogsRequest::default());
            let (mut seen, mut ended) = ([String::new(), String::new()], false);
            for limit in breaks.into_iter().chain([usize::MAX]) {
                for answer in sent([&out, &err], file, &resumption.request).into_iter().take(limit) {
                    resumption.delivered(&answer);
                    let of = usize::from(answer.stream() == Stream::Stderr);
                    seen[of].push_str(std::str::from_utf8(&answer.data).unwrap());
                    ended |= answer.end;
                }
                if ended {
                    break;
                }
            }
            prop_assert_eq!(seen, [out, err]);
            prop_assert_eq!(resumption.request.incarnation, Some(3), "no later attempt is read");
        }
    }

    #[test]
    fn what_an_older_gateway_has_sent_cannot_be_gone_on_with() {
        let mut resumption = LogResumption::new(ReadLogsRequest::default());
        resumption.delivered(&ReadLogsResponse::default());
        assert!(!resumption.lost && !resumption.positioned);
        resumption.delivered(&ReadLogsResponse { data: "x".into(), ..ReadLogsResponse::default() });
        assert!(resumption.lost && !resumption.positioned);
    }
}
