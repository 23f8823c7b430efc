//! The closed registry of key kinds: one number per kind, never used again for another one.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What a key is about. Its code follows the cell in the key, and is the first byte of the value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum KeyKind {
            $($(#[$doc])* $name = $code,)*
        }

        impl KeyKind {
            /// Every kind, in the order of codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The kind of a code; `None` if the code is free or retired.
            pub fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// The name of the kind in errors and tools.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

kinds! {
    /// Settings of the cell.
    CellMeta = 1, "meta";
    /// Store epoch, and whether the cell is open.
    CellGate = 2, "cell_gate";
    /// How far the import of the cell is, or which export it came from.
    Import = 3, "import";
    /// What a gateway says of itself, and of the nodes that it vouches for.
    GatewayLive = 4, "gateway_live";

    /// What a node is.
    Node = 10, "node";
    /// The commitment of a node: its concurrency token.
    NodeAlloc = 11, "node_alloc";
    /// Which tasks are charged to a node.
    NodeTask = 12, "node_tasks";
    /// A node's coarse lease.
    NodeLive = 13, "node_live";
    /// The node's expected use of resources.
    NodeReserved = 14, "node_reserved";
    /// Maps a node's name to its id.
    NodeName = 15, "node_name";
    /// The load of a node, as its agent measures it.
    NodeLoad = 16, "node_load";
    /// The session of a node's agent: the fence for what gateways write for the node.
    NodeSession = 17, "node_session";
    /// The place of a node in the order of changes of liveness.
    NodeLiveAt = 18, "node_live_at";
    /// Nodes in the order in which their liveness last changed.
    NodeLiveChange = 19, "node_live_change";

    /// Maps a job's name to its id.
    JobName = 20, "job";
    /// A version of a job's spec.
    JobSpec = 21, "job_spec";
    /// Fails placements in flight when a job is stopped, shrinks or changes its spec.
    JobGate = 22, "job_gate";
    /// A job's row.
    JobRow = 23, "job_row";
    /// Every job that had a name, by the time of submission.
    JobPast = 24, "job_past";

    /// A task's row.
    Task = 30, "task";
    /// The token of a constraint over several nodes.
    Constraint = 31, "constraint";
    /// A gang.
    Gang = 32, "gang";

    /// A quota.
    Quota = 40, "quota";
    /// What is admitted under a quota.
    QuotaUsed = 41, "quota_used";
    /// Counters of releases since admission last folded them in.
    QuotaReleased = 42, "quota_released";
    /// What each line grants, by the group right above it.
    QuotaBelow = 43, "quota_below";

    /// A task's endpoint.
    Name = 50, "name";
    /// A stamp that changes with every endpoint of a job.
    NameRevision = 51, "name_rev";
    /// A merged service.
    MergedService = 52, "merged_service";

    /// A member cell of a federation.
    Member = 53, "member";
    /// What was last seen of a member cell.
    MemberSeen = 54, "member_seen";
    /// A federated job.
    FederatedJob = 55, "federated_job";
    /// A version of a federated job.
    FederatedVersion = 56, "federated_version";
    /// What was promised to a cell of a federated job.
    FederatedPart = 57, "federated_part";
    /// How a federated job was last divided.
    FederatedStatus = 58, "federated_status";

    /// A part of a journal entry.
    Journal = 60, "journal";
    /// The stamp of the last entry; watched.
    JournalHead = 61, "journal_head";
    /// The position up to which entries were trimmed.
    JournalFloor = 62, "journal_floor";

    /// The holder of a lease, and its epoch: read by protected transactions.
    Lease = 70, "lease";
    /// The holder's heartbeat: never read by protected transactions.
    LeaseBeat = 71, "lease_beat";
    /// The holder's report about itself.
    LeaseStatus = 72, "lease_status";
    /// Counts the changes of holders of a role's leases; watched.
    LeaseHead = 73, "lease_head";
    /// Among how many shards the jobs of a scheduler are divided.
    SchedulerPool = 74, "scheduler_pool";

    /// The result of a keyed request.
    Request = 80, "request";
    /// Keyed requests by the time they expire.
    RequestExpiry = 81, "request_expiry";

    /// Where a cell's keys are; in the federation's own space.
    FederationCell = 90, "federation_cell";
    /// Counts the openings of the store; in the federation's own space.
    StoreGeneration = 91, "store_generation";

    /// What a user or a group may do in the cell.
    AccessGrant = 100, "access_grant";
    /// Counts the changes of grants and quotas; watched.
    AccessHead = 101, "access_head";

    /// How far the audit is sealed.
    AuditHead = 110, "audit_head";
    /// A chunk of sealed calls.
    AuditChunk = 111, "audit_chunk";

    /// A question to the federation, and its answer; watched.
    FederatedQuestion = 120, "federated_question";
    /// Counts the questions; watched.
    FederatedQuestionHead = 121, "federated_question_head";

    /// The public half of a key that signs the identities of tasks.
    WorkloadKey = 130, "workload_key";
    /// The private half of such a key: a secret.
    WorkloadSigner = 131, "workload_signer";

    /// The join token and the identity of a node name, as digests.
    NodeJoin = 140, "node_join";
    /// Counts the identities that were ended or replaced; watched.
    NodeJoinHead = 141, "node_join_head";
}

impl KeyKind {
    /// Codes that no kind may use again. 0 and 255 are no codes.
    pub const RETIRED: &'static [u8] = &[0, 255];

    /// The kind's code.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for KeyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
