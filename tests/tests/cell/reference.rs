//! Secrets of tasks: references in the spec, which the node resolves. No output and no store has what is in them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use borough_tests::{TestCell, is_up, options, until};

const VALUE: &str = "correct-horse-battery-staple";
const OTHER: &str = "of-somebody-else-entirely";

/// A job whose task has a secret at `source` in a variable, and another one in a file.
fn job(source: &str) -> String {
    format!(
        "name: db\ntask:\n  command: [sh, -c, 'exec sleep 600']\n  grace: 100ms\n  \
         resources: {{cpu: 10m, memory: 4MiB}}\n  secrets:\n  - {{name: DB_PASSWORD, source: {source}}}\n  \
         - {{name: DB_KEY, source: db/key, as: file}}\nrestart: {{backoff: 100ms, backoff_max: 200ms}}\n"
    )
}

/// Puts a secret of a user where the cell's agents look.
fn put(cell: &TestCell, user: &str, place: &str, text: &str) {
    let path = cell.root().join("secrets").join(user).join(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Files below the directory of the cell that have a text, except those with secrets and those of the attempts that
/// have them.
fn holders(root: &Path, text: &str) -> Vec<String> {
    let own = |name: &str| {
        name.starts_with("secrets/")
            || (name.contains("/attempts/")
                && (name.ends_with("/spec.json") || name.split('/').any(|part| part == "work")))
    };
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        // What is removed meanwhile is not there. No link is followed.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.path().strip_prefix(root).unwrap().display().to_string();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && !own(&name) && has(&fs::read(entry.path()).unwrap_or_default()) {
                found.push(name);
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_gets_the_secrets_of_its_user_and_nobody_sees_them() {
    let cell = TestCell::start(options!().nodes(1)).await;
    put(&cell, "tester", "db/password", &format!("{VALUE}\n"));
    put(&cell, "tester", "db/key", &format!("{VALUE}-key"));
    cell.run("db.yaml", &job("db/password")).await;
    cell.tasks_until("db", "up", |tasks| is_up(tasks, 1)).await;
    let script = "echo \"<$DB_PASSWORD>\"; cat \"$DB_KEY\"; echo; stat -c '%a %u' \"$DB_KEY\"; id -u";
    let told = cell.borough(&["task", "exec", "db/0", "--", "sh", "-c", script]).await.ended(0);
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert_eq!(lines[..2], [format!("<{VALUE}>"), format!("{VALUE}-key")]);
    assert_eq!(lines[2], format!("600 {}", lines[3]));
    for words in [
        &["job", "status", "db", "-o", "json"][..],
        &["job", "show", "db", "-o", "json"],
        &["task", "status", "db/0", "-o", "json"],
        &["task", "logs", "db/0"],
        &["event", "list", "-o", "json"],
        &["audit", "list", "-o", "json"],
        &["job", "plan", &cell.file("db.yaml", &job("db/key"))],
        &["node", "show", "alpha-1", "-o", "json"],
    ] {
        let shown = cell.borough(words).await;
        assert!(!shown.stdout.contains(VALUE) && !shown.stderr.contains(VALUE), "{words:?}");
    }
    assert_eq!(holders(&cell.root(), VALUE), [""; 0], "no store and no log has it");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_missing_secret_fails_the_start_until_it_is_there() {
    let cell = TestCell::start(options!().nodes(1)).await;
    put(&cell, "tester", "db/key", VALUE);
    let file = cell.file("db.yaml", &job("db/password"));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let failed = cell.tasks_until("db", "failed", |tasks| tasks[0].failures > 0).await.remove(0);
    let message = failed.exit.unwrap().message;
    for part in ["DB_PASSWORD", "db/password", "alpha-1"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains(VALUE), "{message}");
    put(&cell, "tester", "db/password", VALUE);
    cell.tasks_until("db", "up", |tasks| is_up(tasks, 1)).await;
    // A reference is changed as a variable is: the task starts again with the other one.
    put(&cell, "tester", "db/next", "another-value");
    cell.run("db.yaml", &job("db/next")).await;
    let words = ["task", "exec", "db/0", "--", "sh", "-c", "echo \"$DB_PASSWORD\""];
    until("the other secret", || async {
        cell.borough(&words).await.stdout.contains("another-value").then_some(())
    })
    .await;
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_job_names_the_secret_of_another_user() {
    let cell = TestCell::start(options!().nodes(1)).await;
    put(&cell, "tester", "db/key", VALUE);
    put(&cell, "other", "db/password", OTHER);
    for source in ["../other/db/password", "/etc/passwd", "db/../../other/db/password"] {
        let file = cell.file("db.yaml", &job(source));
        let refused = cell.borough(&["job", "run", "--detach", &file]).await.ended(2);
        refused.warns("task.secrets[0].source").warns("below the secrets of the job's user");
    }
    // Not by a link that leads out of the directory, either.
    let links = cell.root().join("secrets/tester/db");
    std::os::unix::fs::symlink("../../other/db/password", links.join("password")).unwrap();
    let file = cell.file("db.yaml", &job("db/password"));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let failed = cell.tasks_until("db", "failed", |tasks| tasks[0].failures > 0).await.remove(0);
    let message = failed.exit.unwrap().message;
    assert!(message.contains("is not below the directory of its user"), "{message}");
    assert_eq!(holders(&cell.root(), OTHER), [""; 0]);
    let mode = fs::metadata(cell.root().join("secrets")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
    cell.finish().await;
}
