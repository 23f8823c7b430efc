//! Makes a test process deterministic: with [`fix`], the standard library's hash maps and tokio's `select!` take the
//! same seeds in every run. Only simulations link it.
//!
//! The standard library calls the C function `getrandom` for the seeds of `RandomState`, in a way that lets a program
//! replace the function. Tokio seeds its generator from a `RandomState`. Without `tokio_unstable`, which would change
//! the build of every crate, no other way leads to that seed.

use std::cell::Cell;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// 0: the kernel's randomness.
static SEED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// From now on every new thread of this process gets the same bytes when it asks the kernel for randomness.
pub fn fix(seed: u64) {
    SEED.store(seed | 1, Ordering::SeqCst);
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
fn next(seed: u64) -> u64 {
    STATE.with(|state| {
        let counted = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(counted);
        let mixed = counted ^ seed;
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

fn fill(bytes: &mut [u8]) -> std::io::Result<()> {
    match SEED.load(Ordering::SeqCst) {
        0 => std::fs::File::open("/dev/urandom")?.read_exact(bytes),
        seed => {
            for chunk in bytes.chunks_mut(8) {
                let word = next(seed).to_le_bytes();
                chunk.copy_from_slice(&word[..chunk.len()]);
            }
            Ok(())
        }
    }
}

/// Replaces the C library's function of this name. Returns the number of bytes, or -1.
///
/// # Safety
/// `buffer` has space for `length` bytes, as the C function requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller keeps the C function's contract; the bytes are written before they are read.
    let bytes = unsafe {
        buffer.write_bytes(0, length);
        std::slice::from_raw_parts_mut(buffer, length)
    };
    match fill(bytes) {
        Ok(()) => isize::try_from(length).unwrap_or(isize::MAX),
        Err(_) => -1,
    }
}
