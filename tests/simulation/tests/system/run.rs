//! One run: a phase of faults, then a calm phase, in which everything must come to rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use borough_testkit::rng_of;
use serde::{Deserialize, Serialize};

use crate::check::Audit;
use crate::inject::Disturber;
use crate::operator::{Desk, Operator, uncordon_all, watch};
use crate::plan::Plan;
use crate::trace::Trace;
use crate::world::{TICK_MS, World};

/// How long a run injects faults, in milliseconds.
const TROUBLE_MS: u64 = 25_000;
/// Milliseconds after which a calm cell is at rest. The longest work is eight tasks of a job, one after the other on
/// one fixed port. Each waits 10 s for the cool-down of the port.
const PATIENCE_MS: u64 = 150_000;
/// Interval of checks of everything.
const LOOK_MS: u64 = 250;

/// One run in so many has a large job: its messages take longer than everything else.
const LARGE_EVERY: u64 = 8;
/// Interval of checks of all rows.
const ROWS_MS: u64 = 1_000;

/// The result of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub seed: u64,
    /// Events that it met, by name.
    pub met: BTreeMap<String, u64>,
    /// Broken rules: the rule, and what broke it.
    pub wrong: Vec<(String, String)>,
    pub digest: u64,
    pub lines: u64,
    pub simulated_ms: u64,
}

pub(crate) fn run(seed: u64) -> Outcome {
    let trace = Trace::new(std::env::var_os("BOROUGH_TRACE").is_some());
    let plan = Plan::usual();
    let mut world = World::new(seed, &trace);
    let mut disturber = Disturber::new(&plan);
    disturber.begin(&mut world);
    let desk = Desk { plan, ledger: Arc::default(), wrong: Arc::default(), calm: Arc::default() };
    for number in 0..2 {
        let (desk, rng) = (desk.clone(), rng_of(seed, 50 + number));
        world.operator_begin(&format!("operator-{number}").into(), move |client, _| {
            let with_large =
                number == 1 && seed.is_multiple_of(LARGE_EVERY) && desk.plan.is_on("large_specs");
            Operator::new(client, desk, rng).run(with_large)
        });
    }
    let watcher = desk.clone();
    world.operator_begin(&"balancer".into(), move |client, _| watch(client, "ada", watcher));
    let mut audit = Audit::new();
    while world.now_ms < TROUBLE_MS && audit.broken.is_empty() {
        world.tick();
        disturber.step(&mut world);
        look(&mut world, &mut audit);
    }
    desk.calm.store(true, Ordering::Relaxed);
    disturber.calm(&mut world);
    rest(&mut world, &mut audit);
    audit.acknowledged(&world, &desk.ledger.lock());
    for wrong in desk.wrong.lock().drain(..) {
        let (rule, what) = wrong.split_once(": ").unwrap_or(("", &wrong));
        audit.note(world.now_ms, rule, what.to_owned());
    }
    outcome(&world, &audit, &disturber, &desk)
}

fn look(world: &mut World, audit: &mut Audit) {
    // A process that begins together with another attempt is judged by the nodes of this moment, not of the next check.
    if world.now_ms.is_multiple_of(LOOK_MS) || world.processes.concurrent_any() {
        audit.step(world);
    }
    if world.now_ms.is_multiple_of(ROWS_MS) {
        audit.rows(world);
    }
}

/// Continues until the cell is at rest.
fn rest(world: &mut World, audit: &mut Audit) {
    let (began_ms, done) = (world.now_ms, Arc::new(AtomicBool::new(false)));
    let uncordoned = done.clone();
    world.operator_begin(&"operator-0".into(), move |client, _| uncordon_all(client, uncordoned));
    let mut open = vec!["nobody has looked".to_owned()];
    while audit.broken.is_empty() && !open.is_empty() {
        if world.now_ms - began_ms > PATIENCE_MS {
            let first = open.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
            return audit.note(world.now_ms, "progress", format!("{} things are open: {first}", open.len()));
        }
        world.tick();
        look(world, audit);
        if world.now_ms.is_multiple_of(LOOK_MS * 4) && done.load(Ordering::Relaxed) {
            open = audit.open(world);
        }
    }
    world.trace.note(format_args!("at rest after {} ms", world.now_ms / TICK_MS * TICK_MS - began_ms));
}

fn outcome(world: &World, audit: &Audit, disturber: &Disturber, desk: &Desk) -> Outcome {
    let mut met: BTreeMap<String, u64> = audit.seen().clone();
    met.extend(disturber.met.iter().map(|(what, times)| ((*what).to_owned(), *times)));
    met.extend(world.network.met_all().into_iter().map(|(what, times)| (what.to_owned(), times)));
    met.extend(desk.ledger.lock().calls.clone());
    let ((longest, _), flight) = world.network.most();
    met.insert("message_bytes_max".to_owned(), u64::try_from(longest).unwrap());
    met.insert("flight_bytes_max".to_owned(), u64::try_from(flight).unwrap());
    let (digest, lines) = world.trace.digest();
    let wrong = audit
        .broken
        .values()
        .map(|broken| (broken.rule.clone(), format!("at {} ms: {}", broken.at_ms, broken.what)));
    Outcome { seed: world.seed, met, wrong: wrong.collect(), digest, lines, simulated_ms: world.now_ms }
}
