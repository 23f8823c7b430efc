//! How many connections a gateway takes, from the command line and the limit of open files.

use std::num::NonZeroUsize;
use std::time::Duration;

use borough_gateway::{CallLimits, ConnectionLimits, IdentityUrl, SEATS_MIN, WebOrigin};
use clap::Args;

use super::number::whole;

use crate::exit::{Code, Failure};

/// Descriptors that a role needs besides those of connections.
const OWN_MIN: u64 = 32;

/// How many connections a gateway takes.
#[derive(Clone, Debug, Args)]
pub struct ConnectionArguments {
    /// Take at most this many connections of gRPC and HTTP [default: what the limit of open files leaves]
    #[arg(long, value_name = "N", value_parser = whole(16..=u32::MAX))]
    pub connections_max: Option<u32>,
    /// Let at most this many of them be without a valid token [default: a quarter]
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    pub unauthenticated_max: Option<u32>,
    /// Let at most this many of those come from one address or IPv6 /64 [default: half of them]
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    pub unauthenticated_per_peer_max: Option<u32>,
    /// Close a connection without a valid token after this many milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS", value_parser = whole(100..=600_000_u64))]
    pub unauthenticated_ms: u64,
    /// Work on at most this many calls of gRPC at once, with a share for each class of calls [default: 512]
    #[arg(long, value_name = "N", value_parser = whole(SEATS_MIN..=1_000_000))]
    pub calls_max: Option<u32>,
    /// Let web pages of this origin call the gateway, such as `https://console.example.com`; may be repeated
    #[arg(long = "web-origin", value_name = "ORIGIN")]
    pub web_origins: Vec<WebOrigin>,
    /// Say in identities of tasks that the HTTP of the cells' gateways is reached at this URL, such as
    /// `https://cells.example.com`; the same for all gateways of a cell [default: `https://borough.internal`]
    #[arg(long, value_name = "URL")]
    pub identity_url: Option<IdentityUrl>,
}

impl ConnectionArguments {
    /// The limits of a process with so many descriptors. Refuses settings that need more.
    pub(crate) fn limits(&self, descriptors: u64) -> Result<ConnectionLimits, Failure> {
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let mut limits = match self.connections_max {
            None => ConnectionLimits::of_descriptors(descriptors),
            Some(total) if u64::from(total).saturating_add(OWN_MIN) > descriptors => {
                let most = descriptors.saturating_sub(OWN_MIN);
                let text = format!(
                    "--connections-max {total} needs more open files than this process may have ({descriptors})"
                );
                let hint = format!("accepted: at most {most}; raise the hard limit (`ulimit -Hn`) for more");
                return Err(Failure::new(Code::Usage, text).with_hint(hint));
            }
            Some(total) => ConnectionLimits::of_total(count(total)),
        };
        if let Some(unauthenticated) = self.unauthenticated_max {
            limits.unauthenticated = count(unauthenticated).min(limits.total);
            limits.unauthenticated_per_peer = limits.unauthenticated.div_ceil(2);
        }
        if let Some(per_peer) = self.unauthenticated_per_peer_max {
            limits.unauthenticated_per_peer = count(per_peer).min(limits.unauthenticated);
        }
        limits.unauthenticated_for = Duration::from_millis(self.unauthenticated_ms);
        if let Some(calls) = self.calls_max {
            limits.calls = CallLimits::of_seats(calls);
        }
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        limits.calls = limits.calls.on_processors(processors);
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(total: Option<u32>, all: Option<u32>, peer: Option<u32>) -> ConnectionArguments {
        ConnectionArguments {
            connections_max: total,
            unauthenticated_max: all,
            unauthenticated_per_peer_max: peer,
            unauthenticated_ms: 500,
            calls_max: None,
            web_origins: Vec::new(),
            identity_url: None,
        }
    }

    #[test]
    fn limits_are_those_given_or_follow_from_the_descriptors() {
        let limits = arguments(None, None, None).limits(1_024).unwrap();
        assert_eq!(limits.total, ConnectionLimits::of_descriptors(1_024).total);
        assert_eq!(limits.unauthenticated_for, Duration::from_millis(500));
        let limits = arguments(Some(100), Some(40), Some(90)).limits(1_024).unwrap();
        assert_eq!((limits.total, limits.unauthenticated, limits.unauthenticated_per_peer), (100, 40, 40));
        let refused = arguments(Some(1_000), None, None).limits(1_024).unwrap_err();
        assert_eq!(refused.code(), Code::Usage);
        assert!(refused.hint().unwrap().contains("at most 992"), "{refused:?}");
    }
}
