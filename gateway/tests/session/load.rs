//! The measured load of nodes.

use borough_model::Delta;
use borough_proto::v1;

use crate::world::{World, spec};

fn load(cpu_millis: u64) -> v1::Report {
    let load = Some(v1::NodeLoad { cpu_millis, ..v1::NodeLoad::default() });
    v1::Report { load: Some(v1::LoadReport { load }), ..v1::Report::default() }
}

fn loads(deltas: &[Delta]) -> Vec<u64> {
    let loads = deltas.iter().filter_map(|delta| match delta {
        Delta::NodeLoad { load, .. } => load.measured.map(|measured| measured.cpu_millis),
        _ => None,
    });
    loads.collect()
}

/// Nobody follows loads. Operators see each, with its age, and the journal has none. A job comes with a profile that
/// reads them: the journal has the present load before the job, and each from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_nobody_follows_is_shown_and_in_no_entry() {
    const STEP: u64 = 1 << 25;
    let world = World::start().await;
    let mut agent = world.agent().await;
    // A cell in which nobody has decided has every load in its journal, so that the mirror knows this one.
    agent.report(load(STEP)).await;
    world.loaded(STEP).await;
    world.loads_end().await;
    for step in 2..=5 {
        agent.report(load(step * STEP)).await;
        world.loaded(step * STEP).await;
    }
    assert!(world.node().await.load.unwrap().changed_ms > 0);
    // The load that the mirror knows is not the one that the row has.
    agent.report(load(STEP)).await;
    world.loaded(STEP).await;
    agent.report(load(6 * STEP)).await;
    world.loaded(6 * STEP).await;
    assert_eq!(loads(&world.deltas().await), [STEP]);
    let mut follower = spec(1, 1, 1);
    follower.profile = Some("load-aware".to_owned());
    world.submit(7, &follower).await;
    let deltas = world.deltas().await;
    let last = |wanted: fn(&Delta) -> bool| deltas.iter().rposition(wanted).unwrap();
    assert_eq!(loads(&deltas), [STEP, 6 * STEP]);
    let (of_load, of_job) = (
        last(|delta| matches!(delta, Delta::NodeLoad { .. })),
        last(|delta| matches!(delta, Delta::Job { .. })),
    );
    assert!(of_load < of_job, "{of_load} {of_job}");
    agent.report(load(9 * STEP)).await;
    world.loaded(9 * STEP).await;
    assert_eq!(loads(&world.deltas().await), [STEP, 6 * STEP, 9 * STEP]);
    // Another follower brings none again.
    follower.name = borough_testkit::name("other");
    world.submit(8, &follower).await;
    assert_eq!(loads(&world.deltas().await).len(), 3);
}
