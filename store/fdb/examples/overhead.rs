//! Measures the cost of the wrapper: runs the same loads alternately through the bare crate and through this one, in
//! one run, and prints JSON.
//!
//! `cargo run --release -p borough-fdb --features fdb --example overhead -- CLUSTER_FILE`

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use borough_kv::{Database, Idempotency, KvError, Transaction};

/// Clients at once.
const CLIENTS: u64 = 64;
/// The duration of each turn, and the number of turns each way.
const TURN: Duration = Duration::from_secs(2);
const TURNS: usize = 5;
/// Bytes of a value.
const VALUE: [u8; 100] = [7; 100];
/// Keys of a placement's transaction: 64 placements of three.
const KEYS_MANY: u64 = 192;

type OverheadError = Box<dyn std::error::Error + Send + Sync>;

fn key(client: u64, number: u64, offset: u64) -> Vec<u8> {
    let spread = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    [b"borough-overhead/".as_slice(), &spread.wrapping_add(offset).to_be_bytes()].concat()
}

/// Transactions per second of a way to run them.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn rate<F, Fut>(operation: F) -> Result<f64, OverheadError>
where
    F: Fn(u64, u64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<(), OverheadError>> + Send,
{
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let operation = operation.clone();
        tasks.spawn(async move {
            let mut number = 0_u32;
            while began.elapsed() < TURN {
                operation(client, u64::from(number)).await?;
                number += 1;
            }
            Ok::<_, OverheadError>(number)
        });
    }
    let mut done = 0_u32;
    while let Some(task) = tasks.join_next().await {
        done += task??;
    }
    Ok(f64::from(done) / began.elapsed().as_secs_f64())
}

async fn bare(
    database: Arc<foundationdb::Database>,
    client: u64,
    number: u64,
    keys: u64,
) -> Result<(), OverheadError> {
    let mut transaction = database.create_trx()?;
    loop {
        for offset in 0..keys {
            transaction.set(&key(client, number, offset), &VALUE);
        }
        match transaction.commit().await {
            Ok(_) => return Ok(()),
            Err(error) => transaction = error.on_error().await?,
        }
    }
}

async fn wrapped(database: Database, client: u64, number: u64, keys: u64) -> Result<(), OverheadError> {
    let write = |tx: Transaction, _| async move {
        (0..keys).try_for_each(|offset| tx.set(&key(client, number, offset), &VALUE))
    };
    Ok(database.run::<_, KvError, _, _>("overhead", Idempotency::Natural, write).await?)
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "result lines are what this program is for")]
async fn main() -> Result<(), OverheadError> {
    let cluster = std::env::args().nth(1).ok_or("give the cluster file")?;
    let ours = Database::new(borough_fdb::open(&cluster)?);
    // Opening ours has started the client's network, which both use.
    let theirs = Arc::new(foundationdb::Database::from_path(&cluster)?);
    for keys in [1, KEYS_MANY] {
        let (mut bare_rates, mut wrapped_rates) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let database = Arc::clone(&theirs);
            bare_rates
                .push(rate(move |client, number| bare(Arc::clone(&database), client, number, keys)).await?);
            let database = ours.clone();
            wrapped_rates
                .push(rate(move |client, number| wrapped(database.clone(), client, number, keys)).await?);
        }
        let (bare, wrapped) = (median(&mut bare_rates), median(&mut wrapped_rates));
        println!(
            "{{\"bench\":\"fdb-overhead\",\"workload\":\"commit-{keys}-keys\",\"clients\":{CLIENTS},\"turns\":{TURNS},\
             \"bare_commits_per_s\":{bare:.0},\"wrapped_commits_per_s\":{wrapped:.0},\"ratio\":{:.3}}}",
            wrapped / bare
        );
    }
    drop((ours, theirs));
    borough_fdb::shutdown();
    Ok(())
}
