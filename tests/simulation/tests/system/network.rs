//! A network without sockets: connections between hosts, whose bytes may be late, delayed, lost in one direction, or
//! end with a reset. Each connection has its own delays, so that messages on different connections overtake each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use borough_kv::env::Rng;
use borough_proto::connect::{Connection, Connector};
use borough_testkit::below;
use futures::Stream;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tonic::transport::server::Connected;

use crate::clock::RoleTime;
use crate::trace::{Trace, hash};
use crate::wire::{Decoded, Reader};

/// A host, by its name.
pub(crate) type Host = Arc<str>;

/// The most bytes in flight in one direction; more must wait.
const WINDOW_BYTES: usize = 1 << 20;
/// Interval of checks of a cut link.
const CUT_LOOK_MS: u64 = 50;

/// The network. Clones share it.
#[derive(Clone)]
pub(crate) struct Network(Arc<Mutex<State>>);

struct State {
    rng: Arc<dyn Rng>,
    trace: Trace,
    delay_max_ms: u64,
    listeners: BTreeMap<String, Listener>,
    /// Pairs of hosts without a connection, in alphabetical order.
    cut: BTreeSet<(Host, Host)>,
    /// Hosts that accept no more connections.
    full: BTreeSet<Host>,
    /// Hosts that have vanished silently.
    gone: BTreeSet<Host>,
    connections: BTreeMap<u64, [Weak; 2]>,
    next: u64,
    /// The longest gRPC message so far, with its sender and receiver.
    pub message_max: (usize, String),
    /// The most bytes in flight in one direction.
    pub flight_max: usize,
    met: BTreeMap<&'static str, u64>,
}

type Weak = std::sync::Weak<Mutex<Half>>;

struct Listener {
    host: Host,
    time: RoleTime,
    accepted: mpsc::UnboundedSender<io::Result<SimStream>>,
}

/// One direction of a connection.
struct Half {
    from: Host,
    to: Host,
    name: String,
    chunks: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    last_ms: u64,
    ended: Option<u64>,
    reset: bool,
    /// None of its bytes arrive any more, and neither side notices.
    lost: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    wire: Reader,
}

