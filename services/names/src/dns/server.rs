//! The sockets of DNS: UDP and TCP at one address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;

use super::kept::KeptAnswers;
use super::limit::{PrefixLimit, RateVerdict};
use super::wire::{DnsTransport, packet_answer, packet_answer_cut};
use super::zone::DnsZone;
use crate::listen::{BindError, ConnectionPlaces, connections_max, tcp_bind};
use crate::metrics::DnsResult;
use crate::service::NamesShared;
use crate::table::NamesTable;

/// The most bytes of a question. A name has 255, and options are short.
const QUESTION_BYTES_MAX: usize = 4_096;
/// Connections at a time.
const CONNECTIONS_MAX: usize = 1_024;
/// How long a connection may be idle, and how long its client may take to read an answer.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Pause after an error of a socket.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// Tries to find a port that is free for both transports.
const PORT_TRIES: usize = 16;

/// The settings of DNS.
#[derive(Clone, Debug)]
pub struct DnsSettings {
    pub zone: DnsZone,
    /// Answers over UDP per second and network of clients; 0: no limit.
    pub rate: u32,
}

/// Sockets of both transports with one port.
pub struct DnsListeners {
    udp: UdpSocket,
    tcp: TcpListener,
    address: SocketAddr,
}

impl DnsListeners {
    /// Listens; port 0 takes one that is free for both transports.
    ///
    /// # Errors
    /// The address that is taken, or not one of this machine.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (tcp, bound) = tcp_bind(address, "DNS over TCP").await?;
            match UdpSocket::bind(bound).await {
                Ok(udp) => return Ok(Self { udp, tcp, address: bound }),
                Err(error)
                    if address.port() == 0
                        && tries < PORT_TRIES
                        && error.kind() == io::ErrorKind::AddrInUse => {}
                Err(source) => return Err(BindError { address: bound, protocol: "DNS over UDP", source }),
            }
        }
    }

    /// The address of both sockets.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

struct DnsServer {
    shared: Arc<NamesShared>,
    zone: DnsZone,
    limit: PrefixLimit,
    rotation: AtomicU64,
    kept: KeptAnswers,
}

/// Answers until `cancelled`.
pub async fn dns_serve(
    shared: Arc<NamesShared>,
    settings: DnsSettings,
    listeners: DnsListeners,
    cancelled: CancellationToken,
) {
    let DnsListeners { udp, tcp, .. } = listeners;
    // Processes begin at different endpoints, so that they do not all send traffic to the first one.
    let rotation = AtomicU64::new(shared.random() >> 1);
    let limit = PrefixLimit::new(settings.rate);
    let server =
        Arc::new(DnsServer { shared, zone: settings.zone, limit, rotation, kept: KeptAnswers::default() });
    tokio::select! {
        () = udp_serve(&server, &udp) => {}
        () = tcp_serve(&server, &tcp, &cancelled) => {}
        () = cancelled.cancelled() => {}
    }
}

impl DnsServer {
    fn answer(&self, packet: &[u8], transport: DnsTransport) -> Option<Vec<u8>> {
        let rotation = self.rotation.fetch_add(1, Ordering::Relaxed);
        let answer_of = |table: Option<&NamesTable>| match transport {
            DnsTransport::Udp => self.kept.answer(table, &self.zone, packet, rotation),
            DnsTransport::Tcp => packet_answer(table, &self.zone, packet, transport, rotation),
        };
        let answered = self.shared.read(|table| answer_of(Some(table)));
        // Without a table the server says that it cannot answer now, and never that nothing is there.
        let answer = answered.unwrap_or_else(|| answer_of(None));
        self.shared.metrics.dns_count(transport.label(), DnsResult::of(answer.as_deref()));
        answer
    }
}

async fn udp_serve(server: &DnsServer, socket: &UdpSocket) {
    let mut packet = vec![0; QUESTION_BYTES_MAX];
    loop {
        let (length, client) = match socket.recv_from(&mut packet).await {
            Ok(received) => received,
            // An earlier answer that could not be delivered shows here.
            Err(error) => {
                tracing::debug!(%error, "cannot receive a question");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let packet = packet.get(..length).unwrap_or_default();
        let verdict = server.limit.check(client.ip(), server.shared.clock().monotonic());
        let answer = match verdict {
            RateVerdict::Answer => server.answer(packet, DnsTransport::Udp),
            RateVerdict::AnswerCut | RateVerdict::Drop => {
                server.shared.metrics.dns_count(DnsTransport::Udp.label(), DnsResult::Limited);
                let cut = verdict == RateVerdict::AnswerCut;
                cut.then(|| packet_answer_cut(&server.zone, packet)).flatten()
            }
        };
        if let Some(answer) = answer
            && let Err(error) = socket.send_to(&answer, client).await
        {
            tracing::debug!(%error, "cannot send an answer");
        }
    }
}

async fn tcp_serve(server: &Arc<DnsServer>, listener: &TcpListener, cancelled: &CancellationToken) {
    let places = ConnectionPlaces::new(connections_max(CONNECTIONS_MAX));
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection of DNS");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        // More than there is room for are closed at once.
        let Some(place) = places.take(client.ip()) else { continue };
        let (server, cancelled) = (Arc::clone(server), cancelled.clone());
        tokio::spawn(async move {
            tokio::select! {
                ended = connection_serve(&server, stream) => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection of DNS has ended");
                    }
                }
                () = cancelled.cancelled() => {}
            }
            drop(place);
        });
    }
}

/// Answers the questions of a connection, one after the other.
async fn connection_serve(server: &DnsServer, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut packet = Vec::new();
    loop {
        let mut length = [0; 2];
        match tokio::time::timeout(IDLE_MAX, stream.read_exact(&mut length)).await {
            Err(_) => return Ok(()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Ok(read) => read?,
        };
        let length = usize::from(u16::from_be_bytes(length));
        if length > QUESTION_BYTES_MAX {
            return Ok(());
        }
        packet.resize(length, 0);
        in_time(stream.read_exact(&mut packet)).await?;
        let Some(answer) = server.answer(&packet, DnsTransport::Tcp) else { return Ok(()) };
        let length = u16::try_from(answer.len()).unwrap_or(u16::MAX);
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend_from_slice(&answer);
        in_time(stream.write_all(&framed)).await?;
    }
}

async fn in_time<T>(io: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(IDLE_MAX, io).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
