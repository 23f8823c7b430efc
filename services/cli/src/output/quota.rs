//! Quotas: what users may have admitted in a band, and what they have.

use borough_model::resource::{bytes_display, cpu_display, device_display};
use borough_proto::v1;
use serde::Serialize;

use super::Foreign;
use super::table::Tabular;
use super::text::{ResourcesView, time, word};

/// The word of a band, as `--band` takes it.
pub(crate) fn band_word(band: v1::Band) -> String {
    word(band.as_str_name(), "BAND_")
}

/// Bytes with a unit in any case: `0B`. A job file reads a number without one.
fn bytes_text(bytes: u64) -> String {
    let text = bytes_display(bytes);
    if text.ends_with(|last: char| last.is_ascii_digit()) { format!("{text}B") } else { text }
}

fn rate_text(bytes_per_s: u64) -> String {
    format!("{}/s", bytes_text(bytes_per_s))
}

/// How much may be admitted at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LimitView {
    /// An amount of 0 is no limit.
    pub(crate) resources: ResourcesView,
    /// Null: no limit.
    pub(crate) tasks_max: Option<u64>,
    /// The window in which it holds; null: without a beginning, or an end.
    pub(crate) from_ms: Option<i64>,
    pub(crate) until_ms: Option<i64>,
}

impl From<v1::QuotaLimit> for LimitView {
    fn from(limit: v1::QuotaLimit) -> Self {
        Self {
            resources: limit.resources.unwrap_or_default().into(),
            tasks_max: limit.tasks_max,
            from_ms: limit.from_ms,
            until_ms: limit.until_ms,
        }
    }
}

impl LimitView {
    /// Every amount that is limited.
    fn text(&self) -> String {
        let tasks = self.tasks_max.map(|most| format!("tasks {most}"));
        let of = |amount: u64, text: String| (amount > 0).then_some(text);
        let ResourcesView {
            cpu_millis, memory_bytes, disk_bytes, disk_bytes_per_s, network_bytes_per_s, ..
        } = self.resources;
        let fixed = [
            tasks,
            of(cpu_millis, format!("cpu {}", cpu_display(cpu_millis))),
            of(memory_bytes, format!("memory {}", bytes_text(memory_bytes))),
            of(disk_bytes, format!("disk {}", bytes_text(disk_bytes))),
            of(disk_bytes_per_s, format!("disk_rate {}", rate_text(disk_bytes_per_s))),
            of(network_bytes_per_s, format!("network_rate {}", rate_text(network_bytes_per_s))),
        ];
        let devices = self.resources.device_millis.iter();
        let devices = devices.map(|(kind, amount)| format!("{kind} {}", device_display(*amount)));
        fixed.into_iter().flatten().chain(devices).collect::<Vec<_>>().join(", ")
    }

    /// When it holds; empty: always.
    fn window_text(&self) -> String {
        let from = self.from_ms.map(|at| format!("from {}", time(at)));
        let until = self.until_ms.map(|at| format!("until {}", time(at)));
        from.into_iter().chain(until).collect::<Vec<_>>().join(" ")
    }
}

/// The line of a user in a band.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct QuotaView {
    pub(crate) user: Foreign,
    pub(crate) band: String,
    /// Null: nothing is limited.
    pub(crate) limit: Option<LimitView>,
    /// What admitted tasks ask for.
    pub(crate) used: ResourcesView,
    pub(crate) used_tasks: u64,
    /// Whether the limit holds now.
    pub(crate) in_force: bool,
    /// Counts the changes of the limit; 0: it was never set.
    pub(crate) revision: u64,
}

impl From<v1::Quota> for QuotaView {
    fn from(quota: v1::Quota) -> Self {
        Self {
            band: band_word(quota.band()),
            user: quota.user.into(),
            limit: quota.limit.map(LimitView::from),
            used: quota.used.unwrap_or_default().into(),
            used_tasks: quota.used_tasks,
            in_force: quota.in_force,
            revision: quota.revision,
        }
    }
}

impl QuotaView {
    /// `used/limit`, or what is used alone.
    fn pair(used: u64, limit: u64, display: fn(u64) -> String) -> String {
        if limit == 0 { display(used) } else { format!("{}/{}", display(used), display(limit)) }
    }