impl Half {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

/// One end of a connection.
pub(crate) struct SimStream {
    network: Network,
    time: RoleTime,
    rx: Arc<Mutex<Half>>,
    tx: Arc<Mutex<Half>>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Connected for SimStream {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

fn pair(one: &Host, other: &Host) -> (Host, Host) {
    if one <= other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) }
}

impl Network {
    /// A network on which bytes are in flight for up to `delay_max_ms`.
    pub(crate) fn new(rng: Arc<dyn Rng>, trace: Trace, delay_max_ms: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng,
            trace,
            delay_max_ms,
            listeners: BTreeMap::new(),
            cut: BTreeSet::new(),
            full: BTreeSet::new(),
            gone: BTreeSet::new(),
            connections: BTreeMap::new(),
            next: 0,
            message_max: (0, String::new()),
            flight_max: 0,
            met: BTreeMap::new(),
        })))
    }

    /// Listens at `address`, and replaces an earlier listener.
    pub(crate) fn listen(
        &self,
        host: &Host,
        address: &str,
        time: RoleTime,
    ) -> impl Stream<Item = io::Result<SimStream>> + Send + 'static + use<> {
        let (accepted, incoming) = mpsc::unbounded_channel();
        let listener = Listener { host: host.clone(), time, accepted };
        let mut state = self.0.lock();
        state.gone.remove(host);
        state.listeners.insert(address.to_owned(), listener);
        tokio_stream::wrappers::UnboundedReceiverStream::new(incoming)
    }

    /// The connector of a process on `host`.
    pub(crate) fn connector(&self, host: &Host, time: &RoleTime) -> Connector {
        let (network, host, time) = (self.clone(), host.clone(), time.clone());
        network.0.lock().gone.remove(&host);
        Connector::simulated(move |uri| {
            let address = uri.authority().map(ToString::to_string).unwrap_or_default();
            let (network, host, time) = (network.clone(), host.clone(), time.clone());
            Box::pin(async move {
                let stream = network.dial(host, address, time).await?;
                Ok(Box::new(stream) as Box<dyn Connection>)
            })
        })
    }

    async fn dial(self, host: Host, address: String, time: RoleTime) -> io::Result<SimStream> {
        tokio::time::sleep(Duration::from_millis(1 + self.delay_ms())).await;
        loop {
            let reachable = {
                let state = self.0.lock();
                let to = state.listeners.get(&address).map(|listener| listener.host.clone());
                to.is_none_or(|to| !state.cut.contains(&pair(&host, &to)) && !state.gone.contains(&to))
            };
            if reachable {
                break;
            }
            tokio::time::sleep(Duration::from_millis(CUT_LOOK_MS)).await;
        }
        self.connect(&host, &address, &time).ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    fn connect(&self, host: &Host, address: &str, time: &RoleTime) -> Option<SimStream> {
        let mut state = self.0.lock();
        let listener = state.listeners.get(address).filter(|listener| !listener.accepted.is_closed());
        let listener = listener
            .map(|listener| (listener.host.clone(), listener.time.clone(), listener.accepted.clone()));
        let refused =
            listener.as_ref().is_none_or(|(to, ..)| state.full.contains(to) || state.full.contains(host));
        if refused {
            *state.met.entry("connect_refused").or_default() += 1;
            state.trace.note(format_args!("{host} is refused at {address}"));
            return None;
        }
        let (to, to_time, accepted) = listener?;
        let number = state.next;
        state.next += 1;
        state.trace.note(format_args!("{host} connects to {to} as {number}"));
        let half = |from: &Host, to: &Host| {
            Arc::new(Mutex::new(Half {
                from: from.clone(),
                to: to.clone(),
                name: format!("{number} {from}>{to}"),
                chunks: VecDeque::new(),
                bytes: 0,
                last_ms: 0,
                ended: None,
                reset: false,
                lost: false,
                reader: None,
                writer: None,
                wire: Reader::default(),
            }))
        };
        let (there, back) = (half(host, &to), half(&to, host));
        state.connections.insert(number, [Arc::downgrade(&there), Arc::downgrade(&back)]);
        state.connections.retain(|_, halves| halves.iter().any(|half| half.strong_count() > 0));
        let end = |time: &RoleTime, rx: &Arc<Mutex<Half>>, tx: &Arc<Mutex<Half>>| SimStream {
            network: self.clone(),
            time: time.clone(),
            rx: rx.clone(),
            tx: tx.clone(),
            sleep: None,
        };
        drop(state);
        accepted.send(Ok(end(&to_time, &there, &back))).ok()?;
        Some(end(time, &back, &there))
    }

    fn delay_ms(&self) -> u64 {
        let state = self.0.lock();
        below(&*state.rng, state.delay_max_ms.max(1))
    }

    fn halves(&self, of: impl Fn(&Half) -> bool) -> Vec<Arc<Mutex<Half>>> {
        let halves: Vec<_> =
            self.0.lock().connections.values().flatten().filter_map(std::sync::Weak::upgrade).collect();
        halves.into_iter().filter(|half| of(&half.lock())).collect()
    }

    fn met(&self, what: &'static str) {
        *self.0.lock().met.entry(what).or_default() += 1;
    }

    /// From now on nothing arrives between the two; bytes sent meanwhile arrive afterwards.
    pub(crate) fn cut(&self, one: &Host, other: &Host) {
        self.met("link_cut");
        self.0.lock().cut.insert(pair(one, other));
    }

    /// Restores all links and hosts.
    pub(crate) fn heal(&self) {
        let mut state = self.0.lock();
        state.cut.clear();
        state.full.clear();
        drop(state);
        self.halves(|_| true).iter().for_each(|half| half.lock().wake());
    }

    /// Connects the two again.
    pub(crate) fn mend(&self, one: &Host, other: &Host) {
        self.0.lock().cut.remove(&pair(one, other));
    }

    /// Resets the connections between the two.
    pub(crate) fn reset(&self, one: &Host, other: &Host) {
        self.met("link_reset");
        for half in self.halves(|half| pair(&half.from, &half.to) == pair(one, other)) {
            let mut half = half.lock();
            half.reset = true;
            half.wake();
        }
    }

    /// Stops the bytes from one to the other over the open connections; the other direction continues.
    pub(crate) fn half_close(&self, from: &Host, to: &Host) {
        self.met("half_closed");
        for half in self.halves(|half| half.from == *from && half.to == *to) {
            half.lock().lost = true;
        }
    }

    /// The host has no descriptors left, or has some again.
    pub(crate) fn full_set(&self, host: &Host, full: bool) {
        let mut state = self.0.lock();
        match full {
            true => state.full.insert(host.clone()),
            false => state.full.remove(host),
        };
    }

    /// The host loses its power: others do not even see that its connections are closed.
    pub(crate) fn vanish(&self, host: &Host) {
        self.0.lock().gone.insert(host.clone());
        for half in self.halves(|half| half.from == *host || half.to == *host) {
            half.lock().lost = true;
        }
    }

    /// The longest message so far, with its sender; the most bytes that were in flight at once in one direction.
    pub(crate) fn most(&self) -> ((usize, String), usize) {
        let state = self.0.lock();
        (state.message_max.clone(), state.flight_max)
    }

    /// How often each kind of fault was met.
    pub(crate) fn met_all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().met.clone()
    }

    fn decoded(&self, name: &str, decoded: &[Decoded]) {
        let mut state = self.0.lock();
        for decoded in decoded {
            match decoded {
                Decoded::Frame(kind, stream) => {
                    state.trace.note(format_args!("{name} frame {kind} of {stream}"))
                }
                Decoded::Message(stream, bytes) => {
                    let length = bytes.len();
                    state
                        .trace
                        .note(format_args!("{name} message of {stream}: {length} {:016x}", hash(bytes)));
                    if length > state.message_max.0 {
                        state.message_max = (length, name.to_owned());
                    }
                }
            }
        }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let now_ms = this.time.now_ms();
        let mut half = this.rx.lock();
        if half.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        half.reader = Some(context.waker().clone());
        if half.lost {
            return Poll::Pending;
        }
        let cut = this.network.0.lock().cut.contains(&pair(&half.from, &half.to));
        let due_ms = half.chunks.front().map(|(at, _)| *at).or(half.ended);
        match due_ms {
            None => return Poll::Pending,
            Some(due_ms) if cut || due_ms > now_ms => {
                let wait = if cut { CUT_LOOK_MS } else { due_ms - now_ms };
                drop(half);
                let mut sleep = Box::pin(tokio::time::sleep(Duration::from_millis(wait)));
                if sleep.as_mut().poll(context).is_ready() {
                    context.waker().wake_by_ref();
                }
                this.sleep = Some(sleep);
                return Poll::Pending;
            }
            Some(_) => {}
        }
        while buffer.remaining() > 0
            && let Some((at, chunk)) = half.chunks.front_mut()
            && *at <= now_ms
        {
            let length = chunk.len().min(buffer.remaining());
            buffer.put_slice(&chunk[..length]);
            chunk.drain(..length);
            if chunk.is_empty() {
                half.chunks.pop_front();
            }
            half.bytes -= length;
        }
        half.writer.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let delay_ms = 1 + self.network.delay_ms();
        let mut half = self.tx.lock();
        if half.reset {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if half.bytes >= WINDOW_BYTES {
            half.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let decoded = half.wire.read(bytes);
        let at_ms = (self.time.now_ms() + delay_ms).max(half.last_ms);
        half.last_ms = at_ms;
        half.bytes += bytes.len();
        half.chunks.push_back((at_ms, bytes.to_vec()));
        half.reader.take().into_iter().for_each(Waker::wake);
        let (name, flight) = (half.name.clone(), half.bytes);
        drop(half);
        self.network.decoded(&name, &decoded);
        let mut state = self.network.0.lock();
        state.flight_max = state.flight_max.max(flight);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

impl SimStream {
    /// The other end reads an end after everything that was sent.
    fn end(&self) {
        let mut half = self.tx.lock();
        let at_ms = half.last_ms.max(1);
        half.ended.get_or_insert(at_ms);
        half.reader.take().into_iter().for_each(Waker::wake);
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.end();
        // A writer then notices that nobody reads.
        let mut half = self.rx.lock();
        if !half.lost {
            half.reset = true;
            half.wake();
        }
    }
}
