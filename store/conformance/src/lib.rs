//! The contract of `borough-kv` as a suite for any engine: the embedded one, FoundationDB, and both with faults.
//!
//! Only tests depend on this crate. The suite runs on the embedded engine in `store/kv/tests/conformance.rs`, and on a
//! cluster in `store/fdb/tests/conformance.rs`. `docs/conformance.md` says which case shows which rule.
//!
//! Each check works under its own prefix, so one shared cluster serves all of them. All randomness comes from one seed,
//! which a failure names. Models decide what an engine must do. They share no code with any engine: an ordered map in
//! program order, arithmetic on integers, and the conflict ranges as FoundationDB's source states them.

mod atomics;
mod conflicts;
mod cycle;
mod errors;
mod history;
mod limits;
mod metadata;
mod model;
mod options;
mod program;
mod ryw;
mod stamps;
mod versions;
mod watches;
mod whole;

use borough_kv::contract::{Engine, EngineTransaction, Isolation, KvError};
use std::sync::Arc;

use futures::future::BoxFuture;

use borough_kv::database::{Database, Idempotency, Retryable, Transaction};
use borough_kv::env::{Rng, SeededRng};
pub use metadata::run_old as metadata_version_of_old_read;
pub use program::{
    run_compared as programs_compared, run_edges as edges_checked, run_whole as programs_whole,
};

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Wrong {
    /// The store answered an error that the contract does not allow there.
    #[error("unexpected {0}")]
    Store(#[from] KvError),
    /// The store's answer differs from the model's.
    #[error("{0}")]
    Differs(String),
    /// The same, with the error that a transaction is too old. A machine that stalls for seconds causes that too.
    #[error("{0}")]
    Aged(String),
}

impl Retryable for Wrong {
    fn kv_error(&self) -> Option<&KvError> {
        match self {
            Self::Store(error) => Some(error),
            Self::Differs(_) | Self::Aged(_) => None,
        }
    }
}

pub(crate) type Check = Result<(), Wrong>;

/// Fails a check unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($detail:tt)+) => {
        if !$condition {
            return Err($crate::Wrong::Differs(format!($($detail)+)));
        }
    };
}
pub(crate) use ensure;

/// The surroundings of a check: an engine, its own prefix, and a source of randomness.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) database: Database,
    pub(crate) prefix: Vec<u8>,
    pub(crate) rng: Arc<dyn Rng>,
    /// Whether the engine injects faults: errors may come anywhere and commits may happen twice.
    pub(crate) faulty: bool,
}

impl Context {
    #[expect(
        clippy::disallowed_methods,
        reason = "the suite looks at single transactions, without the runner"
    )]
    pub(crate) fn begin(&self) -> Arc<dyn EngineTransaction> {
        Arc::from(self.engine.begin())
    }

    /// A key under the prefix.
    pub(crate) fn key(&self, rest: &[u8]) -> Vec<u8> {
        [self.prefix.as_slice(), rest].concat()
    }

    /// The end of the keys under the prefix.
    pub(crate) fn end(&self) -> Vec<u8> {
        self.key(&[0xff; 12])
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.rng.next_u64() % bound).unwrap_or(0)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Every third read is a snapshot read.
    pub(crate) fn isolation_any(&self) -> Isolation {
        if self.once_in(3) { Isolation::Snapshot } else { Isolation::Serializable }
    }

    /// Up to `length` random bytes.
    pub(crate) fn bytes(&self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.rng.next_u64().to_le_bytes()[0]).collect()
    }

    /// Keys that never change, before and after those of [`Context::any_key`]. A selector with a small offset therefore
    /// stays within the prefix, whatever the neighbours are.
    pub(crate) fn fixed_keys(&self) -> Vec<Vec<u8>> {
        let sides = [b'b', b'y'].into_iter();
        sides
            .flat_map(|side| (b'0'..=b'9').map(move |digit| [side, digit]))
            .map(|rest| self.key(&rest))
            .collect()
    }

    /// A short key under the prefix, from few letters, so that keys collide.
    pub(crate) fn any_key(&self) -> Vec<u8> {
        const LETTERS: [u8; 5] = [0, 1, b'a', b'b', 0xfe];
        let letters =
            (0..self.below(4)).map(|_| LETTERS.get(self.below(LETTERS.len())).copied().unwrap_or(0));
        self.key(&std::iter::once(b'm').chain(letters).collect::<Vec<u8>>())
    }
}

