//! Versionstamps: in keys and values, in the order of commits, and unreadable until the commit.

use super::{Check, Context, ensure};
use borough_kv::contract::{
    AtomicOp, ErrorCode, Isolation, KeySelector, RangeRequest, TransactionOption, Versionstamp,
};

/// A template: `before`, ten bytes of stamp, `after`, and the offset.
fn template(before: &[u8], after: &[u8]) -> Vec<u8> {
    let offset = u32::try_from(before.len()).unwrap_or(0).to_le_bytes();
    [before, &Versionstamp::INCOMPLETE, after, &offset].concat()
}

pub(super) async fn check(context: Context) -> Check {
    let mut last = Versionstamp::ZERO;
    let head = context.key(b"head");
    for round in 0..20u8 {
        let transaction = context.begin();
        transaction.atomic(
            AtomicOp::SetVersionstampedKey,
            &template(&context.key(b"log/"), &[round]),
            b"entry",
        )?;
        transaction.atomic(AtomicOp::SetVersionstampedValue, &head, &template(b"<", b">"))?;
        let promised = transaction.versionstamp();
        let stamp = transaction.commit().await?.stamp.unwrap_or_default();
        ensure!(promised.await? == stamp, "the promised stamp is the commit's");
        ensure!(stamp > last, "stamp {stamp} after {last}");
        let reader = context.begin();
        let value = [b"<".as_slice(), &stamp.0, b">"].concat();
        ensure!(
            reader.get(&head, Isolation::Snapshot).await?.as_deref() == Some(&value),
            "the stamp in the value"
        );
        let key = [context.key(b"log/").as_slice(), &stamp.0, &[round]].concat();
        ensure!(
            reader.get(&key, Isolation::Snapshot).await?.as_deref() == Some(b"entry"),
            "the stamp in the key"
        );
        last = stamp;
    }
    let request = RangeRequest::between(context.key(b"log/"), context.key(b"log0"));
    let rows = context.begin().get_range(&request).await?.rows;
    let order: Vec<Option<&u8>> = rows.iter().map(|(key, _)| key.last()).collect();
    ensure!(
        order == (0..20u8).collect::<Vec<_>>().iter().map(Some).collect::<Vec<_>>(),
        "the log reads {order:?}"
    );
    unreadable(&context).await?;
    conflicts(&context).await?;
    let reader = context.begin();
    let none = reader.versionstamp();
    reader.get(&head, Isolation::Snapshot).await?;
    reader.commit().await?;
    let code = none.await.err().map(|error| error.code);
    ensure!(code == Some(ErrorCode::NoCommitVersion), "the stamp of a read-only transaction: {code:?}");
    Ok(())
}

/// A read that a pending stamp may affect fails.
async fn unreadable(context: &Context) -> Check {
    let expected = Some(ErrorCode::AccessedUnreadable);
    let key = context.key(b"pending");
    let transaction = context.begin();
    transaction.atomic(AtomicOp::SetVersionstampedValue, &key, &template(b"", b""))?;
    let read = transaction.get(&key, Isolation::Snapshot).await.err().map(|error| error.code);
    ensure!(read == expected, "a pending value: {read:?}");
    transaction.set(&key, b"plain")?;
    let read = transaction.get(&key, Isolation::Snapshot).await.err().map(|error| error.code);
    ensure!(read == expected, "a value set over a pending one stays unreadable: {read:?}");
    transaction.clear(&key)?;
    ensure!(transaction.get(&key, Isolation::Snapshot).await?.is_none(), "a clear makes it readable");

    let transaction = context.begin();
    transaction.atomic(AtomicOp::SetVersionstampedKey, &template(&context.key(b"queue/"), b""), b"v")?;
    let request = RangeRequest::between(context.key(b"queue/"), context.key(b"queue0"));
    let read = transaction.get_range(&request).await.err().map(|error| error.code);
    ensure!(read == expected, "a range that a pending key may be in: {read:?}");
    // The final place of the key is unknown, not only its existence.
    let middle = RangeRequest::between(context.key(b"queue/\x80"), context.key(b"queue/\x90"));
    for request in [middle.clone(), middle.reverse()] {
        let read = transaction.get_range(&request).await.err().map(|error| error.code);
        ensure!(read == expected, "a part of that range: {read:?}");
    }
    let read =
        transaction.get(&context.key(b"queue/\x80"), Isolation::Snapshot).await.err().map(|error| error.code);
    ensure!(read == expected, "a key in that range: {read:?}");
    let selector = KeySelector::last_less_than(context.key(b"queue0"));
    let read = transaction.get_key(&selector, Isolation::Snapshot).await.err().map(|error| error.code);
    ensure!(read == expected, "a selector over a pending key: {read:?}");
    ensure!(
        transaction.get(&context.key(b"queue"), Isolation::Snapshot).await?.is_none(),
        "beside it all is readable"
    );
    transaction.set_option(TransactionOption::BypassUnreadable)?;
    transaction.atomic(AtomicOp::SetVersionstampedValue, &key, &template(b"", b""))?;
    let read = transaction.get(&key, Isolation::Snapshot).await?;
    ensure!(read.as_deref() == Some(&template(b"", b"")), "the placeholder: {read:?}");
    ensure!(
        transaction.get(&context.key(b"queue/\x80"), Isolation::Snapshot).await?.is_none(),
        "a bypassed key"
    );
    let read = transaction.get_range(&request).await.err().map(|error| error.code);
    ensure!(read == expected, "the option is not for ranges: {read:?}");
    Ok(())
}

/// The final key of a stamped key is written: a transaction that read it is refused.
async fn conflicts(context: &Context) -> Check {
    let reader = context.begin();
    let request = RangeRequest::between(context.key(b"tail/"), context.key(b"tail0"));
    ensure!(reader.get_range(&request).await?.rows.is_empty(), "nothing yet");
    let writer = context.begin();
    writer.atomic(AtomicOp::SetVersionstampedKey, &template(&context.key(b"tail/"), b""), b"v")?;
    writer.commit().await?;
    reader.set(&context.key(b"seen"), b"nothing")?;
    let code = reader.commit().await.err().map(|error| error.code);
    ensure!(code == Some(ErrorCode::NotCommitted), "an empty tail that is no longer empty: {code:?}");
    // Two appends never conflict.
    let (one, other) = (context.begin(), context.begin());
    for transaction in [&one, &other] {
        transaction.read_version().await?;
        transaction.atomic(AtomicOp::SetVersionstampedKey, &template(&context.key(b"tail/"), b""), b"v")?;
    }
    one.commit().await?;
    other.commit().await?;
    Ok(())
}
