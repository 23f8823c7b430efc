//! A stack machine over the contract. It runs random programs of several interleaved transactions, and compares every
//! answer with a model, or one engine's answers with another's.
//!
//! A program that fails is shrunk to the few instructions that make it fail. `BOROUGH_PROGRAMS` sets the number of
//! seeds in a run; a failure names its own.

mod edges;
mod generate;
mod machine;
mod model;
mod named;
mod shrink;
mod step;
mod view;

use std::sync::Arc;

use super::{Check, CheckFailure, Context, Wrong};
use borough_kv::contract::{Engine, KvResult, StreamingMode};
pub use edges::run_edges;
use machine::{Late, PATIENCE, ProgramMachine, ProgramOutcome};
use model::ProgramModel;
use shrink::Shrinker;
use step::{Frame, ProgramAction, ProgramStep};

/// Seeds in a run by default.
const PROGRAMS: u64 = 150;
/// How many simpler forms of a failing program are tried.
const SHRINKS_MAX: usize = 4000;

/// The number of seeds to try.
fn programs() -> u64 {
    std::env::var("BOROUGH_PROGRAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(PROGRAMS)
}

/// The results of a program's run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Trace {
    outcomes: Vec<ProgramOutcome>,
    watches: Vec<Late>,
    promises: Vec<Late>,
    /// Whether the program ended early, since the contract leaves the rest open.
    open_ended: bool,
}

/// Runs a program on `engine` and the model. Returns the answer to each step, or the first wrong one.
async fn program_run(engine: Arc<dyn Engine>, frame: &Frame, steps: &[ProgramStep]) -> Result<Trace, Wrong> {
    let mut machine = ProgramMachine::new(engine, frame.clone()).await?;
    let mut model = ProgramModel::new(frame.clone());
    let mut trace = Trace::default();
    let wrong = |what: String| Wrong::Differs(what);
    for (index, step) in steps.iter().enumerate() {
        let answer = tokio::time::timeout(PATIENCE, machine.step(step)).await;
        let outcome = answer.map_err(|_| wrong(format!("step {index}, {step:?}: no answer")))?;
        let idle = model.is_idle(step);
        model.step(step, &outcome).map_err(|why| wrong(format!("step {index}, {step:?}: {why}")))?;
        // Engines differ in when a watch fails, and in which ranges a refusal names around a stamped key. Only the
        // model checks these.
        trace.outcomes.push(match outcome {
            ProgramOutcome::Refused(_) if model.names_open => ProgramOutcome::Refused(Vec::new()),
            ProgramOutcome::Error(_) if matches!(step.action, ProgramAction::Watch(_)) => {
                ProgramOutcome::Done
            }
            _ if idle => ProgramOutcome::Done,
            outcome => outcome,
        });
        if model.open_ended {
            return Ok(Trace { open_ended: true, ..trace });
        }
    }
    let (rows, expected) = (machine.rows().await?, model.rows());
    if rows != expected {
        return Err(wrong(format!("the program left {rows:?}, the model has {expected:?}")));
    }
    let expected = model.watches();
    let ends =
        machine.watches_end(|index| !matches!(expected.get(index), Some(Some(Late::Waiting) | None))).await;
    for (index, (end, expected)) in ends.iter().zip(&expected).enumerate() {
        if expected.as_ref().is_some_and(|expected| expected != end) {
            return Err(wrong(format!("watch {index} is {end:?}, the model has {expected:?}")));
        }
    }
    trace.watches =
        ends.into_iter().zip(&expected).filter(|(_, known)| known.is_some()).map(|(end, _)| end).collect();
    trace.promises = machine.promises_end().await;
    if trace.promises != model.promises() {
        return Err(wrong(format!("stamps {:?}, the model has {:?}", trace.promises, model.promises())));
    }
    Ok(trace)
}

