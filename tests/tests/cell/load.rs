//! The measured load of nodes: simulated machines, on which real processes run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use borough_tests::{TestCell, options, until};

/// Keeps writing the load of a machine of four processors that is busy for so many hundredths of the time.
struct Machine {
    root: tempfile::TempDir,
    writer: tokio::task::JoinHandle<()>,
}

impl Machine {
    fn new(busy_percent: u64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_owned();
        load_write(&path, busy_percent, 1);
        let writer = tokio::spawn(async move {
            for round in 2.. {
                load_write(&path, busy_percent, round);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { root, writer }
    }

    fn argument(&self, node: &str) -> String {
        format!("{node}:--proc={}", self.root.path().display())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

fn load_write(root: &Path, busy_percent: u64, round: u64) {
    let (busy, idle) = (busy_percent * round, (100 - busy_percent) * round);
    let mut stat = format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n");
    (0..4).for_each(|cpu| stat.push_str(&format!("cpu{cpu} 0 0 0 0\n")));
    let memory = "MemTotal:  999999999 kB\nMemFree: 1 kB\nMemAvailable: 999999999 kB\n".to_owned();
    for (name, text) in [("stat", stat), ("meminfo", memory)] {
        // In one step: the agent may read it at any moment.
        let next: PathBuf = root.join(format!("{name}.next"));
        fs::write(&next, text).unwrap();
        fs::rename(&next, root.join(name)).unwrap();
    }
}

/// By promises `alpha-1` is empty and `alpha-2` is not; by measurements it is the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_busy_node_is_avoided_by_the_profile_that_knows_of_it() {
    let (busy, idle) = (Machine::new(97), Machine::new(0));
    let arguments = [busy.argument("alpha-1"), idle.argument("alpha-2"), "--sample-ms=50".to_owned()];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let cell = TestCell::start(options!().agent_arguments(&arguments)).await;
    for (node, least, most) in [("alpha-1", 800, 1000), ("alpha-2", 0, 0)] {
        until(&format!("the load of {node}"), || async {
            let known = cell.client().node_get(node).await.ok()?;
            let load = known.load?;
            let part = load.cpu_millis * 1000 / known.capacity?.cpu_millis;
            assert!((least..=most).contains(&part), "{load:?}");
            Some(())
        })
        .await;
    }
    cell.borough(&["node", "status", "alpha-1"]).await.ended(0).prints("load ");
    let file = |name: &str, profile: &str, more: &str| {
        format!(
            "name: {name}\npriority: 150\nprofile: {profile}\ntask: {{command: [sleep, 600], resources: {{cpu: 200m, \
             memory: 4MiB}}, grace: 300ms}}\n{more}"
        )
    };
    cell.run("filler.yaml", &file("filler", "best-fit", "constraints: ['node.name in [\"alpha-2\"]']\n"))
        .await;
    cell.run("requests.yaml", &file("requests", "worst-fit", "")).await;
    assert_eq!(cell.tasks("requests").await[0].node, "alpha-1", "less is promised there");
    cell.run("measured.yaml", &file("measured", "load-aware", "")).await;
    assert_eq!(cell.tasks("measured").await[0].node, "alpha-2", "less is in use there");
    for job in ["filler", "requests", "measured"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}
