//! The metrics of the name service.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::dns::DnsTransport;
use crate::service::NamesShared;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CellLabel {
    cell: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DnsLabels {
    transport: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabel {
    resource: &'static str,
}

/// How a question of DNS ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DnsResult {
    Answered,
    /// Records were missing for want of room.
    Cut,
    NoSuchName,
    Refused,
    Failed,
    /// It was no question.
    Dropped,
    /// The client's network has asked too often.
    Limited,
}

impl DnsResult {
    /// The result of a packet.
    pub(crate) fn of(answer: Option<&[u8]>) -> Self {
        let Some([_, _, flags, code, ..]) = answer else { return Self::Dropped };
        match code & 0x0f {
            0 if flags & 0x02 != 0 => Self::Cut,
            0 => Self::Answered,
            3 => Self::NoSuchName,
            5 => Self::Refused,
            _ => Self::Failed,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Cut => "cut",
            Self::NoSuchName => "no_such_name",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Limited => "limited",
        }
    }
}

/// The metrics of the name service. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NamesMetrics {
    registry: Arc<Mutex<Registry>>,
    pub(crate) changes: Counter,
    dns: Family<DnsLabels, Counter>,
    pub(crate) http_requests: Counter,
    pub(crate) xds_streams: Gauge,
    pub(crate) xds_responses: Counter,
    xds_refused: Family<ResourceLabel, Counter>,
    ready: Gauge,
    endpoints: Family<CellLabel, Gauge>,
    services: Family<CellLabel, Gauge>,
    age_ms: Family<CellLabel, Gauge>,
    outage_since: Family<CellLabel, Gauge>,
    wakes: Gauge,
}

impl NamesMetrics {
    /// Shows the metrics in `registry`.
    pub(crate) fn new(mut registry: Registry) -> Self {
        let (changes, dns, http_requests) = (Counter::default(), Family::default(), Counter::default());
        let (xds_streams, xds_responses) = (Gauge::default(), Counter::default());
        let (xds_refused, ready, wakes) = (Family::default(), Gauge::default(), Gauge::default());
        let (endpoints, services) = (Family::default(), Family::default());
        let (age_ms, outage_since) = (Family::default(), Family::default());
        let names = registry.sub_registry_with_prefix("borough_names");
        names.register("changes", "Changes of services in the table", changes.clone());
        names.register("dns_questions", "Questions of DNS, by transport and result", Family::clone(&dns));
        names.register("http_requests", "Requests of HTTP", http_requests.clone());
        names.register("xds_streams", "Streams of xDS that are open", xds_streams.clone());
        names.register("xds_responses", "Responses sent over xDS", xds_responses.clone());
        let help = "Responses that a client of xDS has refused, by type of resource";
        names.register("xds_refused", help, Family::clone(&xds_refused));
        names.register("ready", "1 once every cell was read", ready.clone());
        names.register("endpoints", "Published endpoints", Family::clone(&endpoints));
        names.register("services", "Services in the table", Family::clone(&services));
        let help = "Milliseconds since the store was last read to the end of the journal";
        names.register("age_milliseconds", help, Family::clone(&age_ms));
        let help = "When the outage of the store began, in milliseconds since 1970; 0 while it answers";
        names.register("outage_since_milliseconds", help, Family::clone(&outage_since));
        names.register("wakes", "How often somebody who follows a service was woken", wakes.clone());
        let registry = Arc::new(Mutex::new(registry));
        Self {
            registry,
            changes,
            dns,
            http_requests,
            xds_streams,
            xds_responses,
            xds_refused,
            ready,
            endpoints,
            services,
            age_ms,
            outage_since,
            wakes,
        }
    }

    pub(crate) fn dns_count(&self, transport: DnsTransport, result: DnsResult) {
        let transport = match transport {
            DnsTransport::Udp => "udp",
            DnsTransport::Tcp => "tcp",
        };
        self.dns.get_or_create(&DnsLabels { transport, result: result.label() }).inc();
    }

    pub(crate) fn xds_refused_count(&self, resource: &'static str) {
        self.xds_refused.get_or_create(&ResourceLabel { resource }).inc();
    }
}

impl NamesShared {
    /// The metrics as text, as of now.
    pub(crate) fn metrics_text(&self) -> Result<String, fmt::Error> {
        let metrics = &self.metrics;
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        metrics.ready.set(i64::from(self.is_ready()));
        metrics.wakes.set(i64::try_from(self.hub.wakes()).unwrap_or(i64::MAX));
        let sizes = self.read(|table| {
            let size = |cell: &crate::table::CellTable| {
                let services = cell.services().count();
                let endpoints = cell.services().map(|(_, service)| service.endpoints().len()).sum::<usize>();
                (cell.name().to_string(), services, endpoints)
            };
            table.cells().map(size).collect::<Vec<_>>()
        });
        for (cell, services, endpoints) in sizes.into_iter().flatten() {
            let label = CellLabel { cell };
            metrics.services.get_or_create(&label).set(count(services));
            metrics.endpoints.get_or_create(&label).set(count(endpoints));
        }
        for (cell, age) in self.ages() {
            let label = CellLabel { cell: cell.to_string() };
            metrics.age_ms.get_or_create(&label).set(i64::try_from(age.age.as_millis()).unwrap_or(i64::MAX));
            metrics.outage_since.get_or_create(&label).set(age.outage_since_ms.unwrap_or_default());
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics.registry.lock())?;
        Ok(text)
    }
}
