//! The outside world as arguments: clocks and randomness. Measure with `monotonic`, persist and show `wall`.
//!
//! An [`Rng`] is for ids, jitter and searches. Tokens and everything else that must not be computable come from
//! [`crate::secret`] only.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::{RngCore, SeedableRng};
use rand_chacha::{ChaCha8Rng, ChaCha20Rng};

/// A source of time. It does not wait: that belongs to the runtime.
pub trait Clock: Send + Sync + 'static {
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
    /// Milliseconds since 1970. That of a machine may jump, so roles decide by the time of the cell: their clocks
    /// return it here.
    fn wall_ms(&self) -> i64;
}

/// A source of random bits for ids, jitter and searches; never for a secret ([`crate::secret::Secret`]).
pub trait Rng: Send + Sync + 'static {
    /// The next 64 bits.
    fn next_u64(&self) -> u64;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock that counts from now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self { start: std::time::Instant::now() })
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn wall_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock that only moves when a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    monotonic_us: AtomicU64,
    wall_ms: AtomicI64,
}

impl ManualClock {
    /// A clock at `wall_ms`.
    pub fn at(wall_ms: i64) -> Arc<Self> {
        Arc::new(Self { monotonic_us: AtomicU64::new(0), wall_ms: AtomicI64::new(wall_ms) })
    }

    /// Moves both clocks on.
    pub fn advance(&self, by: Duration) {
        self.monotonic_us.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
        self.wall_ms.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.monotonic_us.load(Ordering::SeqCst))
    }

    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }
}

/// Random bits from a 256-bit seed of the kernel: an observer of some bits cannot compute the others. Every role uses
/// it; a run cannot be repeated from it.
#[derive(Debug)]
pub struct SystemRng(Mutex<ChaCha20Rng>);

impl SystemRng {
    /// A generator with a seed of its own.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that asks the kernel for the seed of a role"
    )]
    pub fn shared() -> Arc<dyn Rng> {
        let mut seed = [0; 32];
        // Without the kernel's randomness the process must still run: ids then depend on the pid and the store. Secrets
        // do not come from here, and fail instead.
        if getrandom::fill(&mut seed).is_err() {
            seed[..4].copy_from_slice(&std::process::id().to_le_bytes());
        }
        Arc::new(Self(Mutex::new(ChaCha20Rng::from_seed(seed))))
    }
}

impl Rng for SystemRng {
    fn next_u64(&self) -> u64 {
        self.0.lock().next_u64()
    }
}

/// Random bits from a 64-bit seed: the same seed gives the same bits. For tests, simulations and load generators.
#[derive(Debug)]
pub struct SeededRng(Mutex<ChaCha8Rng>);

impl SeededRng {
    /// A generator from `seed`.
    pub fn shared(seed: u64) -> Arc<dyn Rng> {
        Arc::new(Self(Mutex::new(ChaCha8Rng::seed_from_u64(seed))))
    }

    /// A generator seeded by the kernel. Log the seed if the run should be repeatable.
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the kernel for a seed")]
    pub fn from_kernel() -> (Arc<dyn Rng>, u64) {
        let mut bytes = [0; 8];
        // Without the kernel's randomness the process must still run; unique ids then depend on the pid and the store.
        if getrandom::fill(&mut bytes).is_err() {
            bytes = u64::from(std::process::id()).to_le_bytes();
        }
        let seed = u64::from_le_bytes(bytes);
        (Self::shared(seed), seed)
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        self.0.lock().next_u64()
    }
}

/// A number in [0, 1) from random bits.
pub(crate) fn fraction(bits: u64) -> f64 {
    let mantissa = u32::try_from(bits >> 32).unwrap_or(0);
    f64::from(mantissa) / (f64::from(u32::MAX) + 1.0)
}
