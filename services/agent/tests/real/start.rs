//! Starts: what a task gets, and the reports if it cannot start.

use borough_proto::v1::task_status::Phase;
use borough_proto::v1::{self, EndReason};

use crate::harness::{Cell, attempt, command, output, runs, script, stop, token, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_exits_and_leaves_nothing_but_its_logs() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    let mut work = script(&attempt, "echo hello $BOROUGH_JOB.$BOROUGH_INDEX; echo oops >&2; pwd; exit 3");
    work.ports = vec![v1::Port { name: "http".to_owned(), number: 8080 }];
    cell.gateway.run(work);
    let status = cell.gateway.phase(&attempt, Phase::Released).await;
    let exit = status.exit.unwrap();
    assert_eq!((exit.reason(), exit.code, exit.signal), (EndReason::Exited, Some(3), None));
    assert_eq!((exit.incarnation, exit.node.as_str()), (1, "n1"));
    assert!(status.started_ms.unwrap() > 0 && exit.at_ms >= status.started_ms.unwrap());
    let directory = cell.attempt_dir(&attempt);
    let work_dir = directory.join("work").canonicalize().unwrap();
    assert_eq!(output(&directory), format!("hello work.0\n{}\n", work_dir.display()));
    assert_eq!(std::fs::read_to_string(directory.join("stderr.log")).unwrap(), "oops\n");
    // All of its files are gone, and so are the shim and its record for the guard.
    until("the shim's end", || {
        let records = std::fs::read_dir(cell.guard.records()).unwrap().count();
        (records == 1 && !runs(status.pid.unwrap())).then_some(())
    })
    .await;
    let hello = cell.gateway.look(|seen| seen.hello.clone()).unwrap();
    assert_eq!((hello.cell.as_str(), hello.node.as_str()), ("test", "n1"));
    assert!(!hello.boot_id.is_empty() && hello.capacity.unwrap().memory_bytes > 0);
    assert!(
        hello.attributes.contains_key("cgroup.version") && hello.attributes.contains_key("cgroup.memory")
    );
    let bearer = format!("Bearer {}", token(cell.guard.records()).expose());
    assert_eq!(cell.gateway.look(|seen| seen.authorization.clone()), Some(bearer));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_reports_why() {
    let cell = Cell::with_agent().await;
    let directory = command(&attempt(3, 1), &["true"]);
    let mut elsewhere = directory.clone();
    elsewhere.spec.as_mut().unwrap().working_directory = Some("/nowhere/at/all".to_owned());
    let cases = [
        (command(&attempt(0, 1), &["/no/such/program", "x"]), "/no/such/program"),
        (command(&attempt(1, 1), &["no-such-program"]), "PATH"),
        (command(&attempt(2, 1), &["/etc/passwd"]), "does not let the user of the task execute it"),
        (elsewhere, "/nowhere/at/all"),
        (command(&attempt(4, 1), &["echo", "${PORT_MISSING}"]), "PORT_MISSING"),
        (command(&attempt(5, 1), &[]), "empty"),
    ];
    for (assignment, _) in &cases {
        cell.gateway.run(assignment.clone());
    }
    for (assignment, expect) in cases {
        let status = cell.gateway.phase(assignment.attempt.as_ref().unwrap(), Phase::Released).await;
        let exit = status.exit.unwrap();
        assert_eq!(exit.reason(), EndReason::StartFailed, "{exit:?}");
        assert!(exit.message.contains(expect) && exit.code.is_none(), "{exit:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_overtakes_its_start_wins() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.stop(stop(&attempt, 10));
    let status = cell.gateway.phase(&attempt, Phase::Released).await;
    assert_eq!(status.exit.unwrap().reason(), EndReason::Stopped);
    cell.gateway.run(script(&attempt, "sleep 60"));
    // A later action that was carried out shows that the start was handled.
    let other = crate::harness::attempt(1, 1);
    cell.gateway.run(script(&other, "true"));
    cell.gateway.phase(&other, Phase::Released).await;
    assert_eq!(cell.gateway.look(|seen| seen.tasks[&crate::gateway::key(&attempt)].pid), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_not_protected_as_its_agent_is() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "cat /proc/self/oom_score_adj; umask; ulimit -c; ls -l /proc/self/fd"));
    cell.gateway.phase(&attempt, Phase::Released).await;
    let text = output(&cell.attempt_dir(&attempt));
    assert_eq!(text.lines().take(3).collect::<Vec<_>>(), ["0", "0022", "0"]);
    let state = cell.state_dir().display().to_string();
    assert!(!text.contains("anon_inode") && !text.contains(&state), "a descriptor of ours: {text}");
}
