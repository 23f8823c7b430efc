//! Results: one JSON object per line on standard output, a table for people on a terminal.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use comfy_table::Table;
use hdrhistogram::Histogram;
use procfs::Current as _;
use serde_json::{Map, Value, json};

/// For how long the disk is measured.
const FSYNC_TIME: Duration = Duration::from_millis(500);

/// The commit that this program was built from.
const COMMIT: &str = env!("BOROUGH_COMMIT");

/// The model of the machine's processors.
fn machine() -> String {
    let info = procfs::CpuInfo::current().ok();
    let model = info.as_ref().and_then(|info| info.model_name(0));
    model.unwrap_or("unknown").to_owned()
}

/// The facts of the machine for every line, and the lines so far.
pub(crate) struct Results {
    engine: &'static str,
    cores: usize,
    machine: String,
    fsync_per_s: Option<u64>,
    lines: Vec<(String, String, Stats)>,
}

impl Results {
    /// Measures the disk and reads the facts of the machine.
    pub(crate) fn begin(engine: &'static str, scratch: &Path) -> anyhow::Result<Self> {
        Ok(Self { engine, fsync_per_s: Some(fsync_measure(scratch)?), ..Self::without_store() })
    }

    /// For a benchmark that stores nothing and so does not depend on the disk.
    pub(crate) fn without_store() -> Self {
        Self {
            engine: "none",
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            machine: machine(),
            fsync_per_s: None,
            lines: Vec::new(),
        }
    }

    /// Adds a result.
    #[expect(clippy::print_stdout, reason = "result lines are what this program is for")]
    pub(crate) fn line(&mut self, bench: &str, workload: &str, stats: Stats) {
        let mut line = json!({
            "bench": bench,
            "workload": workload,
            "engine": self.engine,
            "cores": self.cores,
            "machine": self.machine,
            "commit": COMMIT,
        });
        if let Some(object) = line.as_object_mut() {
            if let Some(fsync_per_s) = self.fsync_per_s {
                object.insert("fsync_per_s".to_owned(), json!(fsync_per_s));
            }
            object.extend(stats.clone());
        }
        println!("{line}");
        self.lines.push((bench.to_owned(), workload.to_owned(), stats));
    }

    /// Prints a separate table for people.
    #[expect(clippy::print_stderr, reason = "the table for people stands beside the lines for programs")]
    pub(crate) fn table(&self, title: &str, header: &[String], rows: &[Vec<String>]) {
        let mut table = Table::new();
        table.set_header(header);
        for row in rows {
            table.add_row(row);
        }
        eprintln!("{title}\n{table}");
    }

    /// Prints the table, on a terminal.
    #[expect(clippy::print_stderr, reason = "the table for people stands beside the lines for programs")]
    pub(crate) fn end(self) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let mut table = Table::new();
        table.set_header(["bench", "workload", "figure", "value"]);
        for (bench, workload, stats) in &self.lines {
            for (name, value) in stats {
                table.add_row([bench.clone(), workload.clone(), name.clone(), value.to_string()]);
            }
        }
        eprintln!("{table}");
    }
}

/// The numbers of a result line, by name.
pub(crate) type Stats = Map<String, Value>;

/// Fills [`Stats`].
pub(crate) trait StatsSet {
    /// Sets a number, in place of an earlier one of that name.
    fn set(&mut self, name: impl Into<String>, value: impl Into<Value>);
}

impl StatsSet for Stats {
    fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.insert(name.into(), value.into());
    }
}

/// Stats of pairs with fixed names.
pub(crate) fn stats_named<const N: usize>(stats: [(&str, Value); N]) -> Stats {
    stats.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Percentiles of microseconds as milliseconds, with the number of samples.
pub(crate) fn percentiles(stats: &mut Stats, name: &str, samples_us: &[u64]) -> anyhow::Result<()> {
    let mut histogram = Histogram::<u64>::new(3)?;
    for &sample in samples_us {
        histogram.record(sample.max(1))?;
    }
    percentiles_of(stats, name, &histogram);
    Ok(())
}

/// Percentiles of a histogram of microseconds as milliseconds, with the number of samples.
pub(crate) fn percentiles_of(stats: &mut Stats, name: &str, histogram: &Histogram<u64>) {
    let ms = |quantile: f64| {
        let micros = u32::try_from(histogram.value_at_quantile(quantile)).unwrap_or(u32::MAX);
        (f64::from(micros) / 10.0).round() / 100.0
    };
    for (label, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
        stats.set(format!("{name}_{label}_ms"), json!(ms(quantile)));
    }
    stats.set(format!("{name}_samples"), json!(histogram.len()));
}

/// Durable writes of 4 KiB per second on the disk of the cell.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
fn fsync_measure(scratch: &Path) -> anyhow::Result<u64> {
    let path = scratch.join("fsync");
    let mut file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let block = [0_u8; 4096];
    let begin = Instant::now();
    let mut count = 0_u64;
    while begin.elapsed() < FSYNC_TIME {
        file.write_all(&block)?;
        file.sync_data()?;
        count += 1;
    }
    let per_s = u128::from(count) * 1_000_000 / begin.elapsed().as_micros().max(1);
    std::fs::remove_file(&path)?;
    Ok(u64::try_from(per_s)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_samples() {
        let samples: Vec<u64> = (1..=100).map(|ms| ms * 1_000).collect();
        let mut stats = Stats::new();
        percentiles(&mut stats, "exec", &samples).unwrap();
        assert_eq!(stats["exec_samples"], json!(100));
        let p50 = stats["exec_p50_ms"].as_f64().unwrap();
        assert!((49.0..=51.0).contains(&p50), "{p50}");
        assert!(stats["exec_max_ms"].as_f64().unwrap() >= 99.0);
    }
}
