//! One role as a process: a runtime of its own with a clock of its own. The world runs it tick by tick. A role that is
//! not run is paused; when it continues, all of its timers are late, as in a stopped process. Dropping a role crashes
//! it.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::clock::RoleTime;

pub(crate) struct Role {
    runtime: Option<Runtime>,
    time: RoleTime,
    at_ms: u64,
    /// Until when it is paused.
    pub paused_until_ms: u64,
}

impl Role {
    /// Begins a role at `now_ms`. Calls `main` inside the role's runtime for the role's work.
    pub(crate) fn begin<F>(now_ms: u64, main: impl FnOnce(RoleTime) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let time = runtime.block_on(async {
            let time = RoleTime::begin(now_ms);
            tokio::spawn(main(time.clone()));
            time
        });
        Self { runtime: Some(runtime), time, at_ms: now_ms, paused_until_ms: 0 }
    }

    /// Runs the role up to `now_ms`, in one tick of `tick_ms` unless it was paused before.
    pub(crate) fn run(&mut self, now_ms: u64, tick_ms: u64) {
        let Some(runtime) = &self.runtime else { return };
        if now_ms < self.paused_until_ms {
            return;
        }
        let behind_ms = (now_ms - self.at_ms).saturating_sub(tick_ms);
        let end = self.time.instant(now_ms);
        runtime.block_on(async {
            if behind_ms > 0 {
                tokio::time::advance(Duration::from_millis(behind_ms)).await;
            }
            tokio::time::sleep_until(end).await;
        });
        self.at_ms = now_ms;
    }

    /// Ends the role as a crash does: it releases nothing.
    pub(crate) fn kill(mut self) {
        drop(self.runtime.take());
    }
}
