//! From a packet to the packet that answers it.

use hickory_proto::op::{Message, MessageType, Metadata, OpCode, Query, ResponseCode};

use super::answer::{DnsAnswer, answer};
use super::encode::{DnsResponse, HEADER_BYTES, OPT_BYTES, UDP_BYTES_MAX};
use super::zone::{DnsZone, wire_len};
use crate::table::{NamesTable, ServiceKey};

/// The bytes of an answer over UDP that every client takes.
const UDP_BYTES_MIN: u16 = 512;

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsTransport {
    Udp,
    Tcp,
}

impl DnsTransport {
    /// For metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// Answers a packet. `None`: it deserves no answer, because it is no question. Without a complete table the answer says
/// that the server cannot answer now.
pub fn packet_answer(
    table: Option<&NamesTable>,
    zone: &DnsZone,
    packet: &[u8],
    transport: DnsTransport,
    rotation: u64,
) -> Option<Vec<u8>> {
    packet_answered(table, zone, packet, transport, rotation).map(|answered| answered.bytes)
}

/// An answer, and what it depends on.
pub(super) struct PacketAnswer {
    pub(super) bytes: Vec<u8>,
    /// The service whose records the answer has. Absent: none, or the question has more in it than others will.
    pub(super) about: Option<ServiceKey>,
}

/// As [`packet_answer`].
pub(super) fn packet_answered(
    table: Option<&NamesTable>,
    zone: &DnsZone,
    packet: &[u8],
    transport: DnsTransport,
    rotation: u64,
) -> Option<PacketAnswer> {
    let query = match query_read(packet)? {
        Ok(query) => query,
        Err(metadata) => return Some(PacketAnswer { bytes: refusal_encode(metadata, zone)?, about: None }),
    };
    let mut answer = match query_check(&query) {
        Err(code) => DnsAnswer::refusal(code),
        Ok(question) => match table {
            None => DnsAnswer::refusal(ResponseCode::ServFail),
            Some(table) => {
                let taken = HEADER_BYTES + wire_len(&question.name) + 4 + OPT_BYTES;
                answer(table, zone, question, rotation, room_of(&query, transport).saturating_sub(taken))
            }
        },
    };
    // There is no larger transport than TCP, and a client that heard "cut" there would throw away a good answer.
    let is_cut = answer.is_cut && transport == DnsTransport::Udp;
    let about = answer.about.take().filter(|_| is_plain(&query, packet));
    let bytes = response_encode(&query, DnsAnswer { is_cut, ..answer }, zone)?;
    Some(PacketAnswer { bytes, about })
}

/// Returns true for a packet of a question, with or without an OPT record, and of nothing else.
fn is_plain(query: &Message, packet: &[u8]) -> bool {
    let questions = query.queries.iter().map(|question| wire_len(&question.name) + 4);
    let opt = if query.edns.is_some() { OPT_BYTES } else { 0 };
    packet.len() == HEADER_BYTES + questions.sum::<usize>() + opt
}

/// Answers a packet with nothing but "ask again over TCP", for a client that has asked too often. So nobody can make
/// the server send more to a forged address than was received.
pub fn packet_answer_cut(zone: &DnsZone, packet: &[u8]) -> Option<Vec<u8>> {
    let query = query_read(packet)?.ok()?;
    query_check(&query).ok()?;
    let answer = DnsAnswer { is_cut: true, ..DnsAnswer::default() };
    response_encode(&query, answer, zone)
}

/// The query of a packet, or how to refuse one that cannot be read.
fn query_read(packet: &[u8]) -> Option<Result<Message, Metadata>> {
    let [high, low, flags, ..] = *packet else { return None };
    // A response must not be answered: two servers would answer one another for ever.
    if packet.len() < HEADER_BYTES || flags & 0x80 != 0 {
        return None;
    }
    let unread = || {
        let id = u16::from_be_bytes([high, low]);
        let op_code = OpCode::from_u8((flags >> 3) & 0x0f);
        let mut metadata = Metadata::new(id, MessageType::Response, op_code);
        metadata.response_code = ResponseCode::FormErr;
        metadata
    };
    Some(Message::from_vec(packet).map_err(|_| unread()))
}

/// The question of a query that can be answered.
fn query_check(query: &Message) -> Result<&Query, ResponseCode> {
    if query.metadata.op_code != OpCode::Query {
        return Err(ResponseCode::NotImp);
    }
    if query.edns.as_ref().is_some_and(|edns| edns.version() > 0) {
        return Err(ResponseCode::BADVERS);
    }
    match query.queries.as_slice() {
        [question] => Ok(question),
        _ => Err(ResponseCode::FormErr),
    }
}

/// The most bytes of an answer.
fn room_of(query: &Message, transport: DnsTransport) -> usize {
    let limit = match (transport, &query.edns) {
        (DnsTransport::Tcp, _) => u16::MAX,
        (DnsTransport::Udp, None) => UDP_BYTES_MIN,
        (DnsTransport::Udp, Some(edns)) => edns.max_payload().clamp(UDP_BYTES_MIN, UDP_BYTES_MAX),
    };
    usize::from(limit)
}

fn response_encode(query: &Message, answer: DnsAnswer, zone: &DnsZone) -> Option<Vec<u8>> {
    let mut metadata = Metadata::response_from_request(&query.metadata);
    metadata.response_code = answer.code;
    metadata.authoritative = answer.is_authoritative;
    metadata.truncation = answer.is_cut;
    let question = match query.queries.as_slice() {
        [question] => Some(question),
        _ => None,
    };
    let edns = query.edns.as_ref().map(|edns| edns.flags().dnssec_ok);
    encoded(&DnsResponse { metadata, question, edns, answer }, zone)
}

fn refusal_encode(metadata: Metadata, zone: &DnsZone) -> Option<Vec<u8>> {
    let answer = DnsAnswer::refusal(metadata.response_code);
    encoded(&DnsResponse { metadata, question: None, edns: None, answer }, zone)
}

fn encoded(response: &DnsResponse<'_>, zone: &DnsZone) -> Option<Vec<u8>> {
    let bytes = response.encode(&zone.origin);
    bytes.inspect_err(|error| tracing::error!(%error, "an answer of DNS cannot be encoded")).ok()
}
