//! Reads the output of one attempt. A broken connection, a gateway that ends and an agent that changes its gateway cost
//! no byte and repeat none. Each answer has a position, and the next request begins there.

use std::time::Duration;

use borough_proto::v1::task_service_client::TaskServiceClient;
use borough_proto::v1::{LogPosition, ReadLogsRequest, ReadLogsResponse, read_logs_request};
use futures::{StreamExt as _, stream};
use tonic::{Status, Streaming};

use crate::call::{Client, ItemStream, rpc};
use crate::error::{ClientError, GatewayRefusal, agent_away, node_silent};
use crate::outage::{GatewayAbsence, Outage, OutageStep};
use crate::retry::worth_repeating;
use crate::task::TaskRef;

/// How long an agent has for its first answer before the reader hears that it waits. An agent answers at once.
const ANSWER_WAIT: Duration = Duration::from_secs(3);

/// Tries after which the reader hears of an agent that has just lost its connection: some seconds. Most agents are
/// back sooner.
const AWAY_TOLD: u32 = 8;

/// What a read gives.
#[derive(Clone, Debug)]
pub enum LogEvent {
    /// Output, or a count of lost bytes.
    Part(ReadLogsResponse),
    /// The read goes on by itself later. It says once what it waits for, until it has an answer.
    Waits(LogWait),
}

/// What a read waits for.
#[derive(Clone, Debug)]
pub enum LogWait {
    /// The first answer of an agent that has got the request.
    Answer,
    /// An agent that is away, as the gateway says.
    Agent(Box<GatewayRefusal>),
    /// A gateway: none answers.
    Gateway(GatewayAbsence),
}

impl LogWait {
    fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Answer, Self::Answer) | (Self::Gateway(_), Self::Gateway(_)) => true,
            // The seconds in the text change all the time.
            (Self::Agent(one), Self::Agent(other)) => one.reason == other.reason,
            _ => false,
        }
    }
}

/// Which part of a task's output to return. The default is all kept output of both streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The output of this helper; empty: that of the command of the task.
    pub helper: String,
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
    /// The same for tries that fail because the agent is away.
    away_max: Option<u32>,
    /// For how long the read tries to reach a gateway. Absent: without end.
    patience: Option<Duration>,
    /// Since the stream broke without an answer of any gateway.
    outage: Option<Outage>,
    /// What the last of these tries came to.
    failed: Option<Box<Status>>,
    /// Whether the open stream has had an answer.
    answered: bool,
    /// What the reader was last told that this waits for.
    told: Option<LogWait>,
    over: bool,
}

/// Why a stream has ended.
enum Break {
    Over,
    Repeat(Option<Box<Status>>),
    Outage(OutageStep),
    Fatal(ClientError),
}

impl LogFollower {
    fn new(client: &Client, request: ReadLogsRequest) -> Self {
        Self {
            client: client.clone(),
            resumption: LogResumption::new(request),
            stream: None,
            attempts: 0,
            attempts_max: None,
            away_max: None,
            patience: client.config().watch_patience,
            outage: None,
            failed: None,
            answered: false,
            told: None,
            over: false,
        }
    }

    /// Sets after how many tries in a row without an answer the read fails; `None`: never.
    pub fn attempts_max_set(&mut self, most: Option<u32>) {
        (self.attempts_max, self.away_max, self.patience) = (most, most, None);
    }

