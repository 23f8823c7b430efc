//! The zone: its name, its name servers and its times.

use std::net::IpAddr;
use std::time::Duration;

use borough_model::Name;
use hickory_proto::rr::Name as DnsName;

use super::name::address_label;
use crate::table::{AnswerTimes, NamesTable};

/// The most bytes of a zone's name on the wire. The longest name of a task then still fits into 255: 10 digits, and
/// three names of 63 characters, each with a byte for its length.
const ZONE_BYTES_MAX: usize = 255 - 11 - 3 * 64;

/// Why a text cannot name a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    #[error(
        "{text:?} is no domain name; accepted: labels of letters, digits and -, such as borough.example.org"
    )]
    NotAName { text: String },
    #[error("{text:?} is the root; accepted: a name with at least one label, such as borough.example.org")]
    Root { text: String },
    #[error(
        "{text:?} is too long; accepted: at most {most} characters, so that the longest name of a task fits",
        most = ZONE_BYTES_MAX - 2
    )]
    TooLong { text: String },
}

/// The zone that the name service is the authority for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsZone {
    pub(super) origin: DnsName,
    pub(super) nameservers: Vec<DnsName>,
    /// The addresses at which this process listens, so that the default name server has an address.
    pub(super) own: Vec<IpAddr>,
    times: ZoneTimes,
}

/// How long resolvers may keep answers, whatever the cells say. Absent: what they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneTimes {
    pub ttl: Option<Duration>,
    /// That a name has no records.
    pub negative_ttl: Option<Duration>,
}

/// A domain name of letters, digits, `-` and `_`, fully qualified.
fn name_parse(text: &str) -> Option<DnsName> {
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.bytes().all(fits)
    };
    let labels = text.strip_suffix('.').unwrap_or(text);
    let parsed = DnsName::from_ascii(text).ok().filter(|_| labels.split('.').all(is_label));
    parsed.map(|mut name| {
        name.set_fqdn(true);
        name.to_lowercase()
    })
}

impl DnsZone {
    /// The zone called `origin`, served at `own`.
    ///
    /// # Errors
    /// The text is no domain name, or too long a one.
    pub fn new(origin: &str, own: Vec<IpAddr>, times: ZoneTimes) -> Result<Self, ZoneError> {
        let text = || origin.to_owned();
        if origin.is_empty() || origin == "." {
            return Err(ZoneError::Root { text: text() });
        }
        let name = name_parse(origin).ok_or_else(|| ZoneError::NotAName { text: text() })?;
        if wire_len(&name) > ZONE_BYTES_MAX {
            return Err(ZoneError::TooLong { text: text() });
        }
        let mut zone = Self { origin: name, nameservers: Vec::new(), own, times };
        // A name server with a name of this zone: that of the address at which it listens.
        let own = zone.own.iter().filter_map(|own| zone.address_name(*own)).collect();
        zone.nameservers = own;
        Ok(zone)
    }

    /// The same zone with these name servers instead of its own addresses.
    ///
    /// # Errors
    /// A text is no domain name.
    pub fn with_nameservers(mut self, nameservers: &[String]) -> Result<Self, ZoneError> {
        let parse =
            |text: &String| name_parse(text).ok_or_else(|| ZoneError::NotAName { text: text.clone() });
        let nameservers: Vec<DnsName> = nameservers.iter().map(parse).collect::<Result<_, _>>()?;
        if !nameservers.is_empty() {
            self.nameservers = nameservers;
        }
        Ok(self)
    }

    /// How long resolvers may keep an answer about names of a cell, or about others.
    pub(super) fn times(&self, table: &NamesTable, cell: Option<&Name>) -> AnswerTimes {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX).min(i32::MAX as u32);
        let ZoneTimes { ttl, negative_ttl } = self.times;
        let of_cell = || table.times(cell);
        AnswerTimes {
            ttl_s: ttl.map_or_else(|| of_cell().ttl_s, seconds),
            negative_ttl_s: negative_ttl.map_or_else(|| of_cell().negative_ttl_s, seconds),
        }
    }

    /// The name of the zone.
    pub fn origin(&self) -> String {
        self.origin.to_ascii()
    }

    /// The name of an address: a label that no cell, user or job can have, below `0`.
    pub(super) fn address_name(&self, address: IpAddr) -> Option<DnsName> {
        self.named(&[&address_label(address), "0"])
    }

    /// The name with these labels in front of the zone's. `None` only for labels that are none.
    pub(super) fn named(&self, labels: &[&str]) -> Option<DnsName> {
        let name = DnsName::from_labels(labels.iter().map(|label| label.as_bytes())).ok()?;
        name.append_name(&self.origin).ok()
    }
}

/// The bytes of a name on the wire, without compression.
pub(super) fn wire_len(name: &DnsName) -> usize {
    name.iter().map(|label| label.len() + 1).sum::<usize>() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(text: &str) -> Result<DnsZone, ZoneError> {
        DnsZone::new(text, Vec::new(), ZoneTimes::default())
    }

    #[test]
    fn a_zone_is_a_name_that_leaves_room_for_every_task() {
        assert_eq!(zone("Borough.Example.ORG").unwrap().origin(), "borough.example.org.");
        let longest = format!("{}.a", "z".repeat(ZONE_BYTES_MAX - 2 - 2));
        assert_eq!(longest.len(), ZONE_BYTES_MAX - 2);
        let name = "n".repeat(63);
        let zone_of = zone(&longest).unwrap();
        let task = zone_of.named(&["4294967295", &name, &name, &name]).unwrap();
        assert_eq!(wire_len(&task), 255, "the longest name of a task");
        let port = zone_of.named(&["_99", "_tcp", &name, &name, &name]).unwrap();
        assert!(wire_len(&port) <= 255, "the longest name of a port by its number");
        assert!(matches!(zone(&format!("{longest}a")), Err(ZoneError::TooLong { .. })));
        assert!(matches!(zone("a b"), Err(ZoneError::NotAName { .. })));
        assert!(matches!(zone("a..b"), Err(ZoneError::NotAName { .. })));
        assert!(matches!(zone("."), Err(ZoneError::Root { .. })));
    }
}