    /// Whether more is admitted than the limit says. A smaller limit lets it stay.
    fn is_exceeded(&self) -> bool {
        let Some(limit) = &self.limit else { return false };
        let (used, most) = (&self.used, &limit.resources);
        let devices = most.device_millis.iter();
        let beyond = |used: u64, most: u64| most > 0 && used > most;
        limit.tasks_max.is_some_and(|most| self.used_tasks > most)
            || beyond(used.cpu_millis, most.cpu_millis)
            || beyond(used.memory_bytes, most.memory_bytes)
            || beyond(used.disk_bytes, most.disk_bytes)
            || beyond(used.disk_bytes_per_s, most.disk_bytes_per_s)
            || beyond(used.network_bytes_per_s, most.network_bytes_per_s)
            || devices
                .into_iter()
                .any(|(kind, most)| beyond(*used.device_millis.get(kind).unwrap_or(&0), *most))
    }

    fn state_text(&self) -> String {
        let Some(limit) = &self.limit else { return "no limit".to_owned() };
        let window = limit.window_text();
        let state = if !self.in_force {
            "not in force"
        } else if self.is_exceeded() {
            "exceeded"
        } else {
            "in force"
        };
        if window.is_empty() { state.to_owned() } else { format!("{state} ({window})") }
    }
}

impl Tabular for QuotaView {
    const PLURAL: &'static str = "quotas";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let more = vec!["DISK", "DISK RATE", "NETWORK RATE", "REVISION"];
        (vec!["USER", "BAND", "TASKS", "CPU", "MEMORY", "DEVICES", "LIMIT"], more)
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let none = ResourcesView::from(v1::Resources::default());
        let most = self.limit.as_ref().map_or(&none, |limit| &limit.resources);
        let tasks = match self.limit.as_ref().and_then(|limit| limit.tasks_max) {
            Some(most) => format!("{}/{most}", self.used_tasks),
            None => self.used_tasks.to_string(),
        };
        let used = &self.used;
        let mut kinds: Vec<&String> = used.device_millis.keys().chain(most.device_millis.keys()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let devices = kinds.into_iter().map(|kind| {
            let of = |all: &ResourcesView| all.device_millis.get(kind).copied().unwrap_or(0);
            format!("{kind} {}", Self::pair(of(used), of(most), device_display))
        });
        let pair = Self::pair;
        let cells = vec![
            self.user.to_string(),
            self.band.clone(),
            tasks,
            pair(used.cpu_millis, most.cpu_millis, cpu_display),
            pair(used.memory_bytes, most.memory_bytes, bytes_text),
            devices.collect::<Vec<_>>().join(", "),
            self.state_text(),
        ];
        let more = vec![
            pair(used.disk_bytes, most.disk_bytes, bytes_text),
            pair(used.disk_bytes_per_s, most.disk_bytes_per_s, rate_text),
            pair(used.network_bytes_per_s, most.network_bytes_per_s, rate_text),
            self.revision.to_string(),
        ];
        (cells, more)
    }

    fn key(&self) -> String {
        format!("{}/{}", self.user, self.band)
    }
}

/// One change of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct QuotaChangeView {
    pub(crate) band: String,
    pub(crate) revision: u64,
    pub(crate) at_ms: i64,
    pub(crate) by: Foreign,
    /// Null: the change took the limits away.
    pub(crate) limit: Option<LimitView>,
}

impl QuotaChangeView {
    pub(crate) fn new(band: v1::Band, change: v1::QuotaChange) -> Self {
        Self {
            band: band_word(band),
            revision: change.revision,
            at_ms: change.at_ms,
            by: change.by.into(),
            limit: change.limit.map(LimitView::from),
        }
    }
}

impl Tabular for QuotaChangeView {
    const PLURAL: &'static str = "changes";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["BAND", "REVISION", "TIME", "BY", "LIMIT", "WINDOW"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let limit = self.limit.as_ref();
        let cells = vec![
            self.band.clone(),
            self.revision.to_string(),
            time(self.at_ms),
            self.by.to_string(),
            limit.map_or_else(|| "no limit".to_owned(), LimitView::text),
            limit.map(LimitView::window_text).unwrap_or_default(),
        ];
        (cells, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_unit_also_if_they_are_few() {
        assert_eq!([0, 5, 1 << 20].map(bytes_text), ["0B", "5B", "1MiB"]);
        assert_eq!(rate_text(0), "0B/s");
    }
}
