//! DNS: how soon an answer shows a change, and how many questions are answered.

use std::time::{Duration, Instant};

use anyhow::ensure;
use borough_client::Client;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::{CELL, CHANGE_WAIT, JOB, NameBenchArguments, NamePlaces, USER, us, withdraw};
use crate::hollow::usage::process_usage;
use crate::result::{Stats, StatsSet as _, percentiles};

const SRV: u16 = 33;
/// An answer that takes longer counts as lost: a server may leave questions out.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// One who asks.
struct Asker {
    socket: UdpSocket,
    question: Vec<u8>,
}

impl Asker {
    async fn new(server: &str, name: &str) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(server).await?;
        // One question, and an OPT record that takes 4,096 bytes.
        let mut question = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        for label in name.split('.') {
            question.push(u8::try_from(label.len())?);
            question.extend(label.bytes());
        }
        question.push(0);
        question.extend(SRV.to_be_bytes());
        question.extend([0, 1]);
        question.extend([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
        Ok(Self { socket, question })
    }

    /// How many records the answer has; `None`: none came.
    async fn ask(&self) -> anyhow::Result<Option<u16>> {
        self.socket.send(&self.question).await?;
        let mut answer = [0; 4_096];
        let Ok(length) = tokio::time::timeout(ANSWER_WAIT, self.socket.recv(&mut answer)).await else {
            return Ok(None);
        };
        ensure!(length? > 12, "an answer without a header");
        Ok(Some(u16::from_be_bytes([answer[6], answer[7]])))
    }
}

/// Measures both. `server` is the process that answers.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn run(
    client: &Client,
    places: &NamePlaces,
    arguments: &NameBenchArguments,
    server: i32,
) -> anyhow::Result<Stats> {
    let name = format!("_http._tcp.{JOB}.{USER}.{CELL}.borough.internal");
    let asker = Asker::new(&places.dns, &name).await?;
    let all = u16::try_from(arguments.endpoints)?;
    let mut seen = Vec::new();
    for round in 0..arguments.rounds {
        answered_with(&asker, all).await?;
        let begun = Instant::now();
        withdraw(client, round % arguments.endpoints).await?;
        answered_with(&asker, all.saturating_sub(1)).await?;
        seen.push(us(begun.elapsed()));
    }
    answered_with(&asker, all).await?;
    let (time, mut askers) = (Duration::from_secs(arguments.dns_seconds), JoinSet::new());
    let before = process_usage(server)?.cpu;
    for _ in 0..arguments.dns_questions {
        askers.spawn(questions(Asker::new(&places.dns, &name).await?, time));
    }
    let (mut latencies, mut lost) = (Vec::new(), 0_u64);
    while let Some(asked) = askers.join_next().await {
        let (own, own_lost) = asked??;
        latencies.extend(own);
        lost += own_lost;
    }
    let cpu_us = us(process_usage(server)?.cpu.saturating_sub(before));
    let mut stats = Stats::new();
    percentiles(&mut stats, "withdrawn", &seen)?;
    percentiles(&mut stats, "answer", &latencies)?;
    let answers = u64::try_from(latencies.len())?;
    stats.set("answers_per_s", answers / arguments.dns_seconds.max(1));
    // As many as one core would answer, by the processor time of each.
    stats
        .set("answers_per_core_s", answers.saturating_mul(1_000_000).checked_div(cpu_us).unwrap_or_default());
    stats.set("lost", lost);
    stats.set("records", all);
    Ok(stats)
}

/// Asks until the answer has so many records.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn answered_with(asker: &Asker, records: u16) -> anyhow::Result<()> {
    let begun = Instant::now();
    while asker.ask().await? != Some(records) {
        ensure!(begun.elapsed() < CHANGE_WAIT, "no answer had {records} records in time");
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// One question after the other. Returns the latencies, and how many were lost.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn questions(asker: Asker, time: Duration) -> anyhow::Result<(Vec<u64>, u64)> {
    let (mut latencies, mut lost, begin) = (Vec::new(), 0, Instant::now());
    while begin.elapsed() < time {
        let begun = Instant::now();
        match asker.ask().await? {
            Some(_) => latencies.push(us(begun.elapsed())),
            None => lost += 1,
        }
    }
    Ok((latencies, lost))
}
