//! The metrics of the name service.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

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
    pub(crate) ready: Gauge,
    endpoints: Family<CellLabel, Gauge>,
    services: Family<CellLabel, Gauge>,
    age_ms: Family<CellLabel, Gauge>,
    outage_since: Family<CellLabel, Gauge>,
    pub(crate) wakes: Gauge,
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

    pub(crate) fn dns_count(&self, transport: &'static str, result: DnsResult) {
        self.dns.get_or_create(&DnsLabels { transport, result: result.label() }).inc();
    }

    pub(crate) fn xds_refused_count(&self, resource: &'static str) {
        self.xds_refused.get_or_create(&ResourceLabel { resource }).inc();
    }

    /// Records how much the table of a cell has.
    pub(crate) fn sizes_set(&self, cell: &str, services: usize, endpoints: usize) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let label = CellLabel { cell: cell.to_owned() };
        self.services.get_or_create(&label).set(count(services));
        self.endpoints.get_or_create(&label).set(count(endpoints));
    }

    /// Records how old the table of a cell may be.
    pub(crate) fn age_set(&self, cell: &str, age: Duration, outage_since_ms: Option<i64>) {
        let label = CellLabel { cell: cell.to_owned() };
        self.age_ms.get_or_create(&label).set(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        self.outage_since.get_or_create(&label).set(outage_since_ms.unwrap_or_default());
    }

    /// The metrics as text.
    pub(crate) fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry.lock())?;
        Ok(text)
    }
}
