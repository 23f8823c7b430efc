//! What limits cost: new jobs of many users at once, without quotas, with a quota for each user, and below one limited
//! group. Below a group, every admission charges the same line.
//!
//! All cases are measured in one run, twice, the second time in the reverse order: whatever else slows the machine down
//! or fills the store meets all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use borough_client::Client;
use borough_proto::v1::{Band, QuotaLimit};
use serde_json::json;

use super::place::ApiPlace;
use super::{ApiBenchArguments, CallsMade, job};
use crate::result::{Results, Stats, StatsSet as _};

/// More than any run admits.
const TASKS_MAX: u64 = 1_000_000_000;

/// What limits the users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuotaCase {
    /// Nothing.
    None,
    /// A quota of each user.
    Own,
    /// One group's quota above all of them.
    Group,
}

impl QuotaCase {
    const ALL: [Self; 3] = [Self::None, Self::Own, Self::Group];

    fn name(self) -> &'static str {
        match self {
            Self::None => "unlimited",
            Self::Own => "own",
            Self::Group => "group",
        }
    }

    fn user(self, number: u32) -> String {
        format!("{}-{number}", self.name())
    }

    /// Sets the quotas of this case.
    async fn prepare(self, operator: &Client, users: u32) -> anyhow::Result<()> {
        let limited = QuotaLimit { tasks_max: Some(TASKS_MAX), ..QuotaLimit::default() };
        let limit = match self {
            Self::None => return Ok(()),
            Self::Own => limited,
            Self::Group => {
                operator.quota_set("group/bench", Band::Batch, Some(limited), 0).await?;
                QuotaLimit { parent: "group/bench".to_owned(), ..QuotaLimit::default() }
            }
        };
        for number in 0..users {
            operator.quota_set(&self.user(number), Band::Batch, Some(limit.clone()), 0).await?;
        }
        Ok(())
    }
}

/// Measures every case, with a line of results for each. Returns the ratios.
pub(super) async fn run(
    place: &ApiPlace,
    arguments: &ApiBenchArguments,
    results: &mut Results,
) -> anyhow::Result<Stats> {
    let connections = (0..arguments.connections).map(|_| place.operator());
    let clients = connections.collect::<anyhow::Result<Vec<Client>>>()?;
    let operator = clients.first().context("no connection")?;
    let jobs = Arc::new(AtomicU64::new(0));
    for case in QuotaCase::ALL {
        case.prepare(operator, arguments.users).await?;
    }
    let mut rates = Vec::new();
    for case in QuotaCase::ALL.into_iter().chain(QuotaCase::ALL.into_iter().rev()) {
        let time = Duration::from_secs(arguments.seconds);
        let callers = (0..arguments.callers).zip(clients.iter().cycle()).map(|(caller, client)| {
            let user = case.user(caller.checked_rem(arguments.users).unwrap_or_default());
            let (client, jobs) = (client.clone(), Arc::clone(&jobs));
            move || {
                let name = format!("limits-{}", jobs.fetch_add(1, Ordering::Relaxed));
                let (client, user) = (client.clone(), user.clone());
                async move {
                    let mut spec = job(name, 1);
                    spec.user = user;
                    client.job_submit(spec, 0).await?;
                    Ok(())
                }
            }
        });
        let made = CallsMade::of(place.pid()?, time, callers.collect()).await?;
        let mut stats = made.stats();
        stats.set("users", arguments.users.min(arguments.callers));
        results.line("api", &format!("limits-{}", case.name()), stats);
        rates.push((case, made.per_s()));
    }
    Ok(ratios(&rates))
}

/// The rate of each case by that of users without any quota, each as the sum over its rounds.
fn ratios(rates: &[(QuotaCase, u64)]) -> Stats {
    let sum = |case: QuotaCase| {
        let of_case = rates.iter().filter(|(other, _)| *other == case);
        of_case.map(|(_, rate)| *rate as f64).sum::<f64>()
    };
    let unlimited = sum(QuotaCase::None);
    let mut stats = Stats::new();
    for case in [QuotaCase::Own, QuotaCase::Group] {
        let ratio = (unlimited > 0.0).then(|| (sum(case) / unlimited * 1_000.0).round() / 1_000.0);
        stats.set(format!("{}_to_unlimited", case.name()), json!(ratio));
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_both_rounds() {
        let rates = [
            (QuotaCase::None, 1_000),
            (QuotaCase::Own, 900),
            (QuotaCase::Group, 300),
            (QuotaCase::Group, 200),
            (QuotaCase::Own, 700),
            (QuotaCase::None, 1_000),
        ];
        let ratios = ratios(&rates);
        assert_eq!((&ratios["own_to_unlimited"], &ratios["group_to_unlimited"]), (&json!(0.8), &json!(0.25)));
        let none = super::ratios(&[]);
        assert_eq!(none["group_to_unlimited"], json!(null));
    }
}
