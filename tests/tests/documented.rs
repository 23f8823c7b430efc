//! Every command that the documentation shows exists. Each line of a block is a command line that the program accepts.
//! Each command in a sentence names verbs and options that the program has.

#![expect(clippy::expect_used, reason = "a test says what it expected")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use borough_cli::args::Arguments;

/// Verbs with verbs below them. A sentence may name one without `borough` before it.
const NOUNS: [&str; 8] = ["job", "task", "node", "cell", "name", "event", "store", "context"];

/// A command in a page.
#[derive(Debug)]
struct Shown {
    place: String,
    text: String,
    /// Whether it stands in a block, where a reader takes it as it is.
    whole: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The pages that users and operators read.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    for folder in ["docs", "docs/mechanisms"] {
        let files = fs::read_dir(root().join(folder)).expect("a folder").flatten().map(|entry| entry.path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    pages.sort();
    pages
}

/// The commands of a page, in its order.
fn commands(page: &str, text: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let (mut fenced, mut begun) = (false, String::new());
    let mut sentences = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced && !line.starts_with("    ") {
            sentences.push_str(line);
            sentences.push('\n');
            continue;
        }
        begun.push_str(line.split(" #").next().unwrap_or_default().trim());
        if begun.ends_with('\\') {
            begun.pop();
            begun.push(' ');
            continue;
        }
        let place = format!("{page}:{}", number + 1);
        for part in begun.split(['|', ';', '(', ')', '&']).map(str::trim) {
            if part.starts_with("borough ") && !part.contains(": ") {
                found.push(Shown {
                    place: place.clone(),
                    text: part.to_owned(),
                    whole: !part.contains("..."),
                });
            }
        }
        begun.clear();
    }
    found.extend(spans(page, &sentences));
    found
}

/// The commands between single backquotes. A span may go over the end of a line.
fn spans(page: &str, sentences: &str) -> Vec<Shown> {
    let words = |span: &str| span.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_verb = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let mut found = Vec::new();
    for span in sentences.split('`').skip(1).step_by(2) {
        let mut words = words(span);
        let named = words.len() >= 2 && NOUNS.contains(&words[0].as_str()) && is_verb(&words[1]);
        if named {
            words.insert(0, "borough".to_owned());
        }
        // One of `a|b|c` stands for all of them. A message such as `cell x is closed: why` is no command.
        for word in &mut words {
            *word = word.split('|').next().filter(|first| !first.is_empty()).unwrap_or(word).to_owned();
        }
        let is_command = words.len() >= 2 && words[0] == "borough" && !span.contains(": ");
        if is_command {
            let text = words.join(" ");
            let text = text.split(" | ").next().unwrap_or_default().to_owned();
            found.push(Shown { place: page.to_owned(), text, whole: false });
        }
    }
    found
}

/// The words of a command line. Optional parts such as `[=5m]` and `...` are left out, and quotes are taken off.
fn words(text: &str) -> Vec<String> {
    let (mut plain, mut depth) = (String::new(), 0_u32);
    for each in text.chars() {
        match each {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(each),
            _ => {}
        }
    }
    let mut words = Vec::new();
    let mut quoted = plain.split('\'').enumerate();
    for (number, part) in quoted.by_ref() {
        match number % 2 {
            1 => words.push(part.to_owned()),
            _ => words.extend(part.split_whitespace().filter(|word| *word != "...").map(str::to_owned)),
        }
    }
    words
}

/// What is wrong with a command, if anything is.
fn wrong(shown: &Shown) -> Option<String> {
    let error = Arguments::read(words(&shown.text)).err()?;
    let kind = format!("{:?}", error.kind());
    let first = error.to_string().lines().next().unwrap_or_default().to_owned();
    let missing = ["UnknownArgument", "InvalidSubcommand"].contains(&kind.as_str());
    // A word that is no value of an option may be a placeholder in a sentence.
    let is_wrong = missing || (shown.whole && !kind.starts_with("Display"));
    is_wrong.then(|| format!("{}: {}: {first}", shown.place, shown.text))
}

#[test]
fn every_documented_command_exists() {
    let mut all = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).expect("a page");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.extend(commands(&name, &text));
    }
    let whole = all.iter().filter(|shown| shown.whole).count();
    assert!(whole >= 25 && all.len() >= 150, "only {whole} whole ones of {}", all.len());
    let wrong: Vec<String> = all.iter().filter_map(wrong).collect();
    assert!(
        wrong.is_empty(),
        "the documentation shows commands that do not exist:\n  {}",
        wrong.join("\n  ")
    );
}

