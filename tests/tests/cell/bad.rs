//! A table of bad inputs as people type them, each with the whole answer. `bad/inputs.txt` has the table. A line `$` is
//! a command, a line `<` a file of it. To write the answers again: `UPDATE_EXPECT=1 cargo test -p borough-tests --test
//! cell bad::`. No answer may have words of a library.

use std::path::{Path, PathBuf};

use borough_tests::{DEADLINE, TestCell, options};
use futures::StreamExt as _;

/// Inputs in the table at least.
const INPUTS_MIN: usize = 300;
/// Bytes of a line of an answer.
const LINE_BYTES_MAX: usize = 1_200;
/// Commands that run at the same time.
const RUNNING_MAX: usize = 4;

/// Words by which a library would speak. A user knows none of them.
const LIBRARY_WORDS: [&str; 38] = [
    "serde",
    "clap",
    "tonic",
    "hyper",
    "h2 ",
    "tokio",
    "jsonnet_",
    "minicbor",
    "saphyr",
    "invalid digit",
    "ParseInt",
    "Utf8Error",
    "Some(",
    "None",
    "Err(",
    "panicked",
    "unwrap",
    "invalid type:",
    "expected struct",
    "missing field",
    "unknown variant",
    "at line ",
    "os error",
    "transport error",
    "status: ",
    "in string",
    "error sending request",
    "unexpected end of file",
    "lookup address information",
    "failed to",
    "search path",
    "end-of-file",
    "manifest",
    "must null",
    "invalid base",
    "indexable",
    "while evaluating",
    "accepted are",
];

/// Characters that no table should have as they are: they act on a terminal, reorder text, or look like others.
const STAND_INS: [(&str, &str); 5] = [
    ("@ESC", "\u{1b}"),
    ("@RLO", "\u{202e}"),
    ("@RLM", "\u{200f}"),
    ("@LINE", "\u{2028}"),
    ("@CYRILLIC", "\u{430}"),
];
/// Bytes of the text `@LONG`: more than any name or label has.
const LONG_BYTES: usize = 100_000;

/// A bad input.
#[derive(Clone, Debug, Default)]
struct BadInput {
    /// As it stands in the table.
    command: String,
    /// Names and contents of files, as they stand in the table.
    files: Vec<(String, String)>,
}

/// A line of the table that is kept, or an input with its answer.
enum Entry {
    Title(String),
    Input(BadInput),
}

fn table_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cell/bad/inputs.txt")
}

fn entries(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            entries.push(Entry::Input(BadInput { command: command.to_owned(), files: Vec::new() }));
        } else if let Some(file) = line.strip_prefix("< ") {
            let (name, content) = file.split_once(": ").expect("a name and a content");
            if let Some(Entry::Input(input)) = entries.last_mut() {
                input.files.push((name.to_owned(), content.to_owned()));
            }
        } else if line.starts_with('#') {
            entries.push(Entry::Title(line.to_owned()));
        }
    }
    entries
}

