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
    world.loads_end().await;
    let mut agent = world.agent().await;
    for step in 1..=5 {
        agent.report(load(step * STEP)).await;
        world.loaded(step * STEP).await;
    }
    assert!(world.node().await.load.unwrap().changed_ms > 0);
    assert_eq!(loads(&world.deltas().await), [0; 0]);
    // The mirror of the gateway does not know it, so it must not take this for the present load.
    agent.report(load(STEP)).await;
    world.loaded(STEP).await;
    let mut follower = spec(1, 1, 1);
    follower.profile = Some("load-aware".to_owned());
    world.submit(7, &follower).await;
    let deltas = world.deltas().await;
    let place = |wanted: fn(&Delta) -> bool| deltas.iter().position(wanted).unwrap();
    assert_eq!(loads(&deltas), [STEP]);
    assert!(
        place(|delta| matches!(delta, Delta::NodeLoad { .. }))
            < place(|delta| matches!(delta, Delta::Job { .. }))
    );
    agent.report(load(9 * STEP)).await;
    world.loaded(9 * STEP).await;
    assert_eq!(loads(&world.deltas().await), [STEP, 9 * STEP]);
    // Another follower brings none again.
    follower.name = borough_testkit::name("other");
    world.submit(8, &follower).await;
    assert_eq!(loads(&world.deltas().await).len(), 2);
}
