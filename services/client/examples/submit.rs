//! Submits a service of two tasks and waits until both are healthy.
//!
//! ```text
//! cargo run --release -- dev                      # in another terminal; prints the address and the token file
//! cargo run -p borough-client --example submit -- 127.0.0.1:7400 TOKEN_FILE
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use std::time::Duration;

use borough_client::{Client, ClientConfig, ClientError, ClientToken, JobRef};
use borough_kv::env::SeededRng;
use borough_proto::v1::{
    JobKind, JobSpec, LogSpec, PortSpec, Resources, RestartSpec, TaskSpec, restart_spec,
};

const USER: &str = "ann";
const CELL: &str = "alpha";

fn service(name: &str) -> JobSpec {
    let resources = Resources { cpu_millis: 100, memory_bytes: 64 << 20, ..Resources::default() };
    let task = TaskSpec {
        command: ["sh", "-c", "exec python3 -m http.server --bind 127.0.0.1 $PORT_HTTP"]
            .map(str::to_owned)
            .to_vec(),
        resources: Some(resources),
        // A port without a number: the scheduler chooses one.
        ports: vec![PortSpec { name: "http".to_owned(), ..PortSpec::default() }],
        grace_ms: 2_000,
        log: Some(LogSpec { file_bytes_max: 10 << 20, files_max: 3 }),
        weight: 1,
        ..TaskSpec::default()
    };
    JobSpec {
        user: USER.to_owned(),
        name: name.to_owned(),
        kind: JobKind::Service.into(),
        priority: 200,
        count: 2,
        task: Some(task),
        restart: Some(RestartSpec {
            mode: restart_spec::Mode::Always.into(),
            backoff_initial_ms: 1_000,
            backoff_max_ms: 60_000,
            reset_after_ms: 60_000,
            attempts_max: None,
        }),
        ..JobSpec::default()
    }
}

/// Asks for the job until all of its tasks are healthy.
async fn healthy(client: &Client, job: &JobRef) -> Result<(), ClientError> {
    loop {
        let answer = client.job_get(job).await?;
        let counts = answer.job.and_then(|job| job.tasks).unwrap_or_default();
        println!("{job}: {} running, {} healthy, {} pending", counts.running, counts.healthy, counts.pending);
        if counts.healthy == 2 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(gateway), Some(token)) = (arguments.next(), arguments.next()) else {
        return Err("usage: submit HOST:PORT TOKEN_FILE".into());
    };
    let mut config = ClientConfig::new(vec![gateway], USER, CELL);
    config.token = Some(ClientToken::File(token.into()));
    let (rng, _) = SeededRng::from_kernel();
    let client = Client::new(config, rng)?;
    // The call carries a request id: the library repeats it after a lost answer, and it has one effect.
    client.job_submit(service("hello"), 0).await?;
    tokio::time::timeout(Duration::from_secs(60), healthy(&client, &JobRef::new(USER, "hello"))).await??;
    Ok(())
}
