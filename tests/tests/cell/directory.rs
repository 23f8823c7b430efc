//! The directory of a cell: one process uses it at a time, and unreadable content is not touched.

use std::fs;
use std::path::Path;

use borough_client::JobFilter;
use borough_kv::exercise::not_exercised;
use borough_shim::process::ProcessId;
use borough_tests::{TestCell, answered, bytes_of, is_fdb, options, until};
use rustix::process::Signal;

/// Starts a cell that must refuse. Returns its error.
async fn refused(cell: &TestCell) -> String {
    let mut command = tokio::process::Command::from(cell.dev_command());
    let ran = tokio::time::timeout(borough_tests::DEADLINE, command.kill_on_drop(true).output()).await;
    let output = ran.expect("it ends at once").unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The same, and no byte of the store has changed.
async fn refused_untouched(cell: &TestCell, store: &Path) -> String {
    let before = bytes_of(store);
    let printed = refused(cell).await;
    let after = bytes_of(store);
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before), "{printed}");
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after, "{} has changed: {printed}", before.0);
    }
    printed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_second_cell_is_refused_and_the_first_unharmed() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("kept.yaml", "name: kept\ntask: {command: [sleep, 600], grace: 200ms}\n").await;
    let printed = refused(&cell).await;
    let pid = cell.control().pid;
    // The store of FoundationDB is no file of the directory, so the directory itself is held.
    let way = if is_fdb() { "stop it, or name another directory" } else { "end that process" };
    assert!(printed.contains(way) && printed.contains(&pid.to_string()), "{printed}");
    cell.run("more.yaml", "name: more\ntask: {command: [sleep, 600], grace: 200ms}\n").await;
    let jobs = cell.client().job_list(&JobFilter::default()).await.unwrap();
    assert_eq!(jobs.len(), 2);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn damaged_and_newer_directories_are_refused_untouched() {
    if is_fdb() {
        not_exercised("a damaged directory", "the cell is on FoundationDB");
        return;
    }
    let mut cell = TestCell::start(options!().nodes(1)).await;
    cell.run("kept.yaml", "name: kept\ntask: {command: [sleep, 600], grace: 200ms}\n").await;
    assert!(cell.control_stop().await.success());
    let store = cell.root().join("store");

    let format = store.join("FORMAT");
    let known = fs::read(&format).unwrap();
    fs::write(&format, "borough-kv format 9999\n").unwrap();
    let printed = refused_untouched(&cell, &store).await;
    assert!(printed.contains("9999") && printed.contains("nothing was touched"), "{printed}");
    fs::write(&format, "something else\n").unwrap();
    let printed = refused_untouched(&cell, &store).await;
    assert!(printed.contains("nothing was touched"), "{printed}");
    fs::write(&format, &known).unwrap();

    // Within acknowledged records: not a torn end, but damage.
    let log = fs::read_dir(&store).unwrap().flatten().map(|entry| entry.path());
    let log =
        log.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-")).min().unwrap();
    let sound = fs::read(&log).unwrap();
    let mut damaged = sound.clone();
    for byte in &mut damaged[2_000..2_064] {
        *byte ^= 0x5a;
    }
    fs::write(&log, &damaged).unwrap();
    let printed = refused_untouched(&cell, &store).await;
    assert!(printed.contains("nothing was touched"), "{printed}");

    // Restored, everything is there again.
    fs::write(&log, &sound).unwrap();
    cell.control_start().await;
    assert_eq!(cell.client().job_list(&JobFilter::default()).await.unwrap().len(), 1);
    cell.finish().await;
}

/// The command of `dev` on any free port, as after `--port 0`.
fn on_any_port(cell: &TestCell) -> tokio::process::Command {
    let known = cell.dev_command();
    let mut words: Vec<_> = known.get_args().map(ToOwned::to_owned).collect();
    let port = words.iter().position(|word| word == "--port").expect("its port");
    words[port + 1] = "0".into();
    let mut command = tokio::process::Command::new(known.get_program());
    let variables = known.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(words).envs(variables).stdin(std::process::Stdio::null()).kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn agents_that_outlive_dev_find_the_next_one_on_another_port() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    cell.run("kept.yaml", "name: kept\ntask: {command: [sleep, 600], grace: 200ms}\n").await;
    let pid = cell.tasks("kept").await[0].pid;
    cell.control_kill();
    let taken = std::net::TcpListener::bind(cell.grpc()).unwrap();
    let mut dev = on_any_port(&cell).spawn().unwrap();
    until("a connected node", || async {
        let nodes = cell.borough(&["node", "list", "-o", "json"]).await;
        (nodes.code == Some(0) && nodes.json()[0]["connected"] == true).then_some(())
    })
    .await;
    let task = cell.borough(&["task", "status", "kept", "-o", "json"]).await.ended(0).json();
    assert_eq!((task[0]["pid"].as_u64(), task[0]["attempt"].as_u64()), (pid.map(u64::from), Some(1)));
    ProcessId::find(dev.id().unwrap()).unwrap().signal(Signal::TERM).unwrap();
    assert!(dev.wait().await.unwrap().success());
    drop(taken);
    cell.finish().await;
}

