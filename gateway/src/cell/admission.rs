//! Counts the submissions that a gateway admits together.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// What became of the submissions that went into shared transactions.
#[derive(Debug, Default)]
pub struct AdmissionUse {
    pub(crate) transactions: Counter,
    pub(crate) jobs: Counter,
    pub(crate) halved: Counter,
    pub(crate) alone: Counter,
    pub(crate) refused: Counter,
}

impl AdmissionUse {
    /// Shows the counters of `cell` in `registry`.
    pub fn register(&self, cell: &str, registry: &mut Registry) {
        let label = ("cell".into(), cell.to_owned().into());
        let registry = registry.sub_registry_with_prefix("borough_admission").sub_registry_with_label(label);
        let help = "Transactions that committed and admitted one job or more";
        registry.register("transactions", help, self.transactions.clone());
        registry.register("jobs", "Jobs that such transactions admitted", self.jobs.clone());
        let help = "Shared transactions that lost, or did not fit, and went on as two halves";
        registry.register("halved", help, self.halved.clone());
        let help = "Submissions that were decided in a transaction of their own after a shared one";
        registry.register("alone", help, self.alone.clone());
        let help = "Submissions refused because too many of their user waited";
        registry.register("refusals", help, self.refused.clone());
    }
}
