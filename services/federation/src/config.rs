//! The configuration of a federation process.

use borough_client::Client;
use borough_kv::secret::Secret;
use borough_model::member::MemberRow;
use borough_store::CellSpace;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Settings of one federation process.
#[derive(Clone, Debug)]
pub struct FederationConfig {
    /// The cell that is the home of the federation.
    pub space: CellSpace,
    /// Its name in the lease, unique to this process.
    pub holder: String,
    /// Milliseconds without a heartbeat after which another process may lead.
    pub lease_ms: u64,
    /// The generation of the store: leases of an older one are void.
    pub generation: u64,
    pub metrics: FederationMetrics,
}

/// Makes the clients by which a federation reaches its members: it knows their credentials.
pub trait MemberClients: Send + Sync {
    /// The token for a member. It is asked for before each look, so that another one counts from the next look on.
    ///
    /// # Errors
    /// A text for the operator: what is wrong with the credential, and where it is.
    fn credential(&self, member: &MemberRow) -> Result<Secret, String>;

    /// A client of one gateway of a member, for its cell.
    ///
    /// # Errors
    /// A text for the operator: why there is none.
    fn client(&self, member: &MemberRow, gateway: &str, credential: &Secret) -> Result<Client, String>;
}

/// What a federation process says of itself in `/metrics`.
#[derive(Clone, Debug, Default)]
pub struct FederationMetrics {
    /// Looks at member cells that brought a report.
    pub looks: Counter,
    /// Looks that brought none.
    pub looks_failed: Counter,
    /// Members without a report in the last round; 0 while another process leads.
    pub members_unknown: Gauge,
    /// Members at the last round; 0 while another process leads.
    pub members: Gauge,
    /// Federated jobs; 0 while another process leads.
    pub jobs: Gauge,
    /// Promises to cells that they have not taken; 0 while another process leads.
    pub promises_open: Gauge,
}

impl FederationMetrics {
    /// Adds them to what is shown.
    pub fn register(&self, registry: &mut Registry) {
        let looks = "Looks at member cells that brought a report";
        registry.register("borough_federation_looks", looks, self.looks.clone());
        let failed = "Looks at member cells that brought none";
        registry.register("borough_federation_looks_failed", failed, self.looks_failed.clone());
        let unknown = "Member cells of which nothing is known now, at the process that leads";
        registry.register("borough_federation_members_unknown", unknown, self.members_unknown.clone());
        let members = "Member cells, at the process that leads";
        registry.register("borough_federation_members", members, self.members.clone());
        let jobs = "Federated jobs, at the process that leads";
        registry.register("borough_federation_jobs", jobs, self.jobs.clone());
        let open = "Promises to cells that they have not taken, at the process that leads";
        registry.register("borough_federation_promises_open", open, self.promises_open.clone());
    }
}