/// Verbs that wait know the last port only.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dev_on_any_port_takes_the_last_one_while_that_is_free() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    cell.control_kill();
    let mut dev = on_any_port(&cell).spawn().unwrap();
    until("an answer", || async {
        let listed = cell.borough(&["--gateway", &cell.grpc(), "node", "list"]).await;
        (listed.code == Some(0)).then_some(())
    })
    .await;
    ProcessId::find(dev.id().unwrap()).unwrap().signal(Signal::TERM).unwrap();
    assert!(dev.wait().await.unwrap().success());
    cell.finish().await;
}

/// The one address that is taken is named, before anything starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_taken_port_is_named_and_nothing_has_started() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    assert!(cell.control_stop().await.success());
    for (address, protocol) in [(cell.grpc(), "gRPC"), (cell.http(), "HTTP")] {
        let taken = std::net::TcpListener::bind(&address).unwrap();
        let printed = refused(&cell).await;
        drop(taken);
        let expected = format!("error: cannot start: cannot listen on {address} for {protocol}: ");
        assert!(printed.contains(&expected), "{printed}");
        assert!(!printed.contains("WARN"), "{printed}");
    }
    cell.control_start().await;
    cell.finish().await;
}

/// Fewer nodes than before: who starts it hears which nodes are left out, until they are removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_that_a_later_start_leaves_out_are_named_until_they_are_removed() {
    let mut cell = TestCell::start(options!().nodes(3).lost_after_ms(2_000)).await;
    let said = |cell: &TestCell| fs::read_to_string(cell.log()).unwrap();
    assert!(cell.control_stop().await.success());
    assert!(!said(&cell).contains("of an earlier start"), "{}", said(&cell));
    cell.nodes_set(1);
    cell.control_start().await;
    until("what is said", || async {
        let log = said(&cell);
        let named = log.contains("nodes of an earlier start without an agent now: alpha-2, alpha-3; ");
        (named && log.contains(" node remove alpha-2 alpha-3; ")).then_some(())
    })
    .await;
    // What it names works.
    until("their removal", || async {
        let removed = cell.borough(&["node", "remove", "alpha-2", "alpha-3", "--yes"]).await;
        (removed.code == Some(0)).then_some(())
    })
    .await;
    assert!(cell.control_stop().await.success());
    fs::write(cell.log(), "").unwrap();
    cell.control_start().await;
    cell.nodes_ready().await;
    assert!(!said(&cell).contains("of an earlier start"), "{}", said(&cell));
    cell.finish().await;
}

/// On a terminal the log has warnings only, so the greeting stays in view.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn on_a_terminal_nothing_pushes_the_greeting_away() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    assert!(cell.control_stop().await.success());
    let greeting = format!("In another terminal: borough --dir {} node list", cell.root().display());
    let ran = answered(&cell.dev_command(), &[(greeting.as_str(), "\x03")]).await.ended(0);
    assert!(!ran.stdout.contains("INFO"), "{}", ran.stdout);
    assert_eq!(ran.stdout.matches(greeting.as_str()).count(), 1, "{}", ran.stdout);
    cell.control_start().await;
    cell.finish().await;
}

/// A missing store is not replaced by a new cell while tasks of the old one run, and the error names a way out.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_directory_without_its_store_is_refused_and_can_be_removed() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    cell.run("kept.yaml", "name: kept\ntask: {command: [sleep, 600], grace: 200ms}\n").await;
    let pid = cell.tasks("kept").await[0].pid.unwrap();
    let task = ProcessId::find(pid).expect("the task runs");
    let busy = cell.borough(&["dev", "--remove", "--dir", cell.root().to_str().unwrap()]).await;
    busy.ended(1).warns("another dev cell (process ").warns("end that process first");
    cell.control_kill();
    if !is_fdb() {
        fs::remove_dir_all(cell.root().join("store")).unwrap();
        let printed = refused(&cell).await;
        assert!(printed.contains("is gone") && printed.contains(" dev --remove"), "{printed}");
        assert!(!cell.root().join("store").exists() && task.alive(), "{printed}");
    }
    let root = cell.root();
    fs::write(root.join("mine.txt"), "mine").unwrap();
    let root_text = root.to_str().unwrap();
    let removed = cell.borough(&["dev", "--remove", "--dir", root_text]).await.ended(0);
    assert!(removed.stderr.contains("stays: it has mine.txt"), "{removed:?}");
    assert!(!task.alive(), "the task goes on");
    let left: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine.txt"]);
    let nothing = cell.borough(&["dev", "--remove", "--dir", root_text]).await.ended(3);
    assert!(nothing.stderr.contains("no dev cell in "), "{nothing:?}");
}
