//! The benchmarks end to end with few tasks, if the program of the same build is there.

use std::path::PathBuf;

use clap::Parser;

use super::LifecycleArguments;
use super::daemon::DaemonBenchArguments;
use super::resize::ResizeBenchArguments;
use super::rollout::RolloutBenchArguments;
use crate::result::Results;
use crate::system::SystemOptions;

/// The arguments as from a command line.
#[derive(Debug, Parser)]
struct TestArguments {
    #[command(flatten)]
    lifecycle: LifecycleArguments,
}

fn lifecycle() -> LifecycleArguments {
    TestArguments::parse_from(["test", "--wait-s", "120"]).lifecycle
}

/// Options of a cell of few nodes; `None` where the program was not built.
fn options(directory: &tempfile::TempDir) -> Option<SystemOptions> {
    let borough = std::env::current_exe().ok()?.parent()?.parent()?.join("borough");
    if !borough.exists() {
        let reason = format!("{} is not built: cargo build -p borough-cli", borough.display());
        borough_kv::exercise::not_exercised("the benchmarks of the lifecycle", &reason);
        return None;
    }
    let directory: PathBuf = directory.path().to_owned();
    SystemOptions::new(Some(borough), directory, 3, 1).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_benchmark_of_the_lifecycle_runs_and_finds_its_bounds_kept() {
    let directory = tempfile::tempdir().unwrap();
    let Some(options) = options(&directory) else { return };
    let mut results = Results::without_store();
    let rollout = RolloutBenchArguments {
        tasks: 12,
        hollow: true,
        unavailable_percent: 25,
        healthy_after_ms: 200,
        lifecycle: lifecycle(),
    };
    super::rollout::run(&options, &rollout, &mut results).await.unwrap();
    let resize = ResizeBenchArguments { tasks: 12, lifecycle: lifecycle() };
    super::resize::run(&options, &resize, &mut results).await.unwrap();
    let daemon = DaemonBenchArguments { joining: 2, lifecycle: lifecycle() };
    super::daemon::run(&options, &daemon, &mut results).await.unwrap();
}