/// A failed check, with the data to reproduce it.
#[derive(Debug, thiserror::Error)]
#[error("{check} fails with seed {seed}: {detail}")]
pub struct CheckFailure {
    pub check: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// The expected and the actual result.
    pub detail: String,
}

type CheckFunction = fn(Context) -> BoxFuture<'static, Check>;

/// Checks that hold exactly on an engine without faults.
const EXACT: &[(&str, CheckFunction)] = &[
    ("limits", |context| Box::pin(limits::check(context))),
    ("options", |context| Box::pin(options::check(context))),
    ("errors", |context| Box::pin(errors::check(context))),
    ("atomics", |context| Box::pin(atomics::check(context))),
    ("conflicts", |context| Box::pin(conflicts::check(context))),
    ("stamps", |context| Box::pin(stamps::check(context))),
    ("metadata version", |context| Box::pin(metadata::check(context))),
    ("versions", |context| Box::pin(versions::check(context))),
    ("watches", |context| Box::pin(watches::check(context))),
    ("programs", |context| Box::pin(program::check(context))),
];

/// Checks that hold with faults too, through the runner.
const TOLERANT: &[(&str, CheckFunction)] = &[
    ("own writes", |context| Box::pin(ryw::check(context))),
    ("cycle", |context| Box::pin(cycle::check(context))),
    ("history", |context| Box::pin(history::check(context))),
    ("all or nothing", |context| Box::pin(whole::check(context))),
    ("watch fires", |context| Box::pin(watches::fired(context))),
];

async fn run(
    checks: &[(&'static str, CheckFunction)],
    make_engine: &impl Fn() -> Arc<dyn Engine>,
    seed: u64,
    faulty: bool,
) -> Result<(), CheckFailure> {
    for (name, check) in checks {
        let engine = make_engine();
        let context = Context {
            database: Database::new(Arc::clone(&engine)),
            engine,
            prefix: format!("conformance/{seed:016x}/{name}/").into_bytes(),
            rng: SeededRng::shared(seed),
            faulty,
        };
        // A seed may be run again on the same cluster.
        let clear = |transaction: Transaction, _| {
            let context = context.clone();
            async move { Ok::<_, Wrong>(transaction.clear_range(&context.prefix, &context.end())?) }
        };
        let cleared = cycle::persist(|| context.database.run("clear", Idempotency::Natural, clear)).await;
        let result = match cleared {
            Ok(()) => check(context).await,
            Err(wrong) => Err(wrong),
        };
        // Shows keys without their common prefix.
        let detail =
            |wrong: Wrong| wrong.to_string().replace(&format!("conformance/{seed:016x}/{name}/"), "");
        result.map_err(|wrong| CheckFailure { check: name, seed, detail: detail(wrong) })?;
    }
    Ok(())
}

/// Runs every check against engines of `make_engine`, which injects no faults. A shared cluster may be used again and
/// again. Needs a Tokio runtime with time.
pub async fn run_all(make_engine: impl Fn() -> Arc<dyn Engine>, seed: u64) -> Result<(), CheckFailure> {
    run(EXACT, &make_engine, seed, false).await?;
    run(TOLERANT, &make_engine, seed, false).await
}

/// Runs the checks that hold under faults, against engines of `make_engine`, which may inject any.
pub async fn run_tolerant(make_engine: impl Fn() -> Arc<dyn Engine>, seed: u64) -> Result<(), CheckFailure> {
    run(TOLERANT, &make_engine, seed, true).await
}
