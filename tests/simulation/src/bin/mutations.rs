//! Reverts fixes, one at a time, and checks whether a test notices. Run by hand: `cargo run -p borough-simulation --bin
//! mutations [NAME|FINDING…]`.
//!
//! Each file of `tests/simulation/mutations/` is one mutation. It names the finding, the defect that comes back, the
//! source file, the text before and after, and the test that must fail. Without a test, the simulation of a whole
//! system must fail. The runner prints a row per mutation with what noticed it, and then one line of JSON for each. It
//! exits with 1 if a mutation was not noticed, does not build, or names a test of which nothing ran.
//!
//! | variable | what it sets | otherwise |
//! |---|---|---|
//! | `BOROUGH_MUTATIONS_DIR` | where the git worktree and the target directory are | `target/mutations` |
//! | `BOROUGH_MUTATIONS_TREE`, `BOROUGH_MUTATIONS_BUILD` | one of the two; a worktree that is there stays | below that |
//! | `BOROUGH_MUTATIONS_TOGETHER` | all mutations at once, built once; for those that do not touch each other's tests | one at a time |
//! | `BOROUGH_PROFILE` | the profile of cargo | `simulation` |
//! | `BOROUGH_SEEDS` | seeds that the simulation tries | 40 |
//! | `PROPTEST_CASES` | cases of a property | 4096 |
//! | `BOROUGH_MUTATIONS_SECONDS` | how long a test may take under a mutation | 900 |

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::{Context as _, bail};
use borough_simulation::mutation::{Mutation, mutations_read};
use serde_json::json;

/// Seeds tried per mutation by default.
const SEEDS: &str = "40";
/// The test for mutations that name none.
const SIMULATION: &str = "-p borough-simulation --test system whole_systems";
/// Cases of a property by default. A test that runs alone has time for more of them.
const CASES: &str = "4096";
/// Seconds after which a test under a mutation is ended by default. A run that hangs counts as noticed.
const SECONDS_MAX: &str = "900";
/// The exit code of `timeout` after it has ended the command.
const TIMED_OUT: i32 = 124;

/// The place where mutations are tried.
struct Workshop {
    root: PathBuf,
    tree: PathBuf,
    build: PathBuf,
    /// The commit on which mutations are tried.
    head: String,
    /// Whether the worktree existed before.
    kept: bool,
}

/// The result of a mutation.
enum Found {
    /// By which tests or rule; for a simulation, also after how many seeds.
    Noticed { by: String, seeds: Option<u64> },
    /// Every test passed.
    Unnoticed,
    /// It shows nothing, with the reason.
    Broken(String),
}

