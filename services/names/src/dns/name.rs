//! What a name of the zone is the name of.
//!
//! Names of cells, users, jobs and ports are DNS labels that begin with a letter. All other labels of the zone begin
//! with a digit or `_`, except `svc` in front of a user: it is the parent of the user's merged services. A job may be
//! called `svc`. Below it are its tasks and `_tcp`, which do not begin with a letter, so that no two things have one
//! name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use borough_model::Name;
use hickory_proto::rr::Name as DnsName;

use crate::table::{MergedKey, ServiceKey};

/// The label between the name of a merged service and its user.
pub(super) const MERGED_LABEL: &str = "svc";

/// The owner of a name of the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZoneOwner {
    Apex,
    /// `0`: the parent of the names of addresses.
    Addresses,
    Address(IpAddr),
    Cell(Name),
    User {
        cell: Name,
        user: Name,
    },
    Service(ServiceKey),
    Task(ServiceKey, u32),
    /// `_tcp` of a service: the parent of its ports.
    Ports(ServiceKey),
    Port(ServiceKey, PortLabel),
    Merged(MergedKey),
    /// `_tcp` of a merged service.
    MergedPorts(MergedKey),
    MergedPort(MergedKey, PortLabel),
    /// Nothing can have this name.
    Nobody,
}

/// How a question names a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortLabel {
    Named(Name),
    /// By its place in the job file, from 0. A name of 63 characters is too long behind `_`.
    Placed(usize),
}

impl ZoneOwner {
    /// The cell whose name it is, or is below.
    pub(super) fn cell(&self) -> Option<&Name> {
        match self {
            Self::Apex | Self::Addresses | Self::Address(_) | Self::Nobody => None,
            Self::Cell(cell) | Self::User { cell, .. } => Some(cell),
            Self::Service(key) | Self::Task(key, _) | Self::Ports(key) | Self::Port(key, _) => {
                Some(&key.cell)
            }
            Self::Merged(key) | Self::MergedPorts(key) | Self::MergedPort(key, _) => Some(&key.cell),
        }
    }

    /// The service whose name it is, or is below.
    pub(super) fn service(&self) -> Option<&ServiceKey> {
        match self {
            Self::Service(key) | Self::Task(key, _) | Self::Ports(key) | Self::Port(key, _) => Some(key),
            Self::Apex
            | Self::Addresses
            | Self::Address(_)
            | Self::Cell(_)
            | Self::User { .. }
            | Self::Merged(_)
            | Self::MergedPorts(_)
            | Self::MergedPort(..)
            | Self::Nobody => None,
        }
    }

    /// The owner of `name`; `None` outside of the zone.
    pub(super) fn of(name: &DnsName, origin: &DnsName) -> Option<Self> {
        if !origin.zone_of(name) {
            return None;
        }
        let own = usize::from(name.num_labels()).saturating_sub(usize::from(origin.num_labels()));
        let mut labels: Vec<String> = Vec::with_capacity(own);
        for label in name.iter().take(own) {
            // No other byte is in a name of ours.
            let Ok(label) = std::str::from_utf8(label) else { return Some(Self::Nobody) };
            labels.push(label.to_ascii_lowercase());
        }
        labels.reverse();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        Some(Self::of_labels(&labels).unwrap_or(Self::Nobody))
    }

    /// The owner of labels, that next to the zone first.
    fn of_labels(labels: &[&str]) -> Option<Self> {
        let name = |text: &str| Name::new(text).ok();
        Some(match labels {
            [] => Self::Apex,
            ["0"] => Self::Addresses,
            ["0", label] => Self::Address(address_of_label(label)?),
            [cell] => Self::Cell(name(cell)?),
            [cell, user] => Self::User { cell: name(cell)?, user: name(user)? },
            [cell, user, MERGED_LABEL, service, rest @ ..] if name(service).is_some() => {
                let key = MergedKey::of_texts(cell, user, service)?;
                match rest {
                    [] => Self::Merged(key),
                    ["_tcp"] => Self::MergedPorts(key),
                    ["_tcp", port] => Self::MergedPort(key, port_of_label(port)?),
                    _ => return None,
                }
            }
            [cell, user, job, rest @ ..] => {
                let key = ServiceKey::of_texts(cell, user, job)?;
                match rest {
                    [] => Self::Service(key),
                    ["_tcp"] => Self::Ports(key),
                    ["_tcp", port] => Self::Port(key, port_of_label(port)?),
                    [index] => Self::Task(key, number(index)?),
                    _ => return None,
                }
            }
        })
    }
}

/// A number in the one form that names have: without a sign or leading zeros.
fn number<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}

fn port_of_label(label: &str) -> Option<PortLabel> {
    let text = label.strip_prefix('_')?;
    if let Some(place) = number(text) {
        return Some(PortLabel::Placed(place));
    }
    Name::new(text).ok().map(PortLabel::Named)
}

/// The label of an address: its bytes in hexadecimal digits.
pub(super) fn address_label(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{:08x}", u32::from(address)),
        IpAddr::V6(address) => format!("{:032x}", u128::from(address)),
    }
}

fn address_of_label(label: &str) -> Option<IpAddr> {
    if !label.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match label.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(u32::from_str_radix(label, 16).ok()?))),
        32 => Some(IpAddr::V6(Ipv6Addr::from(u128::from_str_radix(label, 16).ok()?))),
        _ => None,
    }
}

/// The address of a reverse name, if it is that of one address.
pub(super) fn address_of_arpa(name: &DnsName) -> Option<IpAddr> {
    let net = name.parse_arpa_name().ok()?;
    (net.prefix_len() == net.max_prefix_len()).then(|| net.addr())
}
