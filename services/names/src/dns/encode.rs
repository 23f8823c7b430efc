//! A response as bytes.
//!
//! The encoder of `hickory-proto` compresses 120 names of a message, which is right for a resolver and too few for
//! answers of a thousand records. This one writes names of the zone as their own labels and a pointer into the
//! question. Names inside of records are written whole, as RFC 2782 wants it for the targets of SRV records.

use hickory_proto::ProtoError;
use hickory_proto::op::{Header, HeaderCounts, Metadata, Query};
use hickory_proto::rr::{Name as DnsName, Record};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder, NameEncoding};

use super::answer::DnsAnswer;
use super::zone::wire_len;

/// Bytes of a header: the question's name follows it.
pub(super) const HEADER_BYTES: usize = 12;
/// Bytes of an OPT record without options.
pub(super) const OPT_BYTES: usize = 11;
/// The type of an OPT record.
const OPT: u16 = 41;
/// The most bytes of an answer over UDP that this server sends and takes.
pub(super) const UDP_BYTES_MAX: u16 = 1_232;

/// A response before it is bytes.
pub(super) struct DnsResponse<'q> {
    pub(super) metadata: Metadata,
    pub(super) question: Option<&'q Query>,
    /// Whether the query had an OPT record, and its bit `DO`.
    pub(super) edns: Option<bool>,
    pub(super) answer: DnsAnswer,
}

/// The bytes that a name of the zone takes as the owner of a record, when the question is one of the zone.
pub(super) fn owner_bytes(name: &DnsName, origin: &DnsName) -> usize {
    wire_len(name).saturating_sub(wire_len(origin)) + 2
}

impl DnsResponse<'_> {
    /// The response as bytes.
    pub(super) fn encode(&self, origin: &DnsName) -> Result<Vec<u8>, ProtoError> {
        let DnsAnswer { answers, authorities, additionals, .. } = &self.answer;
        let count = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let counts = HeaderCounts {
            queries: u16::from(self.question.is_some()),
            answers: count(answers.len()),
            authorities: count(authorities.len()),
            additionals: count(additionals.len() + usize::from(self.edns.is_some())),
        };
        let mut bytes = Vec::with_capacity(512);
        emit(&Header { metadata: self.metadata, counts }, &mut bytes)?;
        let mut owners = OwnerNames { question: None, origin, suffix: None };
        if let Some(question) = self.question {
            emit(question, &mut bytes)?;
            owners.begin(&question.name);
        }
        let mut scratch = Vec::new();
        for record in answers.iter().chain(authorities).chain(additionals) {
            record_write(record, &owners, &mut scratch, &mut bytes)?;
        }
        if let Some(dnssec_ok) = self.edns {
            bytes.push(0);
            bytes.extend(OPT.to_be_bytes());
            bytes.extend(UDP_BYTES_MAX.to_be_bytes());
            let flags = if dnssec_ok { 0x80 } else { 0 };
            bytes.extend([self.metadata.response_code.high(), 0, flags, 0, 0, 0]);
        }
        Ok(bytes)
    }
}

/// Where names that a record may repeat are in the message.
struct OwnerNames<'a> {
    question: Option<&'a DnsName>,
    origin: &'a DnsName,
    /// The place of the zone's name, if the question is one of the zone.
    suffix: Option<u16>,
}

impl<'a> OwnerNames<'a> {
    fn begin(&mut self, question: &'a DnsName) {
        self.question = Some(question);
        if self.origin.zone_of(question) {
            let own = wire_len(question).saturating_sub(wire_len(self.origin));
            self.suffix = u16::try_from(HEADER_BYTES + own).ok();
        }
    }

    fn write(&self, name: &DnsName, bytes: &mut Vec<u8>) {
        let pointer = |place: u16| (0xc000 | place).to_be_bytes();
        if self.question == Some(name) {
            bytes.extend(pointer(u16::try_from(HEADER_BYTES).unwrap_or_default()));
            return;
        }
        let own = match self.suffix {
            Some(_) if self.origin.zone_of(name) => {
                usize::from(name.num_labels().saturating_sub(self.origin.num_labels()))
            }
            _ => usize::MAX,
        };
        for label in name.iter().take(own) {
            // A label of a name has at most 63 bytes.
            bytes.push(u8::try_from(label.len()).unwrap_or_default());
            bytes.extend_from_slice(label);
        }
        match self.suffix.filter(|_| own < usize::MAX) {
            Some(suffix) => bytes.extend(pointer(suffix)),
            None => bytes.push(0),
        }
    }
}

fn record_write(
    record: &Record,
    owners: &OwnerNames<'_>,
    scratch: &mut Vec<u8>,
    bytes: &mut Vec<u8>,
) -> Result<(), ProtoError> {
    owners.write(&record.name, bytes);
    bytes.extend(u16::from(record.record_type()).to_be_bytes());
    bytes.extend(u16::from(record.dns_class).to_be_bytes());
    bytes.extend(record.ttl.to_be_bytes());
    scratch.clear();
    emit(&record.data, scratch)?;
    let length = u16::try_from(scratch.len()).map_err(|_| ProtoError::from("a record is too long"))?;
    bytes.extend(length.to_be_bytes());
    bytes.extend_from_slice(scratch);
    Ok(())
}

/// Writes something whole, without pointers.
fn emit(what: &impl BinEncodable, bytes: &mut Vec<u8>) -> Result<(), ProtoError> {
    let place = bytes.len();
    let mut encoder = BinEncoder::with_offset(bytes, u32::try_from(place).unwrap_or(u32::MAX));
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    what.emit(&mut encoder)
}
