//! The examples, and Jsonnet files within and beyond their bounds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn jobs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs")
}

/// Runs `borough` without a user.
fn borough(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_borough"));
    command.env_clear().env("USER", "alice").env("HOME", "/nonexistent");
    command.args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The spec a job file renders to.
fn rendered(file: &Path, more: &[&str]) -> serde_json::Value {
    let file = file.to_str().expect("a path in UTF-8");
    let output = borough(&[&["job", "validate", file, "-o", "json"], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_user_that_no_variable_names_is_that_of_the_system() {
    let file = jobs().join("batch.yaml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_borough"));
    command.env_clear().env("HOME", "/nonexistent").args(["job", "validate", "-o", "json"]).arg(file);
    let spec: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let known = Command::new("id").arg("-un").output().unwrap();
    assert_eq!(spec["user"].as_str(), Some(text(&known.stdout).trim()));
}

/// The error about an invalid Jsonnet file.
fn refused(source: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("job.jsonnet");
    std::fs::write(&file, source).expect("written");
    let output = borough(&["job", "validate", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let path = format!("{}/", directory.path().display());
    text(&output.stderr).replace(&path, "")
}

#[test]
fn every_example_is_valid() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(jobs()).unwrap() {
        let path = entry.unwrap().path();
        rendered(&path, &[]);
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    names.sort();
    let expected = ["after.yaml", "batch.yaml", "crash.yaml", "nowhere.yaml", "prepare.yaml", "web.jsonnet"];
    assert_eq!(names, expected);
}

#[test]
fn the_web_example_has_its_overrides() {
    let spec = rendered(&jobs().join("web.jsonnet"), &[]);
    assert_eq!(spec["user"], "alice");
    assert_eq!(spec["count"], 3);
    assert_eq!(spec["overrides"]["0"]["resources"]["memory_bytes"], 96 << 20);
    assert_eq!(spec["overrides"]["2"]["environment"]["GREETING"], "replica 2");
    let scaled = rendered(&jobs().join("web.jsonnet"), &["--tla-str", "count=5"]);
    assert_eq!(scaled["count"], 5);
}

#[test]
fn variables_and_imports_from_the_files_folder_work() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("lib.libsonnet"), "{ kind: 'batch' }").unwrap();
    let file = directory.path().join("job.jsonnet");
    let source = "(import 'lib.libsonnet') + { name: std.extVar('name'), task: { command: ['x'] } }";
    std::fs::write(&file, source).unwrap();
    let spec = rendered(&file, &["--ext-str", "name=from-outside"]);
    assert_eq!((&spec["name"], &spec["kind"]), (&"from-outside".into(), &"batch".into()));
}

#[test]
fn recursion_without_end_is_a_clear_error() {
    let printed = refused("local f(x) = f(x + 1); f(0)");
    assert!(
        printed.contains("job.jsonnet:1:14: ")
            && printed.contains("recurses without end, or more than 400 levels deep"),
        "{printed}"
    );
}

#[test]
fn a_loop_without_end_is_a_clear_error() {
    // Strict arithmetic over a list that takes far too long.
    let printed = refused("std.foldl(function(a, b) a + b, std.range(1, 1000000000), 0)");
    let bounded = printed.contains("processor time") || printed.contains("of memory");
    assert!(bounded, "{printed}");
}

#[test]
fn memory_without_end_is_a_clear_error() {
    let printed = refused("local d(s, n) = if n == 0 then s else d(s + s, n - 1); d('xxxxxxxxxxxxxxxx', 40)");
    assert!(printed.contains("of memory") || printed.contains("MiB"), "{printed}");
}

#[test]
fn nesting_without_end_is_a_clear_error() {
    let printed = refused(&format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000)));
    assert!(printed.contains("nested too deeply") || printed.contains("levels"), "{printed}");
}

#[test]
fn mistakes_are_reported_with_their_place() {
    let printed = refused("{\n  name: 'web',\n  task: { command: ['x'], resources: { memroy: '1GiB' } },\n}");
    let expected =
        "error: job.jsonnet:3:40: unknown field \"memroy\" in task.resources, did you mean \"memory\"?\n";
    assert_eq!(printed, expected);
    let printed = refused("{ name: 'web', task: error 'no task yet' }");
    assert!(printed.contains("no task yet") && printed.contains("job.jsonnet:1:"), "{printed}");
    let printed = refused("{ name: 'web' ");
    assert!(printed.contains("job.jsonnet"), "{printed}");
}

#[test]
fn imports_from_elsewhere_are_refused() {
    for source in ["importstr '/etc/hostname'", "import '../secret.libsonnet'"] {
        let printed = refused(source);
        assert!(printed.contains("which is outside; accepted: relative paths"), "{printed}");
    }
}

#[test]
fn an_import_of_what_is_no_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("pipe.libsonnet");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::fs::create_dir(directory.path().join("folder")).unwrap();
    let file = directory.path().join("job.jsonnet");
    for (import, kind) in [("pipe.libsonnet", "FIFO"), ("folder", "directory")] {
        std::fs::write(&file, format!("import '{import}'")).unwrap();
        let output = borough(&["job", "validate", file.to_str().unwrap()]);
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(&format!("which is a {kind}; accepted: files")), "{printed}");
    }
}

#[test]
fn a_file_that_is_none_is_named() {
    let output = borough(&["job", "validate", "/nonexistent/job.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nonexistent/job.yaml: no such file"), "{}", text(&output.stderr));
    let output = borough(&["job", "validate", "job.toml"]);
    assert!(text(&output.stderr).contains("accepted: .yaml"), "{}", text(&output.stderr));
}

#[test]
fn without_a_gateway_the_error_names_the_next_step() {
    let output = borough(&["job", "status"]);
    assert_eq!(output.status.code(), Some(5));
    let printed = text(&output.stderr);
    assert!(printed.contains("no dev cell is in /nonexistent/.local/state/borough/dev"), "{printed}");
    assert!(printed.contains("borough dev") && printed.contains("--gateway HOST:PORT"), "{printed}");
    // Port 1 is reserved: nothing listens there.
    let output = borough(&["cell", "list", "--gateway", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(5));
    let printed = text(&output.stderr);
    assert!(printed.contains("no gateway answers at 127.0.0.1:1 (connection refused"), "{printed}");
}

#[test]
fn variables_that_a_file_does_not_take_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |name: &str, source: &str, option: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, source).expect("written");
        let output = borough(&["job", "validate", file.to_str().expect("UTF-8"), option, "a=b"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let yaml = "name: web\ntask: {command: [x]}\n";
    for option in ["--ext-str", "--tla-str"] {
        assert!(refused("job.yaml", yaml, option).contains("job.yaml is no Jsonnet file"));
    }
    let plain = "{name: 'web', task: {command: ['x']}}";
    assert!(
        refused("job.jsonnet", plain, "--tla-str").contains("--tla-str is for a file that is a function")
    );
}

#[test]
fn a_port_that_stands_twice_is_one_problem() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("job.yaml");
    std::fs::write(&file, "name: web\ntask: {command: [x], ports: {http: auto, http: auto}}\n")
        .expect("written");
    let output = borough(&["job", "validate", file.to_str().expect("UTF-8")]);
    let said = text(&output.stderr);
    assert!(said.contains("field \"http\" stands twice") && !said.contains("each name once"), "{said}");
}