    /// The next answer with data, or the last one; or what the read waits for. Safe to drop: nothing is lost. `None`
    /// after the end or an error.
    pub async fn next(&mut self) -> Option<Result<LogEvent, ClientError>> {
        while !self.over {
            let broken = match self.answer_or_wait().await {
                Some(Ok(answer)) => {
                    (self.attempts, self.answered, self.told) = (0, true, None);
                    (self.outage, self.failed) = (None, None);
                    self.resumption.delivered(&answer);
                    self.over = answer.end;
                    if answer.data.is_empty() && answer.gone_bytes == 0 {
                        continue;
                    }
                    return Some(Ok(LogEvent::Part(answer)));
                }
                Some(Err(broken)) => broken,
                None => match self.tell(LogWait::Answer) {
                    Some(event) => return Some(Ok(event)),
                    None => continue,
                },
            };
            (self.stream, self.answered) = (None, false);
            match broken {
                Break::Over => self.over = true,
                Break::Fatal(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
                Break::Outage(OutageStep::GiveUp) => {
                    self.over = true;
                    return Some(Err(self.client.unreachable_after(self.attempts, self.failed.take())));
                }
                Break::Outage(OutageStep::Tell) => {
                    let error = self.client.unreachable_after(self.attempts, self.failed.clone());
                    let wait = LogWait::Gateway(GatewayAbsence::told(error, self.patience));
                    if let Some(event) = self.tell(wait) {
                        return Some(Ok(event));
                    }
                }
                Break::Repeat(status) => {
                    self.attempts += 1;
                    let away = status.as_deref().and_then(agent_away);
                    match &away {
                        // A gateway that says so answers.
                        Some(_) => (self.outage, self.failed) = (None, None),
                        None => self.outage_note(status.as_deref()),
                    }
                    let most = if away.is_some() { self.away_max } else { self.attempts_max };
                    if most.is_some_and(|most| self.attempts >= most) {
                        self.over = true;
                        return Some(Err(self.client.unreachable_after(self.attempts, status)));
                    }
                    let attempts = self.attempts;
                    tracing::debug!(attempts, ?status, "a log has broken; the client opens it again");
                    let told = |away: &GatewayRefusal| away.is_node_silent() || attempts >= AWAY_TOLD;
                    let away = away.filter(told);
                    let event = away.and_then(|away| self.tell(LogWait::Agent(Box::new(away))));
                    if event.is_some() {
                        return event.map(Ok);
                    }
                    self.pause().await;
                }
            }
        }
        None
    }

    /// Records a try without an answer of any gateway.
    fn outage_note(&mut self, status: Option<&Status>) {
        let patience = self.patience;
        self.outage.get_or_insert_with(|| Outage::begin(patience));
        if let Some(status) = status {
            self.failed = Some(Box::new(status.clone()));
        }
    }

    /// What is reported to the reader, unless it knows.
    fn tell(&mut self, wait: LogWait) -> Option<LogEvent> {
        if self.told.as_ref().is_some_and(|told| told.is_as(&wait)) {
            return None;
        }
        self.told = Some(wait.clone());
        Some(LogEvent::Waits(wait))
    }

    /// The next answer. `None` if the agent takes long for the first one, and the reader does not know it.
    async fn answer_or_wait(&mut self) -> Option<Result<ReadLogsResponse, Break>> {
        if self.answered || self.told.is_some() || self.outage.is_some() {
            return Some(self.answer().await);
        }
        tokio::time::timeout(ANSWER_WAIT, self.answer()).await.ok()
    }

    /// The next answer. Opens the stream first if none is open.
    async fn answer(&mut self) -> Result<ReadLogsResponse, Break> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let (client, request) = (self.client.clone(), self.resumption.request.clone());
                let deadline = client.deadline();
                let send = rpc!(TaskServiceClient.read_logs);
                let opening = tokio::time::timeout(deadline, client.attempt(request, &send));
                let opened = match &mut self.outage {
                    None => opening.await,
                    Some(outage) => tokio::select! {
                        biased;
                        step = outage.step() => return Err(Break::Outage(step)),
                        opened = opening => opened,
                    },
                };
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
        let waits = self.resumption.request.follow && node_silent(&status);
        let repeats = waits || worth_repeating(&status) || self.client.token_renewed(&status);
        if repeats && !self.resumption.lost {
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
            helper: query.helper,
        }
    }

    /// A read of a task's output that is opened by its first [`LogFollower::next`].
    pub fn task_log(&self, task: &TaskRef, query: LogQuery) -> LogFollower {
        LogFollower::new(self, self.log_request(task, query))
    }

    /// A read of a task's output that is open. With `follow` it also waits for an agent that is away.
    ///
    /// # Errors
    /// As for every call, for the opening.
    pub async fn task_log_open(&self, task: &TaskRef, query: LogQuery) -> Result<LogFollower, ClientError> {
        let follow = query.follow;
        let mut follower = self.task_log(task, query);
        let request = follower.resumption.request.clone();
        match self.call("ReadLogs", request, rpc!(TaskServiceClient.read_logs)).await {
            Ok(opened) => follower.stream = Some(opened),
            Err(error) if follow && error.agent_away().is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(follower)
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
        let follower = self.task_log_open(task, query).await?;
        let items = stream::unfold(follower, |mut follower| async move {
            loop {
                match follower.next().await? {
                    Ok(LogEvent::Part(part)) => return Some((Ok(part), follower)),
                    Ok(LogEvent::Waits(_)) => {}
                    Err(error) => return Some((Err(error), follower)),
                }
            }
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
