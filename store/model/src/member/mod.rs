//! A member cell: a cell that a federation knows, with the gateways by which it is reached. Nothing in the cell itself
//! reads this row.

mod seen;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::field_error::{FieldError, FieldErrors};
use crate::id::{MemberId, Name};

pub use seen::{
    MEMBER_LOOK_MS, MemberHealth, MemberProblem, MemberReport, MemberSeen, ProblemKind, member_health,
};

/// Most cells of a federation.
pub const MEMBERS_OF_FEDERATION_MAX: usize = 1_024;
/// Most gateways of a member cell that the federation tries.
pub const MEMBER_GATEWAYS_MAX: usize = 8;
/// Most labels of a member cell.
pub const MEMBER_LABELS_MAX: usize = 64;
/// Most bytes of the address of a gateway: a name of DNS has 253 at most.
const ADDRESS_BYTES_MAX: usize = 260;

/// What an operator says of a member cell.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MemberSpec {
    /// Addresses of its gateways, as `HOST:PORT`, in the order in which they are tried.
    pub gateways: Vec<String>,
    /// Where the cell is and what it is, such as `region=eu`.
    pub labels: BTreeMap<String, String>,
}

/// The row of a member cell, in the store of the federation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct MemberRow {
    /// Of this membership only: a cell that leaves and joins again has another.
    #[n(0)]
    pub id: MemberId,
    /// The name of the cell, which its gateways know it by.
    #[n(1)]
    pub cell: Name,
    /// As [`MemberSpec::gateways`].
    #[n(2)]
    pub gateways: Vec<String>,
    /// As [`MemberSpec::labels`].
    #[n(3)]
    pub labels: BTreeMap<String, String>,
    /// The federation gives it no new work. What it has goes on.
    #[n(4)]
    pub cordoned: bool,
    /// Counts the changes of this row.
    #[n(5)]
    pub revision: u64,
    /// Time of the federation's home, milliseconds since 1970.
    #[n(6)]
    pub joined_ms: i64,
    /// Time of the federation's home, milliseconds since 1970.
    #[n(7)]
    pub changed_ms: i64,
    /// Who made the last change: `user/<name>`.
    #[n(8)]
    pub changed_by: String,
    /// Its federated tasks go to other cells, as far as those have room. It gets no new ones.
    #[n(9)]
    #[cbor(default)]
    #[serde(default)]
    pub draining: bool,
}

/// Returns the spec, or an error for each field that cannot be accepted.
pub fn member_spec_check(spec: MemberSpec) -> Result<MemberSpec, Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    let count = spec.gateways.len();
    let fine = (1..=MEMBER_GATEWAYS_MAX).contains(&count);
    let accepted = format!("1 to {MEMBER_GATEWAYS_MAX} addresses as HOST:PORT");
    fields.require(fine, "gateways", format!("{count} addresses"), accepted);
    for (at, gateway) in spec.gateways.iter().take(MEMBER_GATEWAYS_MAX).enumerate() {
        let path = format!("gateways[{at}]");
        let accepted = "HOST:PORT, such as cell7.example.com:7400 or [::1]:7400";
        let (is_fine, is_twice) =
            (is_address(gateway), spec.gateways.iter().take(at).any(|before| before == gateway));
        // A wrong address that stands twice is one mistake.
        fields.require(is_fine || is_twice, &path, format!("{gateway:?}"), accepted);
        fields.require(!(is_fine && is_twice), &path, format!("{gateway:?}"), "each address once");
    }
    fields.labels("labels", &spec.labels, MEMBER_LABELS_MAX);
    fields.done()?;
    Ok(spec)
}

/// Whether a text is `HOST:PORT`. Whether the host exists is found by the first look.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_port =
        port.parse::<u16>().is_ok_and(|port| port > 0) && port.bytes().all(|byte| byte.is_ascii_digit());
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !host.is_empty() && host.bytes().all(is_part) && !is_no_ipv4(host)
        }
    };
    is_port && is_host && text.len() <= ADDRESS_BYTES_MAX
}

/// Whether a host ends in a number, as an IPv4 address does and no name of a host, and is no such address.
fn is_no_ipv4(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    is_number && host.parse::<std::net::Ipv4Addr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(gateways: &[&str], labels: &[(&str, &str)]) -> Vec<String> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let spec = MemberSpec { gateways: gateways.iter().map(|text| (*text).to_owned()).collect(), labels };
        let errors = member_spec_check(spec).err().unwrap_or_default();
        errors.into_iter().map(|error| format!("{}: {}", error.path, error.value)).collect()
    }

    #[test]
    fn a_member_has_addresses_and_labels() {
        let fine =
            ["cell7.example.com:7400", "127.0.0.1:1", "[::1]:65535", "build_1:7400", "10.0.0.1.example:1"];
        assert_eq!(refused(&fine, &[("region", "eu"), ("zone", "eu-1")]), Vec::<String>::new());
    }

    #[test]
    fn every_wrong_field_of_a_member_is_named() {
        assert_eq!(refused(&[], &[]), ["gateways: 0 addresses"]);
        assert_eq!(refused(&["a:1"; 9], &[])[0], "gateways: 9 addresses");
        assert_eq!(refused(&["a:1", "a:1"], &[]), ["gateways[1]: \"a:1\""]);
        assert_eq!(refused(&["", ""], &[]), ["gateways[0]: \"\""], "one mistake is named once");
        for bad in [
            "",
            "host",
            "host:",
            ":7400",
            "host:0",
            "host:65536",
            "host:+1",
            "[::g]:1",
            "::1:7400",
            "a b:1",
            "http://a:1",
            "999.1.1.1:5",
            "10.0.0:7400",
            "10.0.0.1.2:7400",
            "7400:7400",
        ] {
            assert_eq!(refused(&[bad], &[]), [format!("gateways[0]: {bad:?}")]);
        }
        assert_eq!(refused(&["a:1"], &[("a b", "x")]).len(), 1);
    }
}
