//! Atomicity: one transaction writes many keys with one value, and no reader ever sees two values. On an engine that
//! shows a version before all of it is applied, a reader would see both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cycle::persist;
use super::{Check, Context, Wrong, ensure};
use borough_kv::database::{Idempotency, Transaction};

const KEYS: u16 = 400;
const ROUNDS: u32 = 40;
const READERS: usize = 3;

fn key(context: &Context, index: u16) -> Vec<u8> {
    context.key(&index.to_be_bytes())
}

async fn write(context: &Context, round: u32) -> Check {
    let write = |transaction: Transaction, _| {
        let context = context.clone();
        async move {
            let mut keys = (0..KEYS).map(|index| key(&context, index));
            Ok::<_, Wrong>(keys.try_for_each(|key| transaction.set(&key, &round.to_be_bytes()))?)
        }
    };
    persist(|| context.database.run("write", Idempotency::Natural, write)).await
}

/// Reads the two ends, the later one first, so that a half-applied commit shows.
async fn look(context: &Context) -> Check {
    let look = |transaction: Transaction, _| {
        let context = context.clone();
        async move {
            let last = transaction.get_snapshot(&key(&context, KEYS - 1)).await?;
            let first = transaction.get_snapshot(&key(&context, 0)).await?;
            let middle = transaction.get_snapshot(&key(&context, KEYS / 2)).await?;
            ensure!(first == last && first == middle, "one commit reads {first:?}, {middle:?} and {last:?}");
            Ok::<_, Wrong>(())
        }
    };
    persist(|| context.database.run("look", Idempotency::ReadOnly, look)).await
}

pub(super) async fn check(context: Context) -> Check {
    write(&context, 0).await?;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (context, done) = (context.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::SeqCst) {
                    look(&context).await?;
                    tokio::task::yield_now().await;
                }
                Ok::<(), Wrong>(())
            })
        })
        .collect();
    for round in 1..=ROUNDS {
        write(&context, round).await?;
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.map_err(|error| Wrong::Differs(format!("a reader ended: {error}")))??;
    }
    Ok(())
}
