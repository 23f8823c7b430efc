//! Arguments of `borough names`, and those that `borough dev` has of them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use borough_names::dns::{DnsSettings, DnsZone, ZoneTimes};
use clap::Args;

use super::cluster::dns_ttl;
use super::number::whole;
use super::role::StoreArguments;
use crate::exit::{Code, Failure};

const CELLS_HELP: &str = "Serve only these cells, with commas between [default: every cell of the store, also those that come later]";

/// Arguments of `borough names`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("cells", |cells| cells.required(false).help(CELLS_HELP)))]
pub struct NamesArguments {
    #[command(flatten)]
    pub store: StoreArguments,
    /// Answer DNS here, over UDP and TCP
    #[arg(long, default_value = "127.0.0.1:7453", value_name = "ADDR")]
    pub dns_listen: SocketAddr,
    /// Answer HTTP here: the catalogue, targets for Prometheus, health and metrics
    #[arg(long, default_value = "127.0.0.1:7404", value_name = "ADDR")]
    pub http_listen: SocketAddr,
    /// Answer xDS here
    #[arg(long, default_value = "127.0.0.1:7405", value_name = "ADDR")]
    pub xds_listen: SocketAddr,
    #[command(flatten)]
    pub zone: ZoneArguments,
}

/// The zone of DNS.
#[derive(Clone, Debug, Args)]
pub struct ZoneArguments {
    /// Answer DNS for this zone
    #[arg(long, default_value = "borough.internal", value_name = "NAME")]
    pub zone: String,
    /// Name these servers as those of the zone, with commas between [default: the address that answers, unless it
    /// stands for all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub nameserver: Vec<String>,
    /// Let resolvers keep an answer for this time, such as 5s [default: that of each cell]
    #[arg(long, value_name = "TIME", value_parser = dns_ttl)]
    pub dns_ttl: Option<Duration>,
    /// Let resolvers keep for this time that a name has no records [default: that of each cell]
    #[arg(long, value_name = "TIME", value_parser = dns_ttl)]
    pub dns_negative_ttl: Option<Duration>,
    /// Answer this many questions over UDP per second and network of clients, /24 or /56; 0: no limit
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = whole(0..=10_000_000_u32))]
    pub dns_rate: u32,
}

impl ZoneArguments {
    /// The settings of DNS that is served at `address`.
    pub(crate) fn settings(&self, address: IpAddr) -> Result<DnsSettings, Failure> {
        // Nobody reaches a server at the address that stands for all.
        let own = if address.is_unspecified() { Vec::new() } else { vec![address] };
        let times = ZoneTimes { ttl: self.dns_ttl, negative_ttl: self.dns_negative_ttl };
        let zone = DnsZone::new(&self.zone, own, times)
            .map_err(|error| Failure::new(Code::Usage, format!("--zone: {error}")))?;
        let zone = zone
            .with_nameservers(&self.nameserver)
            .map_err(|error| Failure::new(Code::Usage, format!("--nameserver: {error}")))?;
        Ok(DnsSettings { zone, rate: self.dns_rate })
    }
}
