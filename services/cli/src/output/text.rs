//! Words and numbers as people read them.

use borough_model::node::is_domain_memory;
use borough_model::resource::{cpu_display, device_display, rate_display};
use borough_proto::v1;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

use super::Foreign;

/// Milliseconds since 1970 in RFC 3339, UTC, to the second; `-` for none.
pub(crate) fn time(ms: i64) -> String {
    let Ok(past) = u64::try_from(ms) else { return "-".to_owned() };
    if past == 0 {
        return "-".to_owned();
    }
    let moment = std::time::UNIX_EPOCH + std::time::Duration::from_millis(past);
    humantime::format_rfc3339_seconds(moment).to_string()
}

/// A length of time in milliseconds in its largest unit, cut: `45s`, `5m`, `3h`, `12d`.
pub(crate) fn age(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A time with its milliseconds.
pub(super) fn time_exact(ms: i64) -> String {
    let since = std::time::Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}

pub(crate) use borough_model::resource::bytes_rounded as bytes;

/// An amount in every dimension, in a job file's terms.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ResourcesView {
    pub(crate) cpu_millis: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) disk_bytes_per_s: u64,
    pub(crate) network_bytes_per_s: u64,
    pub(crate) device_millis: BTreeMap<String, u64>,
}

impl From<v1::Resources> for ResourcesView {
    fn from(message: v1::Resources) -> Self {
        Self {
            cpu_millis: message.cpu_millis,
            memory_bytes: message.memory_bytes,
            disk_bytes: message.disk_bytes,
            disk_bytes_per_s: message.disk_bytes_per_s,
            network_bytes_per_s: message.network_bytes_per_s,
            device_millis: message.device_millis.into_iter().collect(),
        }
    }
}

impl ResourcesView {
    /// Every dimension that has an amount.
    pub(crate) fn text(&self) -> String {
        let devices = self.device_millis.iter().map(|(kind, &amount)| device_text(kind, amount));
        self.text_with(devices)
    }

    /// The same without the domains of a machine: they say how it is divided, and several machines have the same.
    pub(crate) fn text_of_whole(&self) -> String {
        let devices = self.device_millis.iter().filter(|(kind, _)| domain_of(kind).is_none());
        self.text_with(devices.map(|(kind, &amount)| device_text(kind, amount)))
    }

    /// How a machine is divided: `NUMA node 0: cpu 2, memory 23.5GiB; socket 0: ...`. Empty: not known.
    pub(crate) fn domains_text(&self) -> String {
        let domains: BTreeSet<(&str, &str)> =
            self.device_millis.keys().filter_map(|kind| domain_of(kind)).collect();
        let amount = |kind: String, show: fn(u64) -> String, what: &str| {
            self.device_millis.get(&kind).map(|&amount| format!("{what} {}", show(amount)))
        };
        let text = |(kind, number): (&str, &str)| {
            let cpu = amount(format!("{kind}/{number}"), device_display, "cpu");
            let memory = amount(format!("{kind}.memory/{number}"), bytes, "memory");
            let name = if kind == "numa" { "NUMA node" } else { kind };
            let amounts: Vec<String> = cpu.into_iter().chain(memory).collect();
            format!("{name} {number}: {}", amounts.join(", "))
        };
        domains.into_iter().map(text).collect::<Vec<_>>().join("; ")
    }

    fn text_with(&self, devices: impl Iterator<Item = String>) -> String {
        let mut parts = vec![
            format!("cpu {}", cpu_display(self.cpu_millis)),
            format!("memory {}", bytes(self.memory_bytes)),
        ];
        if self.disk_bytes > 0 {
            parts.push(format!("disk {}", bytes(self.disk_bytes)));
        }
        if self.disk_bytes_per_s > 0 {
            parts.push(format!("disk_rate {}", rate_display(self.disk_bytes_per_s)));
        }
        if self.network_bytes_per_s > 0 {
            parts.push(format!("network_rate {}", rate_display(self.network_bytes_per_s)));
        }
        parts.extend(devices);
        parts.join(", ")
    }
}

/// The kind and the number of the domain of a machine that a dimension is about, such as `numa.memory/0`.
fn domain_of(dimension: &str) -> Option<(&'static str, &str)> {
    let (kind, number) = dimension.split_once('/')?;
    let kind = ["numa", "socket"]
        .into_iter()
        .find(|known| kind == *known || kind.strip_suffix(".memory") == Some(known))?;
    Some((kind, number))
}

/// An amount of a device, or of a domain of the machine: `gpu 0.5`, `numa.memory/0 23.5GiB`.
fn device_text(kind: &str, amount: u64) -> String {
    if is_domain_memory(kind) {
        format!("{kind} {}", bytes(amount))
    } else {
        format!("{kind} {}", device_display(amount))
    }
}

/// The name of a protobuf enumeration's value in snake_case, without the enumeration's own name.
pub(crate) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

/// The labels of something, in one line.
pub(crate) fn labels_text(name: &str, labels: &BTreeMap<Foreign, Foreign>) -> String {
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let pairs = if pairs.is_empty() { "no labels".to_owned() } else { pairs.join(",") };
    format!("{name}: {pairs}")
}

/// Indexes as ranges: `0-3, 7`.
pub(crate) fn ranges(indexes: &[u32]) -> String {
    let mut sorted = indexes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in sorted {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let text = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let texts = ranges.iter().map(text);
    texts.collect::<Vec<_>>().join(", ")
}

/// `1 task`, `2 tasks`.
pub(crate) fn tally(number: usize, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    }
}

/// Lines of a label and a text, with aligned texts. Skips empty texts. Line ends within a text are escaped, so that no
/// text makes a line of its own.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let lines = facts.iter().filter(|(_, text)| !text.is_empty());
    lines.map(|(label, text)| format!("{label:width$}  {}\n", text.replace('\n', "\\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_its_largest_unit() {
        let of = |seconds: i64| age(seconds * 1_000);
        assert_eq!([of(0), of(119), of(120), of(7_199)], ["0s", "119s", "2m", "119m"]);
        assert_eq!([of(7_200), of(172_799), of(172_800)], ["2h", "47h", "2d"]);
    }

    #[test]
    fn the_memory_of_a_domain_is_bytes_and_a_card_is_a_number() {
        assert_eq!(device_text("numa.memory/0", 25_276_510_208), "numa.memory/0 23.5GiB");
        assert_eq!(device_text("socket.memory/1", 1 << 30), "socket.memory/1 1GiB");
        assert_eq!(device_text("numa/0", 2_000), "numa/0 2");
        assert_eq!(device_text("gpu", 500), "gpu 0.5");
    }

    #[test]
    fn the_domains_of_a_machine_stand_apart_from_what_it_has() {
        let mut view = ResourcesView { cpu_millis: 2_000, memory_bytes: 1 << 30, ..ResourcesView::default() };
        for (kind, amount) in
            [("numa/0", 2_000), ("numa.memory/0", 1 << 30), ("socket/0", 2_000), ("gpu", 1_000)]
        {
            view.device_millis.insert(kind.to_owned(), amount);
        }
        assert_eq!(view.text_of_whole(), "cpu 2, memory 1GiB, gpu 1");
        assert_eq!(view.domains_text(), "NUMA node 0: cpu 2, memory 1GiB; socket 0: cpu 2");
        assert!(view.text().contains("numa/0 2"), "{}", view.text());
        assert_eq!(ResourcesView::default().domains_text(), "");
    }
}
