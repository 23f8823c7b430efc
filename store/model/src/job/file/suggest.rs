//! Suggests the word that a misspelt one may mean.

/// The nearest candidate to `word`, if one is near enough.
pub fn nearest<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let word = plain(word);
    let scored = candidates
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &plain(candidate)), *candidate));
    let (distance, candidate) = scored.min()?;
    let mut begun = candidates.iter().filter(|name| plain(name).starts_with(&word));
    if word.len() >= 3
        && let (Some(only), None) = (begun.next(), begun.next())
    {
        return Some(only);
    }
    (distance <= (candidate.len() / 3).max(1)).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let fields = ["cpu", "memory", "disk", "network_rate"];
        assert_eq!(nearest("memroy", &fields), Some("memory"));
        assert_eq!(nearest("Memory", &fields), Some("memory"));
        assert_eq!(nearest("mem", &fields), Some("memory"));
        assert_eq!(nearest("network-rate", &fields), Some("network_rate"));
        assert_eq!(nearest("gpu", &fields), Some("cpu"));
        assert_eq!(nearest("bandwidth", &fields), None);
        assert_eq!(nearest("", &fields), None);
        let methods = ["StopJob", "StopTask"];
        assert_eq!(nearest("StopJbo", &methods), Some("StopJob"));
        assert_eq!(nearest("stopt", &methods), Some("StopTask"));
    }
}