fn main() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mutations = mutations_read(&root.join("tests/simulation/mutations"), &wanted)?;
    let workshop = Workshop::open(root)?;
    println!("{:<12} {:<28} {:>6} {:<50} defect", "finding", "mutation", "seeds", "noticed by");
    let (mut holes, mut lines) = (0, Vec::new());
    let together = std::env::var_os("BOROUGH_MUTATIONS_TOGETHER").is_some();
    if together {
        workshop.restore()?;
        mutations.iter().try_for_each(|mutation| workshop.apply(mutation))?;
    }
    for mutation in &mutations {
        let found = if together { workshop.scorer(mutation)? } else { workshop.mutation_try(mutation)? };
        let (seeds, by) = match &found {
            Found::Noticed { by, seeds } => (seeds.as_ref().map(u64::to_string), by.clone()),
            Found::Unnoticed => (None, "NOT NOTICED".to_owned()),
            Found::Broken(why) => (None, format!("BROKEN: {why}")),
        };
        let noticed = matches!(found, Found::Noticed { .. });
        holes += u32::from(!noticed);
        let Mutation { name, finding, defect, .. } = mutation;
        println!("{finding:<12} {name:<28} {:>6} {by:<50} {defect}", seeds.as_deref().unwrap_or("-"));
        lines.push(json!({ "name": name, "finding": finding, "noticed": noticed, "by": by, "seeds": seeds }));
    }
    workshop.close()?;
    println!("{} mutations, {holes} holes", mutations.len());
    for line in lines {
        println!("{line}");
    }
    Ok(if holes == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Workshop {
    fn open(root: PathBuf) -> anyhow::Result<Self> {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let place = path("BOROUGH_MUTATIONS_DIR").unwrap_or_else(|| root.join("target/mutations"));
        let tree = path("BOROUGH_MUTATIONS_TREE").unwrap_or_else(|| place.join("tree"));
        let build = path("BOROUGH_MUTATIONS_BUILD").unwrap_or_else(|| place.join("build"));
        let kept = tree.exists();
        if !kept {
            fs::create_dir_all(&place)?;
            git(&root, &["worktree", "add", "--detach", &tree.to_string_lossy(), "HEAD"])?;
        }
        let head = Command::new("git").current_dir(&root).args(["rev-parse", "HEAD"]).output()?;
        let head = String::from_utf8(head.stdout)?.trim().to_owned();
        Ok(Self { root, tree, build, head, kept })
    }

    /// Restores the worktree, or removes it.
    fn close(&self) -> anyhow::Result<()> {
        if self.kept {
            return self.restore();
        }
        git(&self.root, &["worktree", "remove", "--force", &self.tree.to_string_lossy()])
    }

    fn restore(&self) -> anyhow::Result<()> {
        git(&self.tree, &["checkout", "-q", "--force", "--detach", &self.head])
    }

    /// Applies a mutation to the worktree.
    fn apply(&self, mutation: &Mutation) -> anyhow::Result<()> {
        let path = self.tree.join(&mutation.file);
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(fs::write(&path, mutation.apply(&source)?)?)
    }

    fn mutation_try(&self, mutation: &Mutation) -> anyhow::Result<Found> {
        self.restore()?;
        match self.apply(mutation) {
            Ok(()) => self.scorer(mutation),
            Err(why) => Ok(Found::Broken(why.to_string())),
        }
    }

    /// Runs the test of the applied mutation and reports whether it notices.
    fn scorer(&self, mutation: &Mutation) -> anyhow::Result<Found> {
        let built = self.cargo_test(mutation, &["--no-run"])?;
        if !built.status.success() {
            let errors = String::from_utf8_lossy(&built.stderr);
            let why = errors.lines().find(|line| line.starts_with("error")).unwrap_or("it does not build");
            return Ok(Found::Broken(why.to_owned()));
        }
        let ran = self.cargo_test(mutation, &["--no-fail-fast", "--", "--nocapture"])?;
        Ok(found_of(mutation, &ran))
    }

    fn cargo_test(&self, mutation: &Mutation, more: &[&str]) -> anyhow::Result<Output> {
        let mut command = match more.contains(&"--no-run") {
            true => Command::new("cargo"),
            false => {
                let mut command = Command::new("timeout");
                command.args(["--kill-after=10", &variable("BOROUGH_MUTATIONS_SECONDS", SECONDS_MAX)]);
                command.arg("cargo");
                command
            }
        };
        command.current_dir(&self.tree).args(["test", "--locked"]);
        command.args(["--profile", &variable("BOROUGH_PROFILE", "simulation")]);
        command.args(mutation.test.as_deref().unwrap_or(SIMULATION).split_whitespace()).args(more);
        command.env("CARGO_TARGET_DIR", &self.build);
        // Whether a property fails is the question, and not the smallest history in which it does.
        command
            .env("PROPTEST_CASES", variable("PROPTEST_CASES", CASES))
            .env("PROPTEST_MAX_SHRINK_ITERS", "0");
        if mutation.test.is_none() {
            command.env("BOROUGH_FIRST", "1").env("BOROUGH_SEED", "0");
            command.env("BOROUGH_SEEDS", variable("BOROUGH_SEEDS", SEEDS));
        }
        if let Some(inject) = &mutation.inject {
            command.env("BOROUGH_INJECT", inject);
        }
        command.output().context("cargo")
    }
}

fn variable(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("git").current_dir(directory).args(arguments).status().context("git")?;
    if !status.success() {
        bail!("git {} failed in {}", arguments.join(" "), directory.display());
    }
    Ok(())
}

/// The result of a run of the tests.
fn found_of(mutation: &Mutation, ran: &Output) -> Found {
    let (printed, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let begun = printed.lines().filter_map(|line| line.strip_prefix("running ")?.split(' ').next());
    let tests: u64 = begun.filter_map(|count| count.parse::<u64>().ok()).sum();
    if tests == 0 {
        let why = errors.lines().find(|line| line.starts_with("error")).unwrap_or("no test ran");
        return Found::Broken(why.to_owned());
    }
    if ran.status.success() {
        return Found::Unnoticed;
    }
    if ran.status.code() == Some(TIMED_OUT) {
        let seconds = variable("BOROUGH_MUTATIONS_SECONDS", SECONDS_MAX);
        return Found::Noticed { by: format!("no end within {seconds} s"), seeds: None };
    }
    if mutation.test.is_none() {
        // The line may begin after the name of the test.
        let first = printed.lines().find_map(|line| line.split_once("FIRST ")?.1.split_once(' '));
        return match first {
            Some((tried, rule)) => {
                Found::Noticed { by: format!("simulation: {rule}"), seeds: tried.parse().ok() }
            }
            None => Found::Broken("the simulation failed without an outcome".to_owned()),
        };
    }
    let failed = failed_of(&printed);
    let by = if failed.is_empty() { format!("the test program ended: {}", ran.status) } else { failed };
    Found::Noticed { by, seeds: None }
}

/// The names of the tests that failed, as the test program lists them at its end.
fn failed_of(printed: &str) -> String {
    let lists = printed.split("\nfailures:\n").skip(1);
    let names = lists.flat_map(|list| list.lines().map_while(|line| line.strip_prefix("    ")));
    names.collect::<Vec<_>>().join(", ")
}
