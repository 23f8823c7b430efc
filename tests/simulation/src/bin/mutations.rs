//! Takes fixes out again, one at a time, and looks whether the simulation of a whole system notices. Run by hand:
//! `cargo run -p borough-simulation --bin mutations [NAME…]`.
//!
//! Each file of `tests/simulation/mutations/` is one mutation. It names the defect that comes back, the source file, and the text
//! before and after; the text before stands in that file exactly once. The runner works in a git worktree of its own
//! with a target directory of its own, both below `target/mutations` (`BOROUGH_MUTATIONS_DIR`: somewhere else). It tries
//! at most `BOROUGH_SEEDS` seeds (40) with the cargo profile `BOROUGH_PROFILE` (`simulation`), and prints one row per
//! mutation: noticed after how many seeds, by which rule. It exits with 1 where a mutation was not noticed.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

/// Seeds tried per mutation, unless told otherwise.
const SEEDS: &str = "40";

/// One defect that can be put back.
struct Mutation {
    name: String,
    defect: String,
    file: String,
    /// Kinds of trouble the runs are limited to; absent: all.
    inject: Option<String>,
    before: String,
    after: String,
}

/// What became of a mutation.
enum Found {
    /// The seed that failed, which of the seeds tried it was, and the rule it broke.
    Noticed { tried: u64, rule: String },
    /// Every run passed.
    Unnoticed,
    /// It does not build, so it shows nothing.
    Broken(String),
}

fn main() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mutations = mutations_read(&root.join("tests/simulation/mutations"), &wanted)?;
    let place = std::env::var_os("BOROUGH_MUTATIONS_DIR");
    let place = place.map_or_else(|| root.join("target/mutations"), PathBuf::from);
    let tree = place.join("tree");
    if !tree.exists() {
        fs::create_dir_all(&place)?;
        git(&root, &["worktree", "add", "--detach", &tree.to_string_lossy(), "HEAD"])?;
    }
    let head = Command::new("git").current_dir(&root).args(["rev-parse", "HEAD"]).output()?;
    let head = String::from_utf8(head.stdout)?;
    println!("{:<28} {:>6} {:<18} defect", "mutation", "seeds", "rule");
    let mut holes = 0;
    for mutation in &mutations {
        git(&tree, &["checkout", "-q", "--force", "--detach", head.trim()])?;
        let found = mutation_try(mutation, &tree, &place.join("build"))?;
        let (seeds, rule) = match &found {
            Found::Noticed { tried, rule } => (tried.to_string(), rule.clone()),
            Found::Unnoticed => ("-".to_owned(), "NOT NOTICED".to_owned()),
            Found::Broken(why) => ("-".to_owned(), format!("DOES NOT BUILD: {why}")),
        };
        holes += u32::from(!matches!(found, Found::Noticed { .. }));
        println!("{:<28} {seeds:>6} {rule:<18} {}", mutation.name, mutation.defect);
    }
    git(&root, &["worktree", "remove", "--force", &tree.to_string_lossy()])?;
    println!("{} mutations, {holes} holes", mutations.len());
    Ok(if holes == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("git").current_dir(directory).args(arguments).status().context("git")?;
    if !status.success() {
        bail!("git {} failed in {}", arguments.join(" "), directory.display());
    }
    Ok(())
}

fn mutations_read(directory: &Path, wanted: &[String]) -> anyhow::Result<Vec<Mutation>> {
    let mut mutations = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.extension().is_some_and(|of| of == "mutation")
            && (wanted.is_empty() || wanted.contains(&name))
        {
            let text = fs::read_to_string(&path)?;
            mutations.push(mutation_of(&name, &text).with_context(|| path.display().to_string())?);
        }
    }
    mutations.sort_by(|one, other| one.name.cmp(&other.name));
    if mutations.is_empty() {
        bail!("no mutation of this name in {}", directory.display());
    }
    Ok(mutations)
}

/// Header lines `key: value`, then `=== before`, the text, `=== after`, the text. The last line break of a text is not part
/// of it.
fn mutation_of(name: &str, text: &str) -> anyhow::Result<Mutation> {
    let (head, rest) = text.split_once("=== before\n").context("it lacks `=== before`")?;
    let (before, after) = rest.split_once("=== after\n").context("it lacks `=== after`")?;
    let field = |key: &str| {
        head.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(": ")?.trim().to_owned()))
    };
    Ok(Mutation {
        name: name.to_owned(),
        defect: field("defect").context("it lacks `defect: `")?,
        file: field("file").context("it lacks `file: `")?,
        inject: field("inject"),
        before: before.strip_suffix('\n').unwrap_or(before).to_owned(),
        after: after.strip_suffix('\n').unwrap_or(after).to_owned(),
    })
}

fn mutation_try(mutation: &Mutation, tree: &Path, build: &Path) -> anyhow::Result<Found> {
    let path = tree.join(&mutation.file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let times = text.matches(&mutation.before).count();
    if times != 1 {
        return Ok(Found::Broken(format!("its text is {times} times in {}", mutation.file)));
    }
    fs::write(&path, text.replacen(&mutation.before, &mutation.after, 1))?;
    let variable = |name: &str, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(tree).args([
        "test",
        "-q",
        "--locked",
        "-p",
        "borough-simulation",
        "--test",
        "system",
    ]);
    command.args(["--profile", &variable("BOROUGH_PROFILE", "simulation")]);
    command.args(["whole_systems", "--", "--nocapture"]);
    command.env("CARGO_TARGET_DIR", build).env("BOROUGH_FIRST", "1");
    command.env("BOROUGH_SEED", "0").env("BOROUGH_SEEDS", variable("BOROUGH_SEEDS", SEEDS));
    if let Some(inject) = &mutation.inject {
        command.env("BOROUGH_INJECT", inject);
    }
    let output = command.output().context("cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(Found::Unnoticed);
    }
    let Some(line) = printed.lines().find_map(|line| line.strip_prefix("FIRST ")) else {
        let why = errors.lines().find(|line| line.starts_with("error")).unwrap_or("no outcome");
        return Ok(Found::Broken(why.to_owned()));
    };
    let (tried, rule) = line.split_once(' ').unwrap_or((line, "?"));
    Ok(Found::Noticed { tried: tried.parse().unwrap_or(0), rule: rule.to_owned() })
}