#[test]
fn commands_are_found_and_wrong_ones_are_named() {
    let page = "See `borough why JOB`, `task lost` and `job\nstatus JOB --sate x`; `job file`s, `node.name`.\n\n    \
        borough job run a.yaml && borough job rum b.yaml   # `borough nope`\n    borough cell set --queueing fifo \\\n        \
        --reclame\n\n```\nx | borough node drain NODE --force[=5m] ...\n```\n";
    let found = commands("p.md", page);
    let texts: Vec<&str> = found.iter().map(|shown| shown.text.as_str()).collect();
    let expected = [
        "borough job run a.yaml",
        "borough job rum b.yaml",
        "borough cell set --queueing fifo --reclame",
        "borough node drain NODE --force[=5m] ...",
        "borough why JOB",
        "borough task lost",
        "borough job status JOB --sate x",
        "borough job file",
    ];
    assert_eq!(
        texts.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>(),
        expected
    );
    let bad: Vec<&str> =
        found.iter().filter(|shown| wrong(shown).is_some()).map(|shown| shown.text.as_str()).collect();
    assert_eq!(bad.len(), 5, "{bad:?}");
    assert_eq!(found[1].place, "p.md:4");
}

/// A reader in another language, which has nothing but the page on endpoint keys, reads its examples.
#[test]
fn the_endpoint_keys_are_read_with_nothing_but_their_page() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let page = |name: &str| root().join("docs").join(name);
    let examples = fs::read_to_string(page("endpoint-keys.txt")).expect("the examples");
    let mut reader = Command::new("python3");
    reader.arg(page("endpoint-keys.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut reader = reader.spawn().expect("python3");
    reader.stdin.take().expect("its input").write_all(examples.as_bytes()).expect("the examples are sent");
    let output = reader.wait_with_output().expect("its output");
    assert!(output.status.success());
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let read: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(json).collect();
    let meant: Vec<_> =
        examples.lines().map(|line| json(line.splitn(3, ' ').nth(2).expect("a meaning"))).collect();
    assert_eq!(read, meant);
    assert!(read.len() >= 4, "{read:?}");
}

/// Texts in capitals in the gateway that are no reasons.
const NO_REASONS: [&str; 3] = ["AQAB", "HTTP", "LARGE"];

/// The reasons that the gateway gives.
fn reasons_given() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join("gateway/src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                // Tests stand at the end of a file, or in one of their own.
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let is_reason = |text: &&str| {
                    text.len() > 3 && text.bytes().all(|byte| byte == b'_' || byte.is_ascii_uppercase())
                };
                found.extend(code.split('"').skip(1).step_by(2).filter(is_reason).map(str::to_owned));
            }
        }
    }
    NO_REASONS.iter().for_each(|text| _ = found.remove(*text));
    found
}

/// The reasons in the first column of the tables of the page.
fn reasons_shown(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 4);
    let first = rows.filter_map(|row| row.split('|').nth(1));
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn the_page_of_errors_has_each_reason_and_no_other() {
    let page = fs::read_to_string(root().join("docs/errors.md")).expect("the page of errors");
    let (given, shown) = (reasons_given(), reasons_shown(&page));
    assert!(given.contains("FIELD_REFUSED") && given.contains("QUOTA_EXCEEDED"), "{given:?}");
    assert_eq!(
        given.difference(&shown).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "missing in docs/errors.md"
    );
    assert_eq!(shown.difference(&given).collect::<Vec<_>>(), Vec::<&String>::new(), "no gateway gives these");
}
