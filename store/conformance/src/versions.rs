//! Versions: what a read at one sees, and that later transactions see acknowledged commits.

use super::{Check, Context, ensure};
use borough_kv::contract::{ErrorCode, Isolation};

pub(super) async fn check(context: Context) -> Check {
    let key = context.key(b"k");
    let mut last = 0;
    let mut history: Vec<(i64, u32)> = Vec::new();
    for value in 0..50u32 {
        let transaction = context.begin();
        transaction.set(&key, &value.to_be_bytes())?;
        let version = transaction.commit().await?.version.unwrap_or_default();
        ensure!(version > last, "version {version} after {last}");
        let reader = context.begin();
        let read_version = reader.read_version().await?;
        ensure!(read_version >= version, "read version {read_version} after commit {version}");
        ensure!(
            reader.get(&key, Isolation::Serializable).await?.as_deref() == Some(&value.to_be_bytes()),
            "the commit is not seen"
        );
        (last, _) = (version, history.push((version, value)));
    }
    for (version, value) in &history {
        let reader = context.begin();
        reader.set_read_version(*version)?;
        let found = reader.get(&key, Isolation::Serializable).await?;
        ensure!(found.as_deref() == Some(&value.to_be_bytes()), "at {version}: {found:?}, not {value}");
        let again = reader.set_read_version(*version).err().map(|error| error.code);
        ensure!(again == Some(ErrorCode::ReadVersionAlreadySet), "a second read version: {again:?}");
    }
    stable(&context).await?;
    let zero = context.begin().set_read_version(0).err().map(|error| error.code);
    ensure!(zero == Some(ErrorCode::VersionInvalid), "version 0: {zero:?}");
    let old = context.begin();
    old.set_read_version(1)?;
    let old = old.get(&key, Isolation::Snapshot).await.err().map(|error| error.code);
    ensure!(old == Some(ErrorCode::TransactionTooOld), "version 1: {old:?}");
    // A write that read nothing can be too old as well. Without a version of its own it gets a young one.
    let blind = context.begin();
    blind.set_read_version(1)?;
    blind.set(&key, b"blind")?;
    let old = blind.commit().await.err().map(|error| error.code);
    ensure!(old == Some(ErrorCode::TransactionTooOld), "a blind write at version 1: {old:?}");
    let blind = context.begin();
    blind.set(&key, b"blind")?;
    blind.commit().await?;
    Ok(())
}

/// All reads of a transaction are at one version, whatever is committed meanwhile.
async fn stable(context: &Context) -> Check {
    let keys: Vec<Vec<u8>> = (0..20u8).map(|index| context.key(&[b's', index])).collect();
    let reader = context.begin();
    reader.read_version().await?;
    for key in &keys {
        let writer = context.begin();
        writer.set(key, b"late")?;
        writer.commit().await?;
        ensure!(reader.get(key, Isolation::Snapshot).await?.is_none(), "a later commit is seen");
    }
    let fresh = context.begin();
    for key in &keys {
        ensure!(fresh.get(key, Isolation::Snapshot).await?.is_some(), "an earlier commit is not seen");
    }
    Ok(())
}
