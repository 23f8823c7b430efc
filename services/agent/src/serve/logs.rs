//! Serves a task's output from its files: all or the last lines, and new output while it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use borough_model::Name;
use borough_proto::bounds::{STREAM_MESSAGE_COST, TEXT_BYTES_MAX, text_cut};
use borough_proto::v1;
use borough_proto::v1::read_logs_request::Stream as Wanted;
use borough_shim::log::OutputStream;
use borough_shim::spec::HELPERS_DIR;
use tokio::sync::mpsc;

use super::answer;
use super::credit::Credit;
use super::tail::{LogStart, LogTail};
use super::turns::LogTurns;
use crate::attempt::AttemptId;
use crate::disk::{StateDir, record_read};

/// Pauses between two reads: short after there was output.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Serves one request, until all is sent or the caller has gone. For a slow reader the output waits in the files: no
/// more is read than credit allows.
pub(super) async fn logs_serve(
    state: Arc<StateDir>,
    request: v1::LogRequest,
    now_ms: i64,
    credit: Credit,
    outbox: mpsc::Sender<v1::AgentMessage>,
) {
    let served = serve(state, &request, now_ms, &credit, &outbox).await;
    let (refusal, mut error) = served.err().map(LogFailure::parts).unwrap_or_default();
    text_cut(&mut error, TEXT_BYTES_MAX);
    let refusal = refusal.into();
    let end = v1::LogChunk { id: request.id, end: true, error, refusal, ..v1::LogChunk::default() };
    // The caller may have gone.
    let _ = outbox.send(answer(super::Answer::LogChunk(end))).await;
}

/// Why output ends early.
#[derive(Debug, thiserror::Error)]
enum LogFailure {
    /// The caller named something that does not exist.
    #[error("this attempt has no helper {helper:?}: {has}")]
    NoHelper { helper: String, has: String },
    /// It cannot be read now, or nobody waits for it.
    #[error("{0}")]
    Unread(String),
}

impl LogFailure {
    fn parts(self) -> (v1::LogRefusal, String) {
        let refusal = match &self {
            Self::NoHelper { .. } => v1::LogRefusal::NoHelper,
            Self::Unread(_) => v1::LogRefusal::Unspecified,
        };
        (refusal, self.to_string())
    }
}

async fn serve(
    state: Arc<StateDir>,
    request: &v1::LogRequest,
    now_ms: i64,
    credit: &Credit,
    outbox: &mpsc::Sender<v1::AgentMessage>,
) -> Result<(), LogFailure> {
    let gone = || LogFailure::Unread("the session is over".to_owned());
    let missing = || LogFailure::Unread("this node keeps no logs of that attempt".to_owned());
    let id = state.attempt_find(&request.job_id, request.index, request.incarnation).ok_or_else(missing)?;
    let helper = helper_dir(&state, &id, &request.helper)?;
    let path_now = || match &helper {
        None => state.attempt_path(&id),
        Some(below) => state.attempt_path(&id).join(below),
    };
    let streams: &[OutputStream] = match request.stream() {
        Wanted::Unspecified => &[OutputStream::Stdout, OutputStream::Stderr],
        Wanted::Stdout => &[OutputStream::Stdout],
        Wanted::Stderr => &[OutputStream::Stderr],
    };
    let most = part_bytes(request.window_bytes);
    let tails: Vec<LogTail> = streams
        .iter()
        .map(|&stream| {
            let (path, start) = (path_now(), start_of(request, stream, now_ms));
            let tail = LogTail::new(&path, stream, start, most).with_times(request.times);
            if request.follow { tail } else { tail.up_to_now(&path) }
        })
        .collect();
    // A reader that loses its gateway at once must know where it was.
    for tail in &tails {
        let begin = v1::LogChunk { next: Some(tail.position()), ..chunk_of(request, tail.stream()) };
        if !credit.take(0).await || outbox.send(answer(super::Answer::LogChunk(begin))).await.is_err() {
            return Err(gone());
        }
    }
    let mut turns = LogTurns::new(tails);
    let mut pause = PAUSE_FIRST;
    loop {
        // Checked before reading, so that output written before the end is still read.
        let over = !request.follow || attempt_over(&state, &id);
        let mut any = false;
        while let Some((stream, part)) =
            turns.read(&path_now()).map_err(|error| LogFailure::Unread(error.to_string()))?
        {
            any = true;
            if !credit.take(part.data.len()).await {
                return Err(gone());
            }
            let chunk = v1::LogChunk {
                data: part.data.into(),
                next: Some(part.next),
                gone_bytes: part.gone,
                times: part.times,
                ..chunk_of(request, stream)
            };
            outbox.send(answer(super::Answer::LogChunk(chunk))).await.map_err(|_| gone())?;
        }
        if over {
            return Ok(());
        }
        pause = if any { PAUSE_FIRST } else { (pause * 2).min(PAUSE_MAX) };
        tokio::time::sleep(pause).await;
    }
}

/// The directory of a helper's output below that of its attempt; `None` for the command of the task.
fn helper_dir(state: &StateDir, id: &AttemptId, helper: &str) -> Result<Option<PathBuf>, LogFailure> {
    if helper.is_empty() {
        return Ok(None);
    }
    let helpers = record_read(&state.attempt_path(id)).unwrap_or_default().helpers;
    if Name::new(helper).is_ok() && helpers.iter().any(|known| known.name == helper) {
        return Ok(Some(Path::new(HELPERS_DIR).join(helper)));
    }
    let names: Vec<&str> = helpers.iter().map(|known| known.name.as_str()).collect();
    let has =
        if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
    Err(LogFailure::NoHelper { helper: helper.to_owned(), has })
}

fn chunk_of(request: &v1::LogRequest, stream: OutputStream) -> v1::LogChunk {
    let stream = match stream {
        OutputStream::Stdout => Wanted::Stdout,
        OutputStream::Stderr => Wanted::Stderr,
    };
    v1::LogChunk { id: request.id, stream: stream.into(), ..v1::LogChunk::default() }
}

fn start_of(request: &v1::LogRequest, stream: OutputStream, now_ms: i64) -> LogStart {
    let from = match stream {
        OutputStream::Stdout => request.stdout_from,
        OutputStream::Stderr => request.stderr_from,
    };
    let begin = || match request.since_ms {
        Some(age_ms) => {
            let since_ms = now_ms.saturating_sub(i64::try_from(age_ms).unwrap_or(i64::MAX));
            LogStart::Since { since_ms, lines: request.tail_lines }
        }
        None => request.tail_lines.map_or(LogStart::Oldest, LogStart::Lines),
    };
    from.map_or_else(begin, LogStart::Position)
}

/// Most bytes of one message for a reader of this credit: half of it, so that a message waits for no other one.
fn part_bytes(window: u64) -> usize {
    usize::try_from(window / 2).unwrap_or(usize::MAX).saturating_sub(STREAM_MESSAGE_COST)
}

/// Returns true if nothing more will be written.
fn attempt_over(state: &StateDir, id: &AttemptId) -> bool {
    let path = state.attempt_path(id);
    !path.exists() || record_read(&path).is_some_and(|record| record.released_ms.is_some())
}
