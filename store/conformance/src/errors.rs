//! Errors: which of them allow a retry, and what a transaction answers while its commit is in flight.

use futures::FutureExt as _;

use super::limits::expect;
use super::{Check, Context, ensure};
use borough_kv::contract::{ErrorCode, Isolation, KvError, TransactionOption};

pub(super) async fn check(context: Context) -> Check {
    retried(&context).await?;
    in_flight(&context).await
}

/// Every named code: either it allows a retry, or the same code is returned again and again.
async fn retried(context: &Context) -> Check {
    for code in ErrorCode::ALL.iter().copied() {
        let transaction = context.begin();
        transaction.set_option(TransactionOption::MaxRetryDelayMs(1))?;
        transaction.set(&context.key(b"forgotten"), b"")?;
        let answered = transaction.on_error(&KvError::new(code)).await;
        if code.is_retryable() {
            ensure!(answered.is_ok(), "{code:?} ends a transaction: {answered:?}");
            let committed = transaction.commit().await?;
            ensure!(committed.version.is_none(), "after {code:?} the writes of the attempt before are there");
            continue;
        }
        expect("a final error", answered, Some(code))?;
        expect(
            "what comes after it",
            transaction.get(&context.key(b""), Isolation::Snapshot).await,
            Some(code),
        )?;
        expect("its commit", transaction.commit().await, Some(code))?;
        transaction.reset();
        expect("a reset", transaction.get(&context.key(b""), Isolation::Snapshot).await, None)?;
    }
    Ok(())
}

/// During a commit, and after it, every operation fails. A reset ends that.
async fn in_flight(context: &Context) -> Check {
    let (key, used) = (context.key(b"in flight"), Some(ErrorCode::UsedDuringCommit));
    let transaction = context.begin();
    transaction.set(&key, b"1")?;
    let mut commit = transaction.commit();
    let early = (&mut commit).now_or_never();
    expect("a write", transaction.set(&key, b"2"), used)?;
    expect("a clear", transaction.clear(&key), used)?;
    expect("a read", transaction.get(&key, Isolation::Serializable).await, used)?;
    expect("a read version", transaction.read_version().await, used)?;
    expect("a watch", transaction.watch(&key).await.map(drop), used)?;
    expect("a second commit", transaction.commit().await, used)?;
    expect("an option", transaction.set_option(TransactionOption::RetryLimit(1)), used)?;
    match early {
        Some(committed) => committed?,
        None => commit.await?,
    };
    let found = context.begin().get(&key, Isolation::Snapshot).await?;
    ensure!(found.as_deref() == Some(b"1"), "what was committed: {found:?}");
    Ok(())
}
