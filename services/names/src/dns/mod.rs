//! DNS over UDP and TCP: the names of services as SRV, A and AAAA records of one zone.
//!
//! An answer is a pure function of the table and the packet ([`packet_answer`]). The zone offers no recursion and no
//! transfer, and answers nothing about other zones.

mod answer;
mod encode;
mod kept;
mod limit;
mod name;
mod records;
mod server;
mod wire;
mod zone;

pub use answer::{DnsAnswer, answer};
pub use limit::{PrefixLimit, RateVerdict};
pub use server::{DnsListeners, DnsSettings, dns_serve};
pub use wire::{DnsTransport, packet_answer, packet_answer_cut};
pub use zone::{DnsZone, ZoneError, ZoneTimes};

#[cfg(test)]
mod tests;
