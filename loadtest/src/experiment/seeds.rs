//! The seeds of an experiment, run by as many threads as there are cores.

use std::ops::RangeInclusive;

/// Seeds, first and last: a number, or two with a dash between them.
pub(super) fn seeds_parsed(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err("seeds are a number, or the first and the last with a dash between them".to_owned()),
    }
}

/// Runs each seed, and returns the results in the order of the seeds.
pub(super) fn by_seed<T: Send>(
    seeds: RangeInclusive<u64>,
    run: impl Fn(u64) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let seeds: Vec<u64> = seeds.collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let of_threads = std::thread::scope(|scope| {
        let of_thread = |thread: usize| {
            let (seeds, run) = (&seeds, &run);
            scope.spawn(move || -> anyhow::Result<Vec<(u64, T)>> {
                let own = seeds.iter().skip(thread).step_by(threads);
                own.map(|&seed| Ok((seed, run(seed)?))).collect()
            })
        };
        let workers: Vec<_> = (0..threads).map(of_thread).collect();
        workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for of_thread in of_threads {
        all.extend(of_thread.map_err(|_| anyhow::anyhow!("a run of the experiment panicked"))??);
    }
    all.sort_by_key(|&(seed, _)| seed);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        assert_eq!(seeds_parsed("42-51"), Ok((42, 51)));
        assert_eq!(seeds_parsed("7"), Ok((7, 7)));
        assert!(seeds_parsed("9-3").is_err() && seeds_parsed("x").is_err());
    }

    #[test]
    fn results_come_in_the_order_of_their_seeds() {
        assert_eq!(by_seed(3..=9, |seed| Ok(seed * 2)).unwrap(), [6, 8, 10, 12, 14, 16, 18]);
        let failed = by_seed(3..=9, |seed| if seed == 8 { anyhow::bail!("no") } else { Ok(seed) });
        assert!(failed.is_err());
    }
}
