//! The cycle: keys that form one ring, and concurrent transactions that each cut three links and join them again. Any
//! lost update or torn read splits the ring.

use std::future::Future;
use std::time::Duration;

use super::{Check, Context, Wrong, ensure};
use borough_kv::contract::ErrorCode;
use borough_kv::database::{Idempotency, Transaction};

const NODES: u16 = 12;
const WORKERS: usize = 4;
const TURNS: usize = 40;

/// A commit that answered 1031 has happened by then, or never will. This is much longer than what a fault plan allows.
const LATE_COMMIT: Duration = Duration::from_secs(1);

/// Waits until commits that answered 1031 are over.
pub(super) async fn late_commits_wait() {
    tokio::time::sleep(LATE_COMMIT).await;
}

/// Repeats an action until it answers. It must be a read, or a write that keeps the invariant however often it runs.
pub(super) async fn persist<T, F>(mut action: impl FnMut() -> F) -> Result<T, Wrong>
where
    F: Future<Output = Result<T, Wrong>>,
{
    loop {
        match action().await {
            // It may still happen, and must not collide with the next step.
            Err(Wrong::Store(error)) if error.code == ErrorCode::TransactionTimedOut => {
                late_commits_wait().await
            }
            result => return result,
        }
    }
}

async fn next(transaction: &Transaction, context: &Context, node: u16) -> Result<u16, Wrong> {
    let value = transaction.get(&context.key(&node.to_be_bytes())).await?;
    let bytes: Option<[u8; 2]> = value.as_deref().and_then(|value| value.try_into().ok());
    bytes.map(u16::from_be_bytes).ok_or_else(|| Wrong::Differs(format!("node {node} holds {value:?}")))
}

fn link(transaction: &Transaction, context: &Context, from: u16, to: u16) -> Check {
    Ok(transaction.set(&context.key(&from.to_be_bytes()), &to.to_be_bytes())?)
}

/// a → b → c → d becomes a → c → b → d.
async fn turn(transaction: &Transaction, context: &Context, first: u16) -> Check {
    let second = next(transaction, context, first).await?;
    // Another transaction may commit here, which the test needs.
    tokio::task::yield_now().await;
    let third = next(transaction, context, second).await?;
    tokio::task::yield_now().await;
    let fourth = next(transaction, context, third).await?;
    link(transaction, context, first, third)?;
    link(transaction, context, third, second)?;
    link(transaction, context, second, fourth)
}

async fn ring(transaction: &Transaction, context: &Context) -> Check {
    let mut node = 0;
    for step in 1..=NODES {
        node = next(transaction, context, node).await?;
        ensure!((node == 0) == (step == NODES), "back at the beginning after {step} of {NODES} links");
    }
    Ok(())
}

pub(super) async fn check(context: Context) -> Check {
    let fill = |transaction: Transaction, _| {
        let context = context.clone();
        async move { (0..NODES).try_for_each(|node| link(&transaction, &context, node, (node + 1) % NODES)) }
    };
    persist(|| context.database.run("fill", Idempotency::Natural, fill)).await?;
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let context = context.clone();
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    let first = u16::try_from(context.below(usize::from(NODES))).unwrap_or(0);
                    let turn = |transaction: Transaction, _| {
                        let context = context.clone();
                        async move { turn(&transaction, &context, first).await }
                    };
                    persist(|| context.database.run("turn", Idempotency::Natural, turn)).await?;
                    let look = |transaction: Transaction, _| {
                        let context = context.clone();
                        async move { ring(&transaction, &context).await }
                    };
                    persist(|| context.database.run("look", Idempotency::ReadOnly, look)).await?;
                }
                Ok::<(), Wrong>(())
            })
        })
        .collect();
    for worker in workers {
        worker.await.map_err(|error| Wrong::Differs(format!("a worker ended: {error}")))??;
    }
    Ok(())
}