/// Tries the program of `seed` with `attempt`. If it fails, returns the simplest program that fails.
async fn program_try<F>(seed: u64, attempt: impl Fn(Vec<ProgramStep>) -> F) -> Check
where
    F: Future<Output = Check>,
{
    let mut shrinker = Shrinker::start(seed)?;
    let first = shrinker.first()?;
    let Err(mut failure) = attempt(first.clone()).await else { return Ok(()) };
    let mut simplest = first;
    let mut next = shrinker.simplify();
    for _ in 0..SHRINKS_MAX {
        let Some(steps) = next else { break };
        next = match attempt(steps.clone()).await {
            Err(simpler) => {
                (failure, simplest) = (simpler, steps);
                shrinker.simplify()
            }
            // Too simple: try a program in between.
            Ok(()) => shrinker.complicate(),
        };
    }
    let listing: Vec<String> =
        simplest.iter().enumerate().map(|(at, step)| format!("  {at}. {step:?}")).collect();
    Err(Wrong::Differs(format!("program {seed}: {failure}\n{}", listing.join("\n"))))
}

/// Named and random programs under the context's prefix, compared with the model.
pub(super) async fn check(context: Context) -> Check {
    for (name, steps) in named::programs() {
        let engine = Arc::clone(&context.engine);
        let run = program_run(engine, &Frame::under(&context.prefix), &steps).await;
        run.map_err(|wrong| Wrong::Differs(format!("{name}: {wrong}")))?;
    }
    let first = context.rng.next_u64() >> 16;
    for seed in first..first.saturating_add(programs()) {
        let attempt = |steps: Vec<ProgramStep>| {
            let (engine, frame) = (Arc::clone(&context.engine), Frame::under(&context.prefix));
            async move { program_run(engine, &frame, &steps).await.map(|_| ()) }
        };
        program_try(seed, attempt).await?;
    }
    Ok(())
}

/// Runs the programs of `seeds`, each in a store of its own from `make`, and compares them with the model.
pub async fn run_whole(
    make: impl Fn() -> KvResult<Arc<dyn Engine>>,
    seeds: std::ops::Range<u64>,
) -> Result<(), CheckFailure> {
    for seed in seeds {
        let attempt = |steps: Vec<ProgramStep>| {
            let engine = make();
            async move { program_run(engine?, &Frame::whole(), &steps).await.map(|_| ()) }
        };
        program_try(seed, attempt).await.map_err(|wrong| failure(seed, &wrong))?;
    }
    Ok(())
}

/// Runs the programs of `seeds` on two engines, whose answers must all be the same. **Clears both stores**: for engines
/// of their own and disposable clusters.
pub async fn run_compared(
    one: impl Fn() -> KvResult<Arc<dyn Engine>>,
    other: impl Fn() -> KvResult<Arc<dyn Engine>>,
    seeds: std::ops::Range<u64>,
) -> Result<(), CheckFailure> {
    for seed in seeds {
        let attempt = |steps: Vec<ProgramStep>| {
            let engines = one().and_then(|one| Ok((one, other()?)));
            async move {
                let (one, other) = engines?;
                let (names, frame) = ((one.info().name, other.info().name), Frame::whole());
                let one = program_run(one, &frame, &steps).await;
                let one = one.map_err(|wrong| Wrong::Differs(format!("{}: {wrong}", names.0)))?;
                let other = program_run(other, &frame, &steps).await;
                let other = other.map_err(|wrong| Wrong::Differs(format!("{}: {wrong}", names.1)))?;
                // Each engine decides where a batch that counts bytes ends, and the answers that depend on it.
                let counts = |step: &ProgramStep| matches!(&step.action, ProgramAction::GetRange(range) if range.mode != StreamingMode::Exact);
                if one == other || one.open_ended || other.open_ended || steps.iter().any(counts) {
                    return Ok(());
                }
                let mut pairs = one.outcomes.iter().zip(&other.outcomes).enumerate();
                let first = pairs.find(|(_, (one, other))| one != other);
                Err(Wrong::Differs(format!("{names:?} differ: {first:?} or late {one:?} {other:?}")))
            }
        };
        program_try(seed, attempt).await.map_err(|wrong| failure(seed, &wrong))?;
    }
    Ok(())
}

fn failure(seed: u64, wrong: &Wrong) -> CheckFailure {
    CheckFailure { check: "programs", seed, detail: wrong.to_string() }
}
