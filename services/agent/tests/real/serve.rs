//! Requests over the session: logs, commands, signals.

use borough_proto::bounds::{STREAM_DATA_BYTES_MAX, STREAM_WINDOW_BYTES, stream_cost};
use borough_proto::v1;
use borough_proto::v1::agent_message::Message as FromAgent;
use borough_proto::v1::exec_input::Input;
use borough_proto::v1::exec_output::Output;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_proto::v1::read_logs_request::Stream;
use borough_proto::v1::task_status::Phase;

use crate::gateway::Seen;
use crate::harness::{Cell, attempt, number_in, output, runs, script, stop, until};

/// More credit than any test uses.
const ENDLESS: u64 = 1 << 30;

fn request(id: u64, attempt: &v1::TaskAttempt, tail_lines: Option<u32>, follow: bool) -> ToAgent {
    ToAgent::LogRequest(v1::LogRequest {
        id,
        job_id: attempt.job_id.clone(),
        index: attempt.index,
        incarnation: 0,
        stream: Stream::Stdout.into(),
        tail_lines,
        follow,
        window_bytes: ENDLESS,
        ..v1::LogRequest::default()
    })
}

/// The output for a request; after its end, also the reason.
fn log(seen: &Seen, id: u64) -> (String, Option<String>) {
    let (mut text, mut end) = (Vec::new(), None);
    for answer in &seen.answers {
        if let FromAgent::LogChunk(chunk) = answer
            && chunk.id == id
        {
            text.extend_from_slice(&chunk.data);
            end = end.or_else(|| chunk.end.then(|| chunk.error.clone()));
        }
    }
    (String::from_utf8(text).unwrap(), end)
}