/// The words of a command line with the quotes taken off.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for each in command.chars() {
        match (each, quote) {
            (each, Some(end)) if each == end => quote = None,
            (each, Some(_)) => word.push(each),
            ('\'' | '"', None) => (quote, begun) = (Some(each), true),
            (' ', None) if begun => {
                words.push(std::mem::take(&mut word));
                begun = false;
            }
            (' ', None) => {}
            (each, None) => {
                word.push(each);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// Runs an input in a directory of its own. Returns its lines of the table.
async fn answered(cell: &TestCell, input: BadInput) -> String {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in &input.files {
        let content = content.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0");
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let (gateway, dev) = (cell.grpc(), cell.root().display().to_string());
    let fill = |word: String| {
        let word = word.replace("@GATEWAY", &gateway).replace("@DEV", &dev);
        STAND_INS
            .iter()
            .fold(word, |word, (name, text)| word.replace(name, text))
            .replace("@LONG", &"x".repeat(LONG_BYTES))
    };
    let words: Vec<String> = words(&input.command).into_iter().skip(1).map(fill).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = cell.command(&words);
    let output = tokio::time::timeout(DEADLINE * 2, command.current_dir(directory.path()).output()).await;
    let output = output.unwrap_or_else(|_| panic!("{} does not end", input.command)).unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    let own = directory.path().display().to_string();
    let shown = shown
        .replace(&format!("{own}/"), "")
        .replace(&own, ".")
        .replace(&gateway, "@GATEWAY")
        .replace(&dev, "@DEV")
        // The scheduler chooses.
        .replace(" on alpha-1: ", " on @NODE: ")
        .replace(" on alpha-2: ", " on @NODE: ");
    let mut lines = vec![format!("$ {}", input.command)];
    lines.extend(input.files.iter().map(|(name, content)| format!("< {name}: {content}")));
    let code = output.status.code().map_or_else(|| "-".to_owned(), |code| code.to_string());
    lines.push(format!("exit {code}"));
    lines.extend(shown.lines().map(|line| format!("  {line}")));
    lines.join("\n")
}

/// What is wrong with an answer.
fn rule_broken(answer: &str) -> Option<String> {
    let shown: Vec<&str> = answer.lines().filter(|line| line.starts_with("  ")).collect();
    let text = shown.join("\n");
    let word = LIBRARY_WORDS.iter().find(|word| text.contains(*word));
    if let Some(word) = word {
        return Some(format!("words of a library, {word:?}:\n{answer}"));
    }
    let refused = answer.lines().any(|line| line.starts_with("exit ") && line != "exit 0");
    let active = answer
        .lines()
        .find(|line| line.starts_with("  ") && line.contains(['\u{1b}', '\u{202e}', '\u{2028}']));
    if let Some(line) = active {
        return Some(format!("a character that acts on the terminal, {line:?}"));
    }
    let longest = shown.iter().map(|line| line.len()).max().unwrap_or_default();
    if longest > LINE_BYTES_MAX {
        return Some(format!(
            "a line of {longest} bytes:\n{}",
            &answer.chars().take(500).collect::<String>()
        ));
    }
    let says = shown.iter().any(|line| line.starts_with("  error: ") || line.starts_with("  borough-shim: "));
    (!refused || !says).then(|| format!("no refusal that says why:\n{answer}"))
}

/// The settings of the cell, and the labels and taints of its node.
async fn kept(cell: &TestCell) -> String {
    let settings = cell.borough(&["cell", "status", "-o", "json"]).await.ended(0).json();
    let node = cell.borough(&["node", "status", "alpha-1", "-o", "json"]).await.ended(0).json();
    let (settings, node) = (&settings["settings"], &node["node"]);
    assert!(settings.is_object() && node["labels"].is_object(), "{settings} {node}");
    format!("{settings} {} {}", node["labels"], node["taints"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bad_input_is_answered_in_the_words_of_the_table() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run(
        "web.yaml",
        "name: web\ncount: 2\ntask: {command: [sleep, 600], resources: {cpu: 10m}, grace: 100ms}\n",
    )
    .await;
    cell.run("done.yaml", "name: done\nkind: batch\ntask: {command: ['true'], resources: {cpu: 10m}}\n")
        .await;
    let set = "name: places\nkind: alloc_set\ntask: {resources: {cpu: 20m, memory: 64MiB}, grace: 100ms}\n";
    cell.run("places.yaml", set).await;
    let inside = "name: inside\nalloc_set: places\ntask: {command: [sleep, 600], resources: {cpu: 10m, memory: 32MiB}, grace: \
                  100ms}\n";
    cell.run("inside.yaml", inside).await;
    let before = kept(&cell).await;
    let table = std::fs::read_to_string(table_path()).unwrap();
    let answers = futures::stream::iter(entries(&table)).map(|entry| async {
        match entry {
            Entry::Title(title) => (false, title),
            Entry::Input(input) => (true, answered(&cell, input).await),
        }
    });
    let answers: Vec<(bool, String)> = answers.buffered(RUNNING_MAX).collect().await;
    let texts: Vec<&str> = answers.iter().map(|(_, text)| text.as_str()).collect();
    let written = format!("{}\n", texts.join("\n\n"));
    let broken: Vec<String> =
        answers.iter().filter(|(is_input, _)| *is_input).filter_map(|(_, text)| rule_broken(text)).collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(table_path(), &written).unwrap();
    } else {
        let known: Vec<&str> = table.split("\n\n").map(str::trim_end).collect();
        let changed: Vec<&&str> = texts.iter().filter(|text| !known.contains(*text)).collect();
        assert!(changed.is_empty(), "{} answers are not those of the table: {changed:#?}", changed.len());
        assert!(written == table, "the table is not laid out as the test writes it");
    }
    assert!(broken.is_empty(), "{}\n{} of them", broken.join("\n"), broken.len());
    let inputs = answers.iter().filter(|(is_input, _)| *is_input).count();
    assert!(inputs >= INPUTS_MIN, "the table has {inputs} inputs");
    // Nothing bad had an effect.
    assert_eq!(kept(&cell).await, before);
    let jobs = cell.borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    assert_eq!(jobs.as_array().unwrap().len(), 3, "{jobs}");
    cell.finish().await;
}
