//! Wall clocks that are off by an hour or a day. One role stamps a back-off, another one waits for it, and the task is
//! placed again when its pause is over.

use std::time::Duration;

use borough_model::{Incarnation, TaskState};
use borough_testkit::in_simulated_time;

use crate::cell::Cell;

const HOUR_MS: i64 = 3_600_000;
/// How often the task fails in a row; the pause doubles each time from half a second.
const FAILURES: u64 = 6;

#[test]
fn a_restart_comes_after_its_pause_whatever_the_wall_clocks_of_gateway_and_scheduler_show() {
    for off_ms in [HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS] {
        for (gateway_ms, scheduler_ms) in [(off_ms, 0), (0, off_ms)] {
            in_simulated_time(async {
                let mut cell = Cell::new(1).await;
                cell.clocks_off(gateway_ms, scheduler_ms).await;
                cell.node_add().await;
                cell.job_submit("fails", None).await;
                let worker = cell.worker(0, 1, &["default"]);
                for attempt in 1..=FAILURES {
                    let from = cell.now();
                    let there = async || {
                        let rows = cell.tasks().await;
                        let row = rows.into_iter().find(|row| row.state == TaskState::Assigned);
                        row.filter(|row| row.incarnation == Incarnation(attempt))
                    };
                    cell.until("it is placed again", async || there().await.is_some()).await;
                    let pause = Duration::from_millis(if attempt > 1 { 250 << (attempt - 1) } else { 0 });
                    let waited = cell.now() - from;
                    let (least, most) = (pause.mul_f64(0.8), pause.mul_f64(1.25) + Duration::from_secs(2));
                    assert!(
                        (least..=most).contains(&waited),
                        "clocks off by {gateway_ms} and {scheduler_ms}: {waited:?} instead of {pause:?}"
                    );
                    cell.fails(&there().await.unwrap()).await;
                }
                worker.end().await;
            });
        }
    }
}