async fn log_end(cell: &Cell, id: u64) -> (String, String) {
    cell.gateway
        .wait("the end of a log", |seen| {
            let (text, end) = log(seen, id);
            end.map(|error| (text, error))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_followed_over_rotations_to_the_end_of_the_attempt() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    let text = "i=0; while [ $i -lt 400 ]; do echo \"line $i\"; i=$((i+1)); done; until test -e go; do sleep 0.01; done; \
                while [ $i -lt 800 ]; do echo \"line $i\"; i=$((i+1)); done; printf last";
    let mut work = script(&attempt, text);
    work.spec.as_mut().unwrap().log = Some(v1::LogSpec { file_bytes_max: 1000, files_max: 100 });
    cell.gateway.run(work);
    cell.gateway.phase(&attempt, Phase::Running).await;
    cell.gateway.send(request(1, &attempt, None, true));
    cell.gateway.wait("the first half", |seen| log(seen, 1).0.contains("line 399\n").then_some(())).await;
    std::fs::write(cell.attempt_dir(&attempt).join("work/go"), "").unwrap();
    let (followed, error) = log_end(&cell, 1).await;
    let expect: String = (0..800).map(|i| format!("line {i}\n")).chain(["last".to_owned()]).collect();
    assert_eq!((followed.as_str(), error.as_str()), (expect.as_str(), ""));
    // Kept after the end, in whole lines in every file but the last.
    cell.gateway.phase(&attempt, Phase::Released).await;
    let files =
        borough_shim::log::file_numbers(&cell.attempt_dir(&attempt), borough_shim::log::OutputStream::Stdout);
    assert!(files.len() > 5, "{files:?}");
    cell.gateway.forget(attempt.clone());
    until("its files to be set aside", || {
        cell.attempt_dir(&attempt).parent()?.ends_with("ended").then_some(())
    })
    .await;
    cell.gateway.send(request(2, &attempt, Some(3), false));
    assert_eq!(log_end(&cell, 2).await.0, "line 798\nline 799\nlast");
    cell.gateway.send(request(3, &crate::harness::attempt(9, 1), None, false));
    assert!(log_end(&cell, 3).await.1.contains("no logs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_log_ends() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway
        .run(script(&attempt, "echo one; until test -e go; do sleep 0.01; done; echo two; sleep 600"));
    cell.gateway.phase(&attempt, Phase::Running).await;
    for id in [1, 2] {
        cell.gateway.send(request(id, &attempt, None, true));
        cell.gateway.wait("its output", |seen| (log(seen, id).0 == "one\n").then_some(())).await;
    }
    cell.gateway.send(ToAgent::LogCancel(v1::LogCancel { id: 1 }));
    // Requests are answered in order: the first one would have its output before the second.
    cell.gateway.send(request(3, &attempt, None, false));
    log_end(&cell, 3).await;
    std::fs::write(cell.attempt_dir(&attempt).join("work/go"), "").unwrap();
    cell.gateway.wait("its output", |seen| (log(seen, 2).0 == "one\ntwo\n").then_some(())).await;
    assert_eq!(cell.gateway.look(|seen| log(seen, 1).0), "one\n");
}

fn exec(id: u64, attempt: &v1::TaskAttempt, script: &str, terminal: Option<v1::WindowSize>) -> ToAgent {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    ToAgent::ExecStart(v1::ExecStart {
        id,
        attempt: Some(attempt.clone()),
        command,
        terminal,
        window_bytes: ENDLESS,
    })
}

fn input(id: u64, input: Input) -> ToAgent {
    ToAgent::ExecInput(v1::ExecInput { id, input: Some(input) })
}

/// Output of a command: standard, error, and how it ended.
fn command(seen: &Seen, id: u64) -> (String, String, Option<Result<v1::ExecExit, String>>) {
    let (mut out, mut err, mut end) = (Vec::new(), Vec::new(), None);
    for answer in &seen.answers {
        let FromAgent::ExecOutput(v1::ExecOutput { id: of, output: Some(output) }) = answer else { continue };
        match output {
            _ if *of != id => {}
            Output::Stdout(data) => out.extend_from_slice(data),
            Output::Stderr(data) => err.extend_from_slice(data),
            Output::Exit(exit) => end = Some(Ok(*exit)),
            Output::Error(error) => end = Some(Err(error.clone())),
        }
    }
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), end)
}

async fn command_end(cell: &Cell, id: u64) -> (String, String, Result<v1::ExecExit, String>) {
    cell.gateway
        .wait("the end of a command", |seen| {
            let (out, err, end) = command(seen, id);
            end.map(|end| (out, err, end))
        })
        .await
}

async fn sleeper(cell: &Cell) -> (v1::TaskAttempt, u32) {
    let attempt = attempt(0, 1);
    let mut work = script(&attempt, "exec sleep 600");
    work.spec.as_mut().unwrap().environment.insert("SECRET".to_owned(), "xyz".to_owned());
    cell.gateway.run(work);
    let pid = cell.gateway.phase(&attempt, Phase::Running).await.pid.unwrap();
    (attempt, pid)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_in_the_tasks_environment_directory_and_cgroup() {
    let cell = Cell::with_agent().await;
    let (attempt, pid) = sleeper(&cell).await;
    let text =
        "echo $SECRET; pwd; cat /proc/self/cgroup; read line; echo got $line >&2; cat >/dev/null; exit 9";
    cell.gateway.send(exec(1, &attempt, text, None));
    cell.gateway.send(input(1, Input::Stdin("word\nmore".into())));
    cell.gateway.send(input(1, Input::StdinClosed(true)));
    let (out, err, end) = command_end(&cell, 1).await;
    let work = cell.attempt_dir(&attempt).join("work").canonicalize().unwrap();
    let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert_eq!(out, format!("xyz\n{}\n{cgroup}", work.display()));
    assert_eq!((err.as_str(), end.unwrap().code), ("got word\n", Some(9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_has_its_size_and_takes_keys() {
    let cell = Cell::with_agent().await;
    let (attempt, _) = sleeper(&cell).await;
    let size = |rows, columns| v1::WindowSize { rows, columns };
    let text = "test -t 0 && test -t 1 && echo terminal; stty size; read x; stty size; cat; exit 3";
    cell.gateway.send(exec(1, &attempt, text, Some(size(24, 80))));
    cell.gateway.wait("the first size", |seen| command(seen, 1).0.contains("24 80").then_some(())).await;
    cell.gateway.send(input(1, Input::Window(size(50, 132))));
    cell.gateway.send(input(1, Input::Stdin("x\n".into())));
    cell.gateway.wait("the second size", |seen| command(seen, 1).0.contains("50 132").then_some(())).await;
    cell.gateway.send(input(1, Input::StdinClosed(true)));
    let (out, _, end) = command_end(&cell, 1).await;
    assert!(out.starts_with("terminal\r\n"), "{out}");
    assert_eq!(end.unwrap().code, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_caller() {
    let cell = Cell::with_agent().await;
    let (attempt, _) = sleeper(&cell).await;
    let work = cell.attempt_dir(&attempt).join("work");
    for (id, how) in [(1, "cancelled"), (2, "hung up")] {
        cell.gateway.send(exec(id, &attempt, &format!("echo $$ > pid{id}; exec sleep 600"), None));
        let pid = number_in(work.join(format!("pid{id}"))).await;
        match how {
            "cancelled" => cell.gateway.send(input(id, Input::Cancelled(true))),
            _ => cell.gateway.hang_up(),
        }
        until("its end", || (!runs(pid)).then_some(())).await;
    }
    // It ends with its task: it is in the task's cgroup.
    cell.gateway.wait("a second session", |seen| (seen.sessions >= 2).then_some(())).await;
    cell.gateway.send(exec(3, &attempt, "echo $$ > pid3; exec sleep 600", None));
    let pid = number_in(work.join("pid3")).await;
    cell.gateway.stop(stop(&attempt, 1000));
    cell.gateway.phase(&attempt, Phase::Released).await;
    until("its end", || (!runs(pid)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_run_reports_why() {
    let cell = Cell::with_agent().await;
    let (attempt, _) = sleeper(&cell).await;
    let start = v1::ExecStart {
        id: 1,
        attempt: Some(attempt),
        command: vec!["no-such".to_owned()],
        terminal: None,
        window_bytes: ENDLESS,
    };
    cell.gateway.send(ToAgent::ExecStart(start));
    let (_, err, end) = command_end(&cell, 1).await;
    assert!(err.contains("no-such") && end.unwrap().code == Some(127), "{err}");
    cell.gateway.send(exec(2, &crate::harness::attempt(5, 1), "true", None));
    assert!(command_end(&cell, 2).await.2.unwrap_err().contains("not on this node"));
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_reach_the_task_and_refusals_name_the_reason() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "trap 'echo hup' HUP; echo up; while :; do sleep 0.01; done"));
    cell.gateway.phase(&attempt, Phase::Running).await;
    until("its start", || output(&cell.attempt_dir(&attempt)).contains("up").then_some(())).await;
    let signal = |id, attempt: &v1::TaskAttempt, signal| {
        ToAgent::Signal(v1::SignalCommand {
            id,
            attempt: Some(attempt.clone()),
            signal,
            request_id: format!("{id:032x}"),
        })
    };
    cell.gateway.send(signal(1, &attempt, 1));
    until("its answer", || output(&cell.attempt_dir(&attempt)).contains("hup").then_some(())).await;
    cell.gateway.send(signal(2, &attempt, 40));
    cell.gateway.send(signal(3, &crate::harness::attempt(7, 1), 1));
    for (id, expect) in [(1, ""), (2, "signal 40"), (3, "not on this node")] {
        let error = cell
            .gateway
            .wait("an answer", |seen| {
                seen.answers.iter().find_map(|answer| match answer {
                    FromAgent::Result(result) if result.id == id => Some(result.error.clone()),
                    _ => None,
                })
            })
            .await;
        assert!(error.contains(expect) && error.is_empty() == expect.is_empty(), "{error}");
    }
}

/// Bytes that a task wrote and that arrived for a request.
fn log_bytes(seen: &Seen, id: u64) -> usize {
    let data = |answer: &FromAgent| match answer {
        FromAgent::LogChunk(chunk) if chunk.id == id => chunk.data.len(),
        _ => 0,
    };
    seen.answers.iter().map(data).sum()
}

fn credit(id: u64, bytes: usize) -> ToAgent {
    ToAgent::Credit(v1::StreamCredit { id, bytes: bytes.try_into().unwrap() })
}

/// A reader that takes nothing is sent one window; the rest waits in the files.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_of_logs_waits_in_the_files() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway
        .run(script(&attempt, "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo over >&2; sleep 600"));
    until("its output", || output(&cell.attempt_dir(&attempt)).len().ge(&1_000_001).then_some(())).await;
    let ToAgent::LogRequest(ask) = request(1, &attempt, None, false) else { unreachable!() };
    // The first message says where the stream begins, and has no data.
    let window = stream_cost(0) + 4 * stream_cost(STREAM_DATA_BYTES_MAX);
    cell.gateway.send(ToAgent::LogRequest(v1::LogRequest { window_bytes: window as u64, ..ask }));
    cell.gateway
        .wait("one window", |seen| (log_bytes(seen, 1) >= 4 * STREAM_DATA_BYTES_MAX).then_some(()))
        .await;
    // Another reader's whole log arrives meanwhile.
    cell.gateway.send(request(2, &attempt, None, false));
    assert_eq!(log_end(&cell, 2).await.0.len(), 1_000_001);
    let held = cell.gateway.look(|seen| log_bytes(seen, 1));
    assert_eq!(held, 4 * STREAM_DATA_BYTES_MAX, "no more than its credit");
    cell.gateway.send(credit(1, 2_000_000));
    let (text, error) = log_end(&cell, 1).await;
    assert_eq!((text.len(), error.as_str()), (1_000_001, ""));
}

/// A command whose output nobody takes waits at its pipe, and loses none of it, even after it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_of_a_command_slows_the_command() {
    let cell = Cell::with_agent().await;
    let (attempt, _) = sleeper(&cell).await;
    let done = cell.attempt_dir(&attempt).join("work/done");
    let ToAgent::ExecStart(start) =
        exec(1, &attempt, "head -c 1000000 /dev/zero | tr '\\0' x; touch done", None)
    else {
        unreachable!()
    };
    let window = 4 * stream_cost(STREAM_DATA_BYTES_MAX);
    cell.gateway.send(ToAgent::ExecStart(v1::ExecStart { window_bytes: window as u64, ..start }));
    cell.gateway.wait("some output", |seen| (command(seen, 1).0.len() > window / 2).then_some(())).await;
    // Requests are answered in order: everything that the first could send it has sent by then.
    cell.gateway.send(exec(2, &attempt, "true", None));
    command_end(&cell, 2).await.2.unwrap();
    assert!(cell.gateway.look(|seen| command(seen, 1).0.len()) <= window && !done.exists(), "it waits");
    cell.gateway.send(credit(1, 900_000));
    until("its end", || done.exists().then_some(())).await;
    cell.gateway.send(credit(1, 900_000));
    let (out, _, end) = command_end(&cell, 1).await;
    assert_eq!((out.len(), end.unwrap().code), (1_000_000, Some(0)));
}

/// Input that a command does not read yet is held within its credit, and the credit comes back as it reads.
#[tokio::test(flavor = "multi_thread")]
async fn input_waits_for_a_command_that_does_not_read_and_comes_back_as_credit() {
    let cell = Cell::with_agent().await;
    let (attempt, _) = sleeper(&cell).await;
    cell.gateway.send(exec(1, &attempt, "until test -e go; do sleep 0.01; done; wc -c", None));
    let piece = vec![b'x'; STREAM_DATA_BYTES_MAX];
    let pieces = STREAM_WINDOW_BYTES / stream_cost(piece.len());
    for _ in 0..pieces {
        cell.gateway.send(input(1, Input::Stdin(piece.clone().into())));
    }
    std::fs::write(cell.attempt_dir(&attempt).join("work/go"), "").unwrap();
    let given = |seen: &Seen| {
        let of = |answer: &FromAgent| match answer {
            FromAgent::Credit(credit) if credit.id == 1 => credit.bytes,
            _ => 0,
        };
        seen.answers.iter().map(of).sum::<u64>()
    };
    let least = (STREAM_WINDOW_BYTES / 2) as u64;
    cell.gateway.wait("credit", |seen| (given(seen) >= least).then_some(())).await;
    cell.gateway.send(input(1, Input::StdinClosed(true)));
    let (out, _, end) = command_end(&cell, 1).await;
    assert_eq!((out.trim(), end.unwrap().code), ((pieces * piece.len()).to_string().as_str(), Some(0)));
}
