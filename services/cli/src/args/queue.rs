//! Queues, and rules for schedulers, on the command line.

use borough_proto::v1::Queue;

/// `PATH[:weight=N,guaranteed=PERCENT%,limit=PERCENT%]`.
pub(super) fn queue(text: &str) -> Result<Queue, String> {
    let (path, facts) = text.split_once(':').unwrap_or((text, ""));
    if path.contains('=') {
        return Err("has no path before its facts; accepted: PATH, or PATH:weight=N,guaranteed=PERCENT%,limit=PERCENT%"
            .to_owned());
    }
    let mut queue = Queue { path: path.to_owned(), ..Queue::default() };
    for fact in facts.split(',').map(str::trim).filter(|fact| !fact.is_empty()) {
        let (key, value) = fact.split_once('=').unwrap_or((fact, ""));
        match key {
            "weight" => {
                let weight = value.parse().ok().filter(|weight| (1..=1000).contains(weight));
                queue.weight = weight.ok_or_else(|| {
                    format!("has the weight {value:?}; accepted: a whole number, 1 to 1000")
                })?;
            }
            "guaranteed" => queue.guaranteed_per_mille = per_mille(value)?,
            "limit" => {
                let limit = Some(per_mille(value)?).filter(|limit| *limit > 0);
                queue.limit_per_mille =
                    limit.ok_or("has a limit that would let nothing run; accepted: 0.1% to 100%")?;
            }
            _ => return Err(format!("has {key:?}; accepted: weight, guaranteed, limit")),
        }
    }
    Ok(queue)
}

/// `WORK=SCHEDULER`. The cell checks both names.
pub(super) fn scheduler_rule(text: &str) -> Result<(String, String), String> {
    let rule = text.split_once('=').map(|(work, scheduler)| (work.trim(), scheduler.trim()));
    match rule.filter(|(work, scheduler)| !work.is_empty() && !scheduler.is_empty()) {
        Some((_, "none")) => {
            Err("names no scheduler; to give all work to the default one again: --no-schedulers".to_owned())
        }
        Some((work, scheduler)) => Ok((work.to_owned(), scheduler.to_owned())),
        None => Err("accepted: WORK=SCHEDULER, such as batch=fast".to_owned()),
    }
}

/// A percentage with one decimal at most, in thousandths.
fn per_mille(text: &str) -> Result<u32, String> {
    let wrong =
        || format!("has the share {text:?}; accepted: 0% to 100% with one decimal at most, such as 12.5%");
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() != 1 {
        return Err(wrong());
    }
    let (whole, part): (u32, u32) = (whole.parse().map_err(|_| wrong())?, part.parse().map_err(|_| wrong())?);
    let per_mille = whole.checked_mul(10).and_then(|whole| whole.checked_add(part));
    per_mille.filter(|per_mille| *per_mille <= 1000).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_work_and_a_scheduler() {
        assert_eq!(scheduler_rule("band:batch=fast"), Ok(("band:batch".to_owned(), "fast".to_owned())));
        for wrong in ["batch", "=fast", "batch=", "batch = "] {
            assert!(scheduler_rule(wrong).unwrap_err().contains("batch=fast"), "{wrong}");
        }
    }

    #[test]
    fn a_queue_is_a_path_with_facts() {
        let of = |weight, guaranteed_per_mille, limit_per_mille| {
            Ok(Queue { path: "a/b".to_owned(), weight, guaranteed_per_mille, limit_per_mille })
        };
        assert_eq!(queue("a/b"), of(0, 0, 0));
        assert_eq!(queue("a/b:weight=3,guaranteed=12.5%, limit=100%"), of(3, 125, 1000));
        for wrong in
            ["a:weight=0", "a:weight=x", "a:guaranteed=5", "a:limit=0%", "a:limit=100.1%", "a:limit=1.25%"]
        {
            assert!(queue(wrong).is_err(), "{wrong}");
        }
        assert!(queue("a:limit=NaN%").unwrap_err().contains("12.5%"));
        assert!(queue("a:share=1").unwrap_err().contains("guaranteed"));
    }
}
