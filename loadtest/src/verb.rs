//! What a verb of the program costs: a process of `borough` that writes many lines, and the control process meanwhile.

use std::io::BufReader;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use procfs::process::{FDTarget, Process};
use serde_json::json;

use crate::hollow::usage::{peak_reset, process_peak, process_usage};
use crate::result::{Stats, StatsSet as _};
use crate::system::{System, SystemOptions};

/// Interval of looks at the memory and the sockets of the client.
const LOOK: Duration = Duration::from_millis(2);

/// A verb, and the end of its measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredVerb<'a> {
    pub words: &'a [&'a str],
    /// Lines before the first row.
    pub header: usize,
    /// A verb that does not end by itself is killed after so many lines.
    pub lines_max: Option<usize>,
}

/// What the client has used at most.
struct ClientPeak {
    memory_bytes: u64,
    sockets: usize,
}

/// Runs the verb to its end, and returns its times and bytes, and the memory of both sides.
///
/// # Errors
/// The verb failed, or ended before its last line.
pub(crate) fn verb_cost(
    options: &SystemOptions,
    system: &System,
    verb: MeasuredVerb<'_>,
) -> anyhow::Result<Stats> {
    let control = i32::try_from(system.control_pid())?;
    peak_reset(control)?;
    let before = process_usage(control)?;
    let mut command = Command::new(&options.borough);
    command.args(verb.words).env("BOROUGH_DIR", system.directory()).env("BOROUGH_USER", "loadtest");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut stats = Stats::new();
    let peak = lines_read(command, verb, &mut stats)?;
    let after = process_usage(control)?;
    stats.set("client_rss_peak_mib", json!(mib(peak.memory_bytes)));
    stats.set("client_sockets_max", json!(peak.sockets));
    stats.set("control_rss_mib", json!(mib(before.rss_bytes)));
    let grown = process_peak(control)?.saturating_sub(before.rss_bytes);
    stats.set("control_rss_grew_mib", json!(mib(grown)));
    let cpu = after.cpu.saturating_sub(before.cpu);
    stats.set("control_cpu_ms", json!(u64::try_from(cpu.as_millis())?));
    Ok(stats)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
fn lines_read(mut command: Command, verb: MeasuredVerb<'_>, stats: &mut Stats) -> anyhow::Result<ClientPeak> {
    let begin = Instant::now();
    let mut child = command.spawn()?;
    let out = child.stdout.take().context("its output")?;
    let (pid, over) = (i32::try_from(child.id())?, AtomicBool::new(false));
    let (read, peak) = std::thread::scope(|scope| {
        let looks = scope.spawn(|| client_peak(pid, &over));
        let read = rows_read(BufReader::new(out), verb, begin, stats);
        let ended = client_end(&mut child, verb);
        over.store(true, Ordering::Relaxed);
        (read.and(ended), looks.join())
    });
    read?;
    peak.ok().context("the looks at the client failed")
}

/// Reads lines until the last one that is wanted.
fn rows_read(
    mut out: impl std::io::BufRead,
    verb: MeasuredVerb<'_>,
    begin: Instant,
    stats: &mut Stats,
) -> anyhow::Result<()> {
    let (mut text, mut lines, mut bytes) = (String::new(), 0, 0);
    while verb.lines_max.is_none_or(|lines_max| lines < lines_max) && out.read_line(&mut text)? > 0 {
        (lines, bytes) = (lines + 1, bytes + text.len());
        text.clear();
        if lines == verb.header + 1 {
            stats.set("first_row_ms", json!(milliseconds(begin.elapsed())));
        }
    }
    stats.set("total_ms", json!(milliseconds(begin.elapsed())));
    stats.set("lines", json!(lines));
    stats.set("bytes", json!(bytes));
    let wanted = verb.lines_max.unwrap_or(verb.header + 1);
    ensure!(lines >= wanted, "borough {} wrote {lines} lines of {wanted}", verb.words.join(" "));
    Ok(())
}

fn client_end(child: &mut Child, verb: MeasuredVerb<'_>) -> anyhow::Result<()> {
    if verb.lines_max.is_some() {
        child.kill()?;
    }
    let status = child.wait()?;
    ensure!(verb.lines_max.is_some() || status.success(), "borough {} failed", verb.words.join(" "));
    Ok(())
}

fn client_peak(pid: i32, over: &AtomicBool) -> ClientPeak {
    let mut peak = ClientPeak { memory_bytes: 0, sockets: 0 };
    while !over.load(Ordering::Relaxed) {
        // The process may have ended meanwhile.
        if let Ok(memory_bytes) = process_peak(pid) {
            peak.memory_bytes = peak.memory_bytes.max(memory_bytes);
        }
        let descriptors = Process::new(pid).and_then(|process| process.fd());
        let sockets = descriptors.into_iter().flatten().flatten();
        let sockets = sockets.filter(|descriptor| matches!(descriptor.target, FDTarget::Socket(_))).count();
        peak.sockets = peak.sockets.max(sockets);
        std::thread::sleep(LOOK);
    }
    peak
}

fn mib(bytes: u64) -> f64 {
    let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
    (f64::from(kib) / 102.4).round() / 10.0
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}
