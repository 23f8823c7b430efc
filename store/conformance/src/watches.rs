//! Watches: armed by the commit, fired by a change, ended by an error.

use std::time::Duration;

use futures::FutureExt as _;

use super::cycle::persist;
use super::{Check, Context, Wrong, ensure};
use borough_kv::contract::{AtomicOp, ErrorCode, KvResult, Watch};
use borough_kv::database::{Idempotency, Transaction};

/// Long enough for any engine to fire a watch.
const PATIENCE: Duration = Duration::from_secs(20);

async fn ended(watch: Watch) -> Result<KvResult<()>, Wrong> {
    tokio::time::timeout(PATIENCE, watch)
        .await
        .map_err(|_| Wrong::Differs("a watch has not fired".to_owned()))
}

/// Commits one write of `key`.
async fn write(context: &Context, key: &[u8], value: Option<&[u8]>) -> Check {
    let writer = context.begin();
    match value {
        Some(value) => writer.set(key, value)?,
        None => writer.clear(key)?,
    }
    writer.commit().await?;
    Ok(())
}

pub(super) async fn check(context: Context) -> Check {
    let key = context.key(b"k");
    let values = [[None, Some("1")], [Some("2"), Some("3")], [Some("4"), None]];
    for [first, second] in values.map(|pair| pair.map(|value| value.map(str::as_bytes))) {
        write(&context, &key, first).await?;
        let transaction = context.begin();
        let mut watch = transaction.watch(&key).await?;
        transaction.commit().await?;
        ensure!((&mut watch).now_or_never().is_none(), "a watch fires before a change");
        write(&context, &context.key(b"kk"), Some(b"beside")).await?;
        ensure!((&mut watch).now_or_never().is_none(), "a watch fires for another key");
        write(&context, &key, second).await?;
        ended(watch).await??;
    }
    own_writes(&context).await?;
    errors(&context).await
}

/// The baseline includes the transaction's writes before the watch, and not those after it.
async fn own_writes(context: &Context) -> Check {
    let key = context.key(b"own");
    let transaction = context.begin();
    transaction.set(&key, b"1")?;
    let mut watch = transaction.watch(&key).await?;
    transaction.commit().await?;
    ensure!((&mut watch).now_or_never().is_none(), "a watch fires for its own baseline");
    let changer = context.begin();
    changer.atomic(AtomicOp::ByteMax, &key, b"2")?;
    changer.commit().await?;
    ended(watch).await??;

    let transaction = context.begin();
    let watch = transaction.watch(&key).await?;
    transaction.set(&key, b"3")?;
    transaction.commit().await?;
    ended(watch).await??;
    Ok(())
}

async fn errors(context: &Context) -> Check {
    let key = context.key(b"errors");
    let transaction = context.begin();
    let watch = transaction.watch(&key).await?;
    transaction.reset();
    let code = ended(watch).await?.err().map(|error| error.code);
    ensure!(code == Some(ErrorCode::TransactionCancelled), "a watch that was never committed: {code:?}");

    let transaction = context.begin();
    let watch = transaction.watch(&key).await?;
    write(context, &key, Some(b"1")).await?;
    transaction.set(&context.key(b"errors-other"), b"")?;
    let commit = transaction.commit().await.err().map(|error| error.code);
    ensure!(commit == Some(ErrorCode::NotCommitted), "a watch reads with a conflict: {commit:?}");
    let code = ended(watch).await?.err().map(|error| error.code);
    ensure!(code == commit, "a watch of a refused commit: {code:?}");
    Ok(())
}

/// With faults: a watch, paired with a timer and followed by a read, notices every change.
pub(super) async fn fired(context: Context) -> Check {
    let key = context.key(b"head");
    for value in 0..30u32 {
        let open = |transaction: Transaction, _| {
            let key = key.clone();
            async move { Ok::<_, Wrong>((transaction.get(&key).await?, transaction.watch(&key).await?)) }
        };
        // Run as a transaction that writes nothing, only for the watch.
        let (seen, watch) = persist(|| context.database.run("watch", Idempotency::Natural, open)).await?;
        let expected = value.checked_sub(1).map(u32::to_be_bytes);
        ensure!(seen.as_deref() == expected.as_ref().map(<[u8; 4]>::as_slice), "{seen:?} before {value}");
        let set = |transaction: Transaction, _| {
            let key = key.clone();
            async move { Ok::<_, Wrong>(transaction.set(&key, &value.to_be_bytes())?) }
        };
        persist(|| context.database.run("change", Idempotency::Natural, set)).await?;
        match ended(watch).await? {
            Ok(()) => {}
            // A fault ended it; the read returns the present value.
            Err(error) => ensure!(context.faulty, "{error}"),
        }
    }
    Ok(())
}
