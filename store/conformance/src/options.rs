//! Options: the effect of each, and the refusal of unsupported ones by name.

use super::{Check, Context, ensure};
use borough_kv::contract::{ErrorCode, Isolation, KvError, TransactionOption};

pub(super) async fn check(context: Context) -> Check {
    snapshot_own_writes(&context).await?;
    own_writes_disabled(&context).await?;
    retries(&context).await?;
    refusals(&context)
}

/// An engine either supports or refuses each of these options, and never ignores one. Every engine refuses the last
/// one.
fn refusals(context: &Context) -> Check {
    let optional = [
        TransactionOption::PriorityBatch,
        TransactionOption::PrioritySystemImmediate,
        TransactionOption::CausalReadRisky,
        TransactionOption::UseGrvCache,
        TransactionOption::Tag("tag".to_owned()),
        TransactionOption::DebugTransactionIdentifier("name".to_owned()),
        TransactionOption::ReadSystemKeys,
        TransactionOption::AccessSystemKeys,
        TransactionOption::LockAware,
        TransactionOption::AutomaticIdempotency,
    ];
    for option in optional {
        let (name, everywhere) = (option.name(), option == TransactionOption::AutomaticIdempotency);
        let Some(error) = context.begin().set_option(option).err() else {
            ensure!(!everywhere, "{name} is taken");
            continue;
        };
        let by_name = error.code == ErrorCode::InvalidOption && error.detail.contains(name);
        ensure!(by_name, "{name}: {error:?}");
    }
    Ok(())
}

/// A counter decides whether snapshot reads see own writes.
async fn snapshot_own_writes(context: &Context) -> Check {
    let key = context.key(b"snapshot");
    let transaction = context.begin();
    transaction.set(&key, b"own")?;
    let steps = [
        (None, true),
        (Some(TransactionOption::SnapshotRywDisable), false),
        (Some(TransactionOption::SnapshotRywDisable), false),
        (Some(TransactionOption::SnapshotRywEnable), false),
        (Some(TransactionOption::SnapshotRywEnable), true),
    ];
    for (index, (option, expected)) in steps.into_iter().enumerate() {
        if let Some(option) = option {
            transaction.set_option(option)?;
        }
        let seen = transaction.get(&key, Isolation::Snapshot).await?.is_some();
        ensure!(seen == expected, "after step {index} a snapshot read sees the own write: {seen}");
        ensure!(transaction.get(&key, Isolation::Serializable).await?.is_some(), "another read always does");
    }
    Ok(())
}

async fn own_writes_disabled(context: &Context) -> Check {
    let key = context.key(b"disabled");
    let transaction = context.begin();
    transaction.set_option(TransactionOption::ReadYourWritesDisable)?;
    transaction.set(&key, b"own")?;
    ensure!(transaction.get(&key, Isolation::Serializable).await?.is_none(), "own writes are not seen");
    let watch = match transaction.watch(&key).await {
        Ok(watch) => watch.await.err(),
        Err(error) => Some(error),
    };
    let code = watch.map(|error| error.code);
    ensure!(code == Some(ErrorCode::WatchesDisabled), "a watch without own writes: {code:?}");
    let late = context.begin();
    late.get(&key, Isolation::Serializable).await?;
    let set = late.set_option(TransactionOption::ReadYourWritesDisable);
    let read = late.get(&key, Isolation::Serializable).await;
    let poisoned = set.and_then(|()| read.map(|_| ())).err().map(|error| error.code);
    ensure!(poisoned == Some(ErrorCode::ClientInvalidOperation), "disabled after a read: {poisoned:?}");
    Ok(())
}

/// Retry limits count over retries and survive them; other options do not.
async fn retries(context: &Context) -> Check {
    let conflict = KvError::new(ErrorCode::NotCommitted);
    let transaction = context.begin();
    transaction.set_option(TransactionOption::RetryLimit(2))?;
    transaction.set_option(TransactionOption::MaxRetryDelayMs(1))?;
    transaction.on_error(&conflict).await?;
    transaction.on_error(&conflict).await?;
    let third = transaction.on_error(&conflict).await.err().map(|error| error.code);
    ensure!(third == Some(ErrorCode::NotCommitted), "beyond the limit: {third:?}");
    let transaction = context.begin();
    transaction.set_option(TransactionOption::SizeLimitBytes(32))?;
    transaction.on_error(&conflict).await?;
    transaction.set(&context.key(b"retry"), &[0; 100])?;
    ensure!(transaction.commit().await.is_ok(), "a size limit ends with its attempt");
    let transaction = context.begin();
    transaction.set_option(TransactionOption::TimeoutMs(20))?;
    tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    let late =
        transaction.get(&context.key(b"retry"), Isolation::Snapshot).await.err().map(|error| error.code);
    ensure!(late == Some(ErrorCode::TransactionTimedOut), "beyond its time: {late:?}");
    Ok(())
}
