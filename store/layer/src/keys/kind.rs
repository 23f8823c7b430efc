//! The closed registry of key kinds: a number per kind, never used again for another one.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What a key is about. Its code stands in the key after the cell, and as the first byte of the value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum KeyKind {
            $($(#[$doc])* $name = $code,)*
        }

        impl KeyKind {
            /// Every kind, in the order of codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The kind of a code, or `None` for a code that is free or retired.
            pub fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// The name by which errors and tools speak of the kind.
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

    /// What a node is.
    Node = 10, "node";
    /// What is committed on a node: its concurrency token.
    NodeAlloc = 11, "node_alloc";
    /// Which tasks are charged to a node.
    NodeTask = 12, "node_tasks";
    /// A node's coarse lease.
    NodeLive = 13, "node_live";
    /// A node's reclaimed view.
    NodeReserved = 14, "node_reserved";
    /// A node's name, to its id.
    NodeName = 15, "node_name";
    /// A node's real load, as its agent measures it.
    NodeLoad = 16, "node_load";
    /// The session of a node's agent: the fence of what gateways write for the node.
    NodeSession = 17, "node_session";

    /// A job's name, to its id.
    JobName = 20, "job";
    /// A version of a job's spec.
    JobSpec = 21, "job_spec";
    /// What fails placements in flight when a job is stopped, shrinks or changes its spec.
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
    /// What was released since admission last folded it in: counters.
    QuotaReleased = 42, "quota_released";

    /// A task's endpoint.
    Name = 50, "name";
    /// A stamp that changes with any endpoint of a job.
    NameRevision = 51, "name_rev";

    /// A part of a journal entry.
    Journal = 60, "journal";
    /// The stamp of the last entry; watched.
    JournalHead = 61, "journal_head";
    /// Up to where entries were trimmed.
    JournalFloor = 62, "journal_floor";

    /// Who holds a lease, and its epoch: read by protected transactions.
    Lease = 70, "lease";
    /// The holder's heartbeat: never read by protected transactions.
    LeaseBeat = 71, "lease_beat";
    /// What the holder says of itself.
    LeaseStatus = 72, "lease_status";

    /// The result of a keyed request.
    Request = 80, "request";
    /// Keyed requests by the time they expire.
    RequestExpiry = 81, "request_expiry";

    /// Where a cell is; in the federation's own space.
    FederationCell = 90, "federation_cell";
    /// Which opening of the store this is; in the federation's own space.
    StoreGeneration = 91, "store_generation";
}

impl KeyKind {
    /// Codes that had a meaning once and are never given another. 0 and 255 are no codes.
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
