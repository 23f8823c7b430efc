//! Serves a task's output from its files: all or the last lines, and new output while it runs.

use std::sync::Arc;
use std::time::Duration;

use borough_proto::bounds::{TEXT_BYTES_MAX, text_cut};
use borough_proto::v1;
use borough_proto::v1::read_logs_request::Stream as Wanted;
use borough_shim::log::OutputStream;
use tokio::sync::mpsc;

use super::answer;
use super::credit::Credit;
use super::tail::LogTail;
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
    credit: Credit,
    outbox: mpsc::Sender<v1::AgentMessage>,
) {
    let mut error = serve(state, &request, &credit, &outbox).await.err().unwrap_or_default();
    text_cut(&mut error, TEXT_BYTES_MAX);
    let end = v1::LogChunk { id: request.id, end: true, error, ..v1::LogChunk::default() };
    // The caller may have gone.
    let _ = outbox.send(answer(super::Answer::LogChunk(end))).await;
}

async fn serve(
    state: Arc<StateDir>,
    request: &v1::LogRequest,
    credit: &Credit,
    outbox: &mpsc::Sender<v1::AgentMessage>,
) -> Result<(), String> {
    let gone = || "the session is over".to_owned();
    let missing = || "this node keeps no logs of that attempt".to_owned();
    let id = state.attempt_find(&request.job_id, request.index, request.incarnation).ok_or_else(missing)?;
    let streams: &[OutputStream] = match request.stream() {
        Wanted::Unspecified => &[OutputStream::Stdout, OutputStream::Stderr],
        Wanted::Stdout => &[OutputStream::Stdout],
        Wanted::Stderr => &[OutputStream::Stderr],
    };
    let mut tails: Vec<LogTail> = streams
        .iter()
        .map(|stream| LogTail::new(&state.attempt_path(&id), *stream, request.tail_lines))
        .collect();
    let mut pause = PAUSE_FIRST;
    loop {
        // Checked before reading, so that output written before the end is still read.
        let over = !request.follow || attempt_over(&state, &id);
        let mut any = false;
        for tail in &mut tails {
            let directory = state.attempt_path(&id);
            while let Some(data) = tail.read(&directory).map_err(|error| error.to_string())? {
                any = true;
                if !credit.take(data.len()).await {
                    return Err(gone());
                }
                let chunk = v1::LogChunk {
                    id: request.id,
                    stream: wire(tail.stream()).into(),
                    data: data.into(),
                    ..v1::LogChunk::default()
                };
                let chunk = answer(super::Answer::LogChunk(chunk));
                outbox.send(chunk).await.map_err(|_| gone())?;
            }
        }
        if over {
            return Ok(());
        }
        pause = if any { PAUSE_FIRST } else { (pause * 2).min(PAUSE_MAX) };
        tokio::time::sleep(pause).await;
    }
}

fn wire(stream: OutputStream) -> Wanted {
    match stream {
        OutputStream::Stdout => Wanted::Stdout,
        OutputStream::Stderr => Wanted::Stderr,
    }
}

/// Returns true if nothing more will be written.
fn attempt_over(state: &StateDir, id: &AttemptId) -> bool {
    let path = state.attempt_path(id);
    !path.exists() || record_read(&path).is_some_and(|record| record.released_ms.is_some())
}
