//! Output of a task, from the agent that keeps it.

use std::pin::Pin;
use std::sync::Arc;

use borough_proto::v1;
use borough_proto::v1::gateway_message::Message as ToAgent;
use futures::Stream;
use tonic::{Code, Status};

use super::session::FoundAttempt;
use super::slot::{StreamSlot, window_of};
use crate::session::registry::{AgentAnswer, RegisteredSession};
use crate::status::{status_refused, status_unavailable, status_with};

/// A stream of output.
pub(super) type LogStream = Pin<Box<dyn Stream<Item = Result<v1::ReadLogsResponse, Status>> + Send>>;

/// Asks the agent for output, and forwards it as fast as the caller reads. The stream holds its `slot` to its end.
pub(super) async fn log_read(
    found: FoundAttempt,
    request: &v1::ReadLogsRequest,
    slot: StreamSlot,
) -> Result<LogStream, Status> {
    let window = window_of(request.window_bytes);
    let mut answers = found.session.request_within(usize::try_from(window).unwrap_or(usize::MAX));
    let (id, incarnation) = (answers.id, found.attempt.incarnation.0);
    let ask = v1::LogRequest {
        id,
        job_id: found.attempt.task.job.to_string(),
        index: found.attempt.task.index,
        incarnation,
        stream: request.stream,
        tail_lines: request.tail_lines,
        follow: request.follow,
        window_bytes: window,
        stdout_from: request.stdout_from,
        stderr_from: request.stderr_from,
        times: request.times,
        since_ms: request.since_ms,
        helper: request.helper.clone(),
    };
    if !found.session.send(ToAgent::LogRequest(ask)).await {
        return Err(found.agent.away().await);
    }
    let (agent, session) = (found.agent, Arc::clone(&found.session));
    let guard = Cancel { session: found.session, id };
    Ok(Box::pin(async_stream::stream! {
        let _held = (guard, slot);
        loop {
            let Some(answer) = agent.answer(&session, &mut answers).await else { return };
            let chunk = match answer {
                AgentAnswer::Log(chunk) => chunk,
                AgentAnswer::Gone => {
                    yield Err(agent.away().await);
                    return;
                }
                AgentAnswer::Broken(why) => {
                    yield Err(status_unavailable("LOG_BROKEN", why));
                    return;
                }
                AgentAnswer::Exec(_) | AgentAnswer::Result(_) => continue,
            };
            if !chunk.error.is_empty() {
                yield Err(refusal_status(chunk.refusal(), chunk.error));
                return;
            }
            let v1::LogChunk { stream, data, next, gone_bytes, end, times, .. } = chunk;
            if !data.is_empty() || next.is_some() || end {
                yield Ok(v1::ReadLogsResponse { stream, data, incarnation, next, gone_bytes, end, times });
            }
            if end {
                return;
            }
        }
    }))
}

fn refusal_status(refusal: v1::LogRefusal, error: String) -> Status {
    match refusal {
        v1::LogRefusal::NoHelper => status_with(Code::NotFound, "HELPER_UNKNOWN", error, Default::default()),
        v1::LogRefusal::Unspecified => status_refused("LOG_REFUSED", error),
    }
}

/// Cancels the request at the agent when the caller is gone.
struct Cancel {
    session: Arc<RegisteredSession>,
    id: u64,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        let (session, id) = (Arc::clone(&self.session), self.id);
        tokio::spawn(async move {
            session.send(ToAgent::LogCancel(v1::LogCancel { id })).await;
        });
    }
}
