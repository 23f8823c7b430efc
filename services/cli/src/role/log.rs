//! The log of a role: structured lines on standard error, filtered by `BOROUGH_LOG`.
//!
//! No role ends because its log cannot be written. A full disk or a closed pipe costs lines and nothing else: the
//! writer counts lost lines, and reports the number before the next line that it can write.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What reads packets of strangers, and warns of each that is not well formed.
const OF_PACKETS: &str = "hickory_proto";

/// Lines lost over the run of this process, which has one log.
static LOST: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Registers the count of lost lines for `GET /metrics`.
pub(crate) fn log_metrics_register(registry: &mut Registry) {
    let help = "Lines of this process's log that standard error did not take";
    registry.register("borough_log_lost_lines", help, LOST.clone());
}

/// Starts the log of a role; `default` is the filter without `BOROUGH_LOG`.
pub(crate) fn log_begin(default: &str) {
    let filter = log_filter(std::env::var("BOROUGH_LOG").ok().as_deref(), default);
    let writer = LossyWriter::new(io::stderr(), LOST.clone());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(SharedWriter(Arc::new(Mutex::new(writer))))
        .with_ansi(io::stderr().is_terminal());
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    // A test of this process may have set one before: that one stays.
    subscriber.try_init().ok();
}

/// `asked`, such as `warn,borough_kv=debug`: a level, and levels of targets. `default` if there is none, or nobody can
/// read it.
fn log_filter(asked: Option<&str>, default: &str) -> Targets {
    let filter = asked.and_then(|asked| asked.parse().ok());
    let quiet = |default: Targets| default.with_target(OF_PACKETS, LevelFilter::OFF);
    filter.or_else(|| default.parse().ok().map(quiet)).unwrap_or_default()
}

/// One [`LossyWriter`] for all threads.
#[derive(Clone)]
struct SharedWriter(Arc<Mutex<LossyWriter<io::Stderr>>>);

impl<'a> MakeWriter<'a> for SharedWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for SharedWriter {
    /// Never fails: the subscriber would report a failure on standard error, and a failure there is a panic.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().append(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends whole lines to `out` and drops those that it does not accept.
struct LossyWriter<W> {
    out: W,
    /// Lines lost since the process began.
    lost: Counter,
    /// Lines lost since the last note.
    unreported: u64,
    /// Why the last of them was lost.
    reason: String,
    /// Whether the last write ended within a line.
    broken_line: bool,
}

impl<W: Write> LossyWriter<W> {
    fn new(out: W, lost: Counter) -> Self {
        Self { out, lost, unreported: 0, reason: String::new(), broken_line: false }
    }

    fn append(&mut self, line: &[u8]) {
        if let Err(error) = self.note().and_then(|()| self.put(line)) {
            self.unreported = self.unreported.saturating_add(1);
            self.reason = error.to_string();
            self.lost.inc();
        }
    }

    /// Reports the lines lost so far, if any.
    fn note(&mut self) -> io::Result<()> {
        if self.unreported == 0 {
            return Ok(());
        }
        let line_end = if self.broken_line { "\n" } else { "" };
        let text = format!(
            "{line_end} WARN borough: {} lines of this log are lost: {}\n",
            self.unreported, self.reason
        );
        self.put(text.as_bytes())?;
        self.unreported = 0;
        Ok(())
    }

    fn put(&mut self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    self.broken_line = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    /// A disk with so many free bytes.
    #[derive(Default)]
    struct Disk {
        free_bytes: usize,
        written: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.free_bytes);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.free_bytes -= taken;
            self.written.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_filter_names_targets_and_levels_and_an_unreadable_one_is_the_default() {
        let shown = |asked: Option<&str>| {
            let filter = log_filter(asked, "warn,borough=info");
            let levels = [Level::WARN, Level::INFO, Level::DEBUG];
            ["borough_kv::runner", "h2", "hickory_proto::rr::rdata::opt"]
                .map(|target| levels.iter().filter(|level| filter.would_enable(target, level)).count())
        };
        assert_eq!(shown(None), [2, 1, 0]);
        assert_eq!(shown(Some("borough_kv=debug")), [3, 0, 0]);
        assert_eq!(shown(Some("info,borough_kv::runner=debug")), [3, 2, 2]);
        assert_eq!(shown(Some("borough=loud")), [2, 1, 0]);
    }

    #[test]
    fn lines_that_a_full_disk_refuses_are_counted_and_reported_later() {
        let lost = Counter::default();
        let mut log = LossyWriter::new(Disk { free_bytes: 8, ..Disk::default() }, lost.clone());
        for line in ["first\n", "second\n", "third\n"] {
            log.append(line.as_bytes());
        }
        assert_eq!(lost.get(), 2);
        log.out.free_bytes = 1000;
        log.append(b"fourth\n");
        log.append(b"fifth\n");
        let text = String::from_utf8(log.out.written).unwrap();
        let expected =
            "first\nse\n WARN borough: 2 lines of this log are lost: no storage space\nfourth\nfifth\n";
        assert_eq!(text, expected);
        assert_eq!(lost.get(), 2);
    }
}
