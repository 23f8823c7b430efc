//! Health and readiness: what `/healthz`, `/readyz` and gRPC health answer, from one look at the store a second.
//!
//! *Live* is a process whose store can still answer: one that is not is to be started again. *Ready* is one that can
//! serve now. Nobody who asks makes the store work: every answer is of the last look.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Database, EngineState, Idempotency};
use borough_store::StoreError;
use borough_store::error_chain;
use borough_store::federation::store_generation_read;
use borough_store::mirror::MirrorHandle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// How long an answer of the store is waited for: a transaction lives as long.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// How old a mirror may be that counts as current: it reads the journal every second, or sooner.
const MIRROR_AGE_MAX: Duration = Duration::from_secs(15);

/// What the health of a process follows from.
#[derive(Clone)]
pub struct HealthSource {
    /// The store.
    pub db: Database,
    /// The mirrors of the cells that it serves or leads.
    pub mirrors: Vec<MirrorHandle>,
}

/// What a look has found. Every text is for people and names neither cells nor tenants: it is answered without a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthStatus {
    /// Why the store answers nothing any more, for good.
    pub stopped: Option<String>,
    /// Why it answers nothing now.
    pub silent: Option<String>,
    /// Why it refuses commits.
    pub refusing: Option<String>,
    /// Why what is known of a cell is not current.
    pub stale: Option<String>,
}

impl HealthStatus {
    /// Whether the process can come to work again by itself.
    pub fn is_live(&self) -> bool {
        self.stopped.is_none()
    }

    /// Whether it can answer what needs no commit.
    pub fn reads(&self) -> bool {
        self.is_live() && self.silent.is_none() && self.stale.is_none()
    }

    /// Whether it can do all of its work.
    pub fn is_ready(&self) -> bool {
        self.reads() && self.refusing.is_none()
    }

    /// What is wrong, a line each.
    pub fn reasons(&self) -> String {
        let reasons = [&self.stopped, &self.silent, &self.refusing, &self.stale];
        reasons.into_iter().flatten().fold(String::new(), |lines, reason| lines + reason + "\n")
    }
}

/// A mirror as a look has found it.
#[derive(Clone, Copy, Debug)]
struct MirrorAge {
    listed: bool,
    age: Duration,
}

/// What follows from the state of the engine, an answer of the store, and the mirrors.
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
        loading => Some(format!("{loading} of {} cells are being loaded", mirrors.len())),
    };
    let silent = answer.err().map(|reason| format!("the store does not answer: {reason}"));
    HealthStatus { stopped, silent, refusing, stale }
}

/// The health of a process, as of the last look.
pub struct ProcessHealth {
    source: HealthSource,
    status: watch::Sender<HealthStatus>,
}

impl ProcessHealth {
    /// Looks every second until `cancelled`. Not ready before the first look.
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

    /// What is known now. An engine that has stopped since the last look is known to have.
    pub fn now(&self) -> HealthStatus {
        let status = self.status.borrow().clone();
        match self.source.db.engine_state() {
            stopped @ EngineState::Stopped(_) => HealthStatus { ..status_of(stopped, Ok(()), &[]) },
            _ => status,
        }
    }

    /// Every change of what is known.
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
        // The engine, its answer, the mirrors; live, reads, ready.
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
