//! The order in which tasks of a trace arrive.

use borough_kv::env::SeededRng;

use super::openb::OpenbTask;

/// How the order of arrival is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TaskOrder {
    /// Every task of the trace once, shuffled, then tasks drawn at random, as the authors of the experiment do
    TraceThenDrawn,
    /// All drawn at random, so that a task may come twice before another comes at all
    Drawn,
}

/// The demand for cards at which arrivals end.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandLimit {
    /// The cards of all nodes, in thousandths of a card.
    pub capacity_millis: u64,
    /// Thousandths of the capacity.
    pub per_mille: u64,
}

/// The numbers of the arriving tasks, in order. They end before the first task that would raise the demand for cards
/// above `limit`.
pub(super) fn arrivals(tasks: &[OpenbTask], order: TaskOrder, seed: u64, limit: DemandLimit) -> Vec<usize> {
    let DemandLimit { capacity_millis, per_mille } = limit;
    let rng = SeededRng::shared(seed);
    let below = |end: usize| usize::try_from(rng.next_u64() % end.max(1) as u64).unwrap_or(0);
    let limit = u128::from(capacity_millis) * u128::from(per_mille) / 1000;
    let mut first: Vec<usize> = match order {
        TaskOrder::TraceThenDrawn => (0..tasks.len()).collect(),
        TaskOrder::Drawn => Vec::new(),
    };
    for place in (1..first.len()).rev() {
        first.swap(place, below(place + 1));
    }
    let mut demand = 0_u128;
    let mut arrived = Vec::new();
    let drawn = std::iter::from_fn(|| Some(below(tasks.len())));
    for number in first.into_iter().chain(drawn) {
        let Some(task) = tasks.get(number) else { break };
        demand += u128::from(task.gpu_millis);
        if demand > limit {
            break;
        }
        arrived.push(number);
    }
    arrived
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Vec<OpenbTask> {
        let task = |gpu_millis| OpenbTask {
            cpu_millis: 1,
            memory_mib: 1,
            gpu_millis,
            models: Vec::new(),
            service: false,
        };
        (1..=50).map(|number| task(number * 20)).collect()
    }

    #[test]
    fn arrivals_end_at_the_demand_and_follow_from_the_seed() {
        let tasks = tasks();
        let demand: u64 = tasks.iter().map(|task| task.gpu_millis).sum();
        let limit = DemandLimit { capacity_millis: demand, per_mille: 1300 };
        for order in [TaskOrder::TraceThenDrawn, TaskOrder::Drawn] {
            let of_seed = |seed| arrivals(&tasks, order, seed, limit);
            let total: u64 = of_seed(1).into_iter().map(|number| tasks[number].gpu_millis).sum();
            assert!(total <= demand * 13 / 10 && total + 1000 > demand * 13 / 10, "{total} of {demand}");
            assert_eq!(of_seed(1), of_seed(1));
            assert_ne!(of_seed(1), of_seed(2));
        }
    }

    #[test]
    fn the_whole_trace_comes_first() {
        let tasks = tasks();
        let demand: u64 = tasks.iter().map(|task| task.gpu_millis).sum();
        let limit = DemandLimit { capacity_millis: demand, per_mille: 1300 };
        let mut first = arrivals(&tasks, TaskOrder::TraceThenDrawn, 7, limit)[..50].to_vec();
        assert_ne!(first, (0..50).collect::<Vec<_>>());
        first.sort_unstable();
        assert_eq!(first, (0..50).collect::<Vec<_>>());
    }
}
