//! What a wait says and does while no gateway answers: nobody knows then how far the job is.

use std::time::Duration;

use borough_client::CellItem;

use super::progress::{Goal, KnownJob};
use super::wait::WaitingOutput;
use crate::exit::{Code, Failure, absence_text_within};

/// How long a gateway may take to show that one answers, once a time is over.
const PROBE_TIME: Duration = Duration::from_secs(3);

impl WaitingOutput<'_, '_> {
    /// Says when the caller will end the wait, from now on.
    pub(super) fn bound(&mut self, timeout: Option<Duration>) {
        self.end = timeout.map(|timeout| self.clock.monotonic().saturating_add(timeout));
    }

    /// The failure of a wait that its caller has ended with this message. While no gateway answers, it names the
    /// gateway.
    pub(super) async fn ended_early(&mut self, code: Code, message: &str) -> Failure {
        match self.absent_now().await {
            Some(absent) => Failure::new(Code::Unreachable, format!("{message}; {absent}")),
            None => Failure::new(code, message),
        }
    }

    /// Says once that no gateway answers, and that one does again. The wait ends at the latest in `progress_left`.
    pub(super) fn answered(&mut self, item: &CellItem, goal: Goal, progress_left: Option<Duration>) {
        if let CellItem::Absent(absence) = item {
            let left = self.end.map(|end| end.saturating_sub(self.clock.monotonic()));
            let left = left.into_iter().chain(progress_left).min();
            let text = absence_text_within(absence, left);
            self.progress.remark(&format!("{text}; {}", goal.goes_on()));
            self.absent = Some(Failure::from(&*absence.error).message().to_owned());
        } else if self.absent.take().is_some() {
            self.progress.remark("a gateway answers again");
        }
    }

    /// That no gateway answers, as a failure would say it; `None`: one does. A stream says so only after a while, so
    /// this asks if the stream has not.
    pub(super) async fn absent_now(&mut self) -> Option<String> {
        if let Some(absent) = self.absent.take() {
            return Some(absent);
        }
        let asked = self.client.with_deadline_max(PROBE_TIME).job_get(self.job).await;
        let failure = Failure::from(asked.err()?);
        (failure.code() == Code::Unreachable).then(|| failure.message().to_owned())
    }

    /// That no gateway says how far the job is, once the progress deadline has passed; `None`: one does.
    pub(super) async fn unknown_progress(
        &mut self,
        known: &KnownJob,
        goal: Goal,
        deadline: Duration,
    ) -> Option<Failure> {
        let absent = self.absent_now().await?;
        let (state, passed) = (self.state_text(known, goal), humantime::format_duration(deadline));
        Some(Failure::new(
            Code::Unreachable,
            format!("{state}; the progress deadline of {passed} has passed, and {absent}"),
        ))
    }
}
