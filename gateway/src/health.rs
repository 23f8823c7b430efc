//! Health and readiness: what `/healthz`, `/readyz` and gRPC health answer. The process checks the store once a second.
//!
//! A *live* process has a store that can still answer; restart a process that is not live. A *ready* process can serve
//! now. Probes put no load on the store: every answer comes from the last check.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Database, EngineState, Idempotency};
use borough_store::StoreError;
use borough_store::error_chain;
use borough_store::federation::store_generation_read;
use borough_store::mirror::MirrorHandle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Time between two checks.
const LOOK: Duration = Duration::from_secs(1);
/// How long a check waits for the store: a transaction lasts at most as long.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// The oldest mirror that counts as current. A mirror reads the journal at least every second.
const MIRROR_AGE_MAX: Duration = Duration::from_secs(15);

/// What the health of a process depends on.
#[derive(Clone)]
pub struct HealthSource {
    pub db: Database,
    /// The mirrors of the cells that the process serves or leads.
    pub mirrors: Vec<MirrorHandle>,
}

/// The result of a check. Its texts are for people and name neither cells nor tenants, since callers read them without
/// a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthStatus {
    /// Why the store has stopped for good.
    pub stopped: Option<String>,
    /// Why the store does not answer now.
    pub silent: Option<String>,
    /// Why the store refuses commits.
    pub refusing: Option<String>,
    /// Why the mirror of a cell is not current.
    pub stale: Option<String>,
    /// That the process ends.
    pub ending: Option<String>,
}

impl HealthStatus {
    /// Returns false if only a restart can help the process.
    pub fn is_live(&self) -> bool {
        self.stopped.is_none()
    }

    /// Returns true if the process can answer reads.
    pub fn reads(&self) -> bool {
        self.is_live() && self.silent.is_none() && self.stale.is_none() && self.ending.is_none()
    }

    /// Returns true if the process can do all of its work.
    pub fn is_ready(&self) -> bool {
        self.reads() && self.refusing.is_none()
    }

    /// The reasons for a bad status, one per line.
    pub fn reasons(&self) -> String {
        let reasons = [&self.stopped, &self.silent, &self.refusing, &self.stale, &self.ending];
        reasons.into_iter().flatten().fold(String::new(), |lines, reason| lines + reason + "\n")
    }
}

/// The age of a mirror, as checked.
#[derive(Clone, Copy, Debug)]
struct MirrorAge {
    listed: bool,
    age: Duration,
}

/// The status that follows from the state of the engine, an answer of the store, and the mirrors.
fn status_of(engine: EngineState, answer: Result<(), String>, mirrors: &[MirrorAge]) -> HealthStatus {
    let (mut stopped, mut refusing) = (None, None);
    match engine {
        EngineState::Serving => {}
        EngineState::Refusing(error) => refusing = Some(format!("the store refuses commits: {error}")),
        EngineState::Stopped(error) => stopped = Some(format!("the store has stopped: {error}")),
    }
    let loading = mirrors.iter().filter(|mirror| !mirror.listed).count();
    let oldest = mirrors.iter().map(|mirror| mirror.age).max().unwrap_or_default();
    let stale = match loading {
        0 if oldest <= MIRROR_AGE_MAX => None,
        0 => Some(format!("what is known of a cell is {} s old", oldest.as_secs())),
        loading => Some(format!("cells that are being loaded: {loading} of {}", mirrors.len())),
    };
    let silent = answer.err().map(|reason| format!("the store does not answer: {reason}"));
    HealthStatus { stopped, silent, refusing, stale, ending: None }
}

/// The health of a process, as last checked.
pub struct ProcessHealth {
    source: HealthSource,
    status: watch::Sender<HealthStatus>,
}

impl ProcessHealth {
    /// Checks every second until `cancelled`. The process is not ready before the first check.
    pub fn start(source: HealthSource, cancelled: CancellationToken) -> Arc<Self> {
        let silent = Some("the store has not been asked yet".to_owned());
        let status = watch::Sender::new(HealthStatus { silent, ..HealthStatus::default() });
        let health = Arc::new(Self { source, status });
        let looker = Arc::clone(&health);
        tokio::spawn(async move {
            tokio::select! {
                () = looker.look() => {}
                () = cancelled.cancelled() => {}
            }
        });
        health
    }

    /// The last status. An engine that has stopped since the last check shows at once.
    pub fn now(&self) -> HealthStatus {
        let status = self.status.borrow().clone();
        match self.source.db.engine_state() {
            stopped @ EngineState::Stopped(_) => HealthStatus { ..status_of(stopped, Ok(()), &[]) },
            _ => status,
        }
    }

    /// Records that the process ends: it is not ready any more.
    pub fn end(&self) {
        self.status.send_modify(|status| status.ending = Some("the process ends".to_owned()));
    }

    /// Follows every change of the status.
    pub fn follow(&self) -> watch::Receiver<HealthStatus> {
        self.status.subscribe()
    }

    async fn look(&self) {
        loop {
            let answer = self.answer().await;
            let age =
                |mirror: &MirrorHandle| MirrorAge { listed: mirror.is_ready(), age: mirror.staleness() };
            let mirrors: Vec<_> = self.source.mirrors.iter().map(age).collect();
            let next = status_of(self.source.db.engine_state(), answer, &mirrors);
            self.status.send_if_modified(|status| {
                let next = HealthStatus { ending: status.ending.clone(), ..next };
                let changes = *status != next;
                if changes && status.is_ready() {
                    tracing::warn!(reasons = next.reasons().trim_end(), "not ready");
                }
                *status = next;
                changes
            });
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn answer(&self) -> Result<(), String> {
        let read = self.source.db.run("health", Idempotency::ReadOnly, |tx, _| async move {
            store_generation_read(&tx).await.map(drop)
        });
        match tokio::time::timeout(ANSWER_WAIT, read).await {
            Ok(answered) => answered.map_err(|error: StoreError| error_chain(&error)),
            Err(_) => Err(format!("not within {} s", ANSWER_WAIT.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_kv::{ErrorCode, KvError};

    use super::*;

    fn mirror(listed: bool, age_seconds: u64) -> MirrorAge {
        MirrorAge { listed, age: Duration::from_secs(age_seconds) }
    }

    #[test]
    fn a_process_is_what_its_store_and_its_mirrors_are() {
        let error = |code| KvError::new(code);
        let silent = || Err("no".to_owned());
        let (current, loading, old) = (mirror(true, 1), mirror(false, 1), mirror(true, 60));
        let stopped = || EngineState::Stopped(error(ErrorCode::IoError));
        let refusing = || EngineState::Refusing(error(ErrorCode::NoSpace));
        // Each case: the engine, its answer, the mirrors; then live, reads, ready.
        let cases = [
            (EngineState::Serving, Ok(()), vec![current, current], (true, true, true)),
            (EngineState::Serving, Ok(()), vec![], (true, true, true)),
            (EngineState::Serving, silent(), vec![current], (true, false, false)),
            (EngineState::Serving, Ok(()), vec![current, loading], (true, false, false)),
            (EngineState::Serving, Ok(()), vec![old, current], (true, false, false)),
            (refusing(), Ok(()), vec![current], (true, true, false)),
            (stopped(), silent(), vec![old], (false, false, false)),
        ];
        for (engine, answer, mirrors, expected) in cases {
            let status = status_of(engine.clone(), answer, &mirrors);
            let found = (status.is_live(), status.reads(), status.is_ready());
            assert_eq!(found, expected, "{engine:?} {mirrors:?}");
            assert_eq!(status.reasons().is_empty(), expected.2, "{status:?}");
        }
    }
}
