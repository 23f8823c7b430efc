//! Simulated agents of one cell in this process. They share connections, and their observations are counted and
//! checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_agent::hollow::HollowTimes;
use borough_kv::env::{Clock, Rng};
use borough_proto::v1;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use super::check::Checker;
use super::node::node_run;
use super::tally::{GenerationCounts, Stage};
use super::traffic::Traffic;
use super::turnover::StartBook;

/// The agent has the same limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The agent has the same interval.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Interval of checks of a condition.
const LOOK: Duration = Duration::from_millis(20);

/// The longest measurable time, in microseconds: ten minutes.
const APPLIED_US_MAX: u64 = 600_000_000;

/// The configuration of a fleet.
pub(crate) struct FleetOptions {
    /// Gateways, as `http://HOST:PORT`. The connections are divided among them.
    pub gateways: Vec<String>,
    pub token: Option<String>,
    /// The first messages of the nodes.
    pub hellos: Vec<v1::Hello>,
    /// Sessions that share a connection; a real agent has its own.
    pub sessions_per_connection: usize,
    /// The durations of simulated steps.
    pub times: HollowTimes,
    /// Silence after which the cell may give a node's tasks to others.
    pub lost_after: Duration,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
}

/// Counters over all nodes.
#[derive(Default)]
pub(crate) struct Counters {
    /// Sessions that were begun.
    pub opened: AtomicU64,
    /// Failed connections, and sessions that the gateway ended.
    pub broken: AtomicU64,
    /// Reports sent.
    pub reports: AtomicU64,
    /// Messages received.
    pub messages: AtomicU64,
    /// Attempts begun.
    pub begun: AtomicU64,
    pub running: AtomicU64,
    /// Orders for other amounts that were carried out.
    pub resized: AtomicU64,
    pub released: AtomicU64,
    /// Attempts assigned after their end.
    pub late: AtomicU64,
    /// Messages that were not understood.
    pub refused: AtomicU64,
}

impl Counters {
    /// One more.
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// How many.
    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

/// State that the nodes share.
pub(crate) struct FleetShared {
    pub options: FleetOptions,
    /// The token, as it is sent.
    pub authorization: Option<MetadataValue<Ascii>>,
    pub counters: Counters,
    /// The stages of the sessions of the present generation of connections.
    pub tally: Mutex<GenerationCounts>,
    /// Messages to the gateways.
    pub sent: Traffic,
    /// Messages from them.
    pub received: Traffic,
    /// Microseconds from a report to the answer that it is durable.
    pub applied_us: Mutex<Histogram<u64>>,
    pub checker: Arc<Checker>,
    /// When tasks of the jobs that come and go began to run.
    pub starts: Mutex<Option<StartBook>>,
    /// Raised to make every node connect again.
    pub generation: watch::Sender<u64>,
    /// Ends every session.
    pub cancelled: CancellationToken,
    channels: Mutex<Vec<Channel>>,
}

impl FleetShared {
    /// The connection of a node.
    pub(crate) fn channel(&self, node: usize) -> Option<Channel> {
        self.channels.lock().get(node / self.options.sessions_per_connection).cloned()
    }
}

/// A running fleet.
pub(crate) struct Fleet {
    pub shared: Arc<FleetShared>,
    nodes: JoinSet<()>,
}

impl Fleet {
    /// Starts every node.
    pub(crate) fn start(options: FleetOptions) -> anyhow::Result<Self> {
        let count = options.hellos.len();
        let authorization =
            options.token.as_ref().map(|token| format!("Bearer {token}").parse()).transpose()?;
        let shared = Arc::new(FleetShared {
            checker: Arc::new(Checker::new(count, options.lost_after)),
            channels: Mutex::new(channels(&options)?),
            authorization,
            starts: Mutex::new(None),
            counters: Counters::default(),
            tally: Mutex::new(GenerationCounts::new(options.clock.monotonic())?),
            sent: Traffic::default(),
            received: Traffic::default(),
            applied_us: Mutex::new(Histogram::new_with_bounds(1, APPLIED_US_MAX, 3)?),
            generation: watch::Sender::new(0),
            cancelled: CancellationToken::new(),
            options,
        });
        let mut nodes = JoinSet::new();
        for node in 0..count {
            nodes.spawn(node_run(Arc::clone(&shared), node));
        }
        Ok(Self { shared, nodes })
    }

    /// Counts the nodes whose session is at `stage` or beyond.
    pub(crate) fn count(&self, stage: Stage) -> usize {
        self.shared.tally.lock().count(stage)
    }

    /// Waits until the session of every node is open and its full report durable. Returns how long that took.
    ///
    /// # Errors
    /// It took longer than `patience`.
    pub(crate) async fn all_connected(&self, patience: Duration) -> anyhow::Result<Duration> {
        let (took, reached) = self.all_reached(Stage::Connected, patience).await;
        let all = self.shared.options.hellos.len();
        anyhow::ensure!(reached == all, "{reached} of {all} nodes had a session within {patience:?}");
        Ok(took)
    }

    /// Waits until every session is at `stage`, for `patience` at most. Returns how long that took, and how many are.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(crate) async fn all_reached(&self, stage: Stage, patience: Duration) -> (Duration, usize) {
        let began = std::time::Instant::now();
        let all = self.shared.options.hellos.len();
        loop {
            let (reached, took) = (self.count(stage), began.elapsed());
            if reached >= all || took >= patience {
                return (took, reached);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Breaks every connection at once. Each node connects again, with an agent's back-off.
    pub(crate) fn storm(&self) -> anyhow::Result<()> {
        *self.shared.channels.lock() = channels(&self.shared.options)?;
        let now = self.shared.options.clock.monotonic();
        let generation = self.shared.tally.lock().generation_begin(now);
        self.shared.generation.send_replace(generation);
        Ok(())
    }

    /// Ends every session.
    pub(crate) async fn end(mut self) {
        self.shared.cancelled.cancel();
        while self.nodes.join_next().await.is_some() {}
    }
}

fn channels(options: &FleetOptions) -> anyhow::Result<Vec<Channel>> {
    let count = options.hellos.len().div_ceil(options.sessions_per_connection);
    let mut channels = Vec::with_capacity(count);
    for gateway in options.gateways.iter().cycle().take(count) {
        let endpoint = Endpoint::from_shared(gateway.clone())?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        channels.push(endpoint.connect_lazy());
    }
    Ok(channels)
}
