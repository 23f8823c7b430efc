//! Quotas: what users and groups may have admitted in a band, and what they have.

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
    /// Such as `group/shop`; empty: none.
    pub(crate) parent: Foreign,
    /// What may be admitted beyond the amounts; null: nothing.
    pub(crate) borrow: Option<BorrowView>,
}

/// What may be admitted beyond the amounts while the parent has room.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BorrowView {
    pub(crate) all: bool,
    /// An amount of 0 is nothing.
    pub(crate) resources: ResourcesView,
    pub(crate) tasks: u64,
}

impl From<v1::QuotaBorrow> for BorrowView {
    fn from(borrow: v1::QuotaBorrow) -> Self {
        let v1::QuotaBorrow { all, resources, tasks } = borrow;
        Self { all, resources: resources.unwrap_or_default().into(), tasks }
    }
}

impl BorrowView {
    fn text(&self) -> String {
        if self.all {
            "all".to_owned()
        } else {
            amounts_text(Some(self.tasks).filter(|tasks| *tasks > 0), &self.resources)
        }
    }
}

/// Every amount that is not 0, and the tasks.
fn amounts_text(tasks: Option<u64>, resources: &ResourcesView) -> String {
    let of = |amount: u64, text: String| (amount > 0).then_some(text);
    let ResourcesView { cpu_millis, memory_bytes, disk_bytes, disk_bytes_per_s, network_bytes_per_s, .. } =
        *resources;
    let fixed = [
        tasks.map(|tasks| format!("tasks {tasks}")),
        of(cpu_millis, format!("cpu {}", cpu_display(cpu_millis))),
        of(memory_bytes, format!("memory {}", bytes_text(memory_bytes))),
        of(disk_bytes, format!("disk {}", bytes_text(disk_bytes))),
        of(disk_bytes_per_s, format!("disk_rate {}", rate_text(disk_bytes_per_s))),
        of(network_bytes_per_s, format!("network_rate {}", rate_text(network_bytes_per_s))),
    ];
    let devices = resources.device_millis.iter().filter(|(_, amount)| **amount > 0);
    let devices = devices.map(|(kind, amount)| format!("{kind} {}", device_display(*amount)));
    fixed.into_iter().flatten().chain(devices).collect::<Vec<_>>().join(", ")
}

impl From<v1::QuotaLimit> for LimitView {
    fn from(limit: v1::QuotaLimit) -> Self {
        Self {
            resources: limit.resources.unwrap_or_default().into(),
            tasks_max: limit.tasks_max,
            from_ms: limit.from_ms,
            until_ms: limit.until_ms,
            parent: limit.parent.into(),
            borrow: limit.borrow.map(BorrowView::from),
        }
    }
}

impl LimitView {
    /// Every amount that is limited, and what is above.
    fn text(&self) -> String {
        let amounts = amounts_text(self.tasks_max, &self.resources);
        let parent = (!self.parent.is_empty()).then(|| format!("below {}", self.parent));
        let borrow = self.borrow.as_ref().map(|borrow| format!("borrows {}", borrow.text()));
        let parts = [Some(amounts).filter(|amounts| !amounts.is_empty()), parent, borrow];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Whether it limits something itself. Otherwise it only counts for its parent.
    fn is_own(&self) -> bool {
        !amounts_text(self.tasks_max, &self.resources).is_empty()
    }

    /// When it holds; empty: always.
    fn window_text(&self) -> String {
        let from = self.from_ms.map(|at| format!("from {}", time(at)));
        let until = self.until_ms.map(|at| format!("until {}", time(at)));
        from.into_iter().chain(until).collect::<Vec<_>>().join(" ")
    }
}

/// The line of a user or a group in a band.
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

    /// What is admitted beyond the limit; empty: nothing. A smaller limit lets it stay.
    fn beyond_text(&self) -> String {
        let Some(limit) = &self.limit else { return String::new() };
        let (used, most) = (&self.used, &limit.resources);
        let over = |used: u64, most: u64| if most > 0 { used.saturating_sub(most) } else { 0 };
        let device = |(kind, most): (&String, &u64)| {
            (kind.clone(), over(*used.device_millis.get(kind).unwrap_or(&0), *most))
        };
        let beyond = v1::Resources {
            cpu_millis: over(used.cpu_millis, most.cpu_millis),
            memory_bytes: over(used.memory_bytes, most.memory_bytes),
            disk_bytes: over(used.disk_bytes, most.disk_bytes),
            disk_bytes_per_s: over(used.disk_bytes_per_s, most.disk_bytes_per_s),
            network_bytes_per_s: over(used.network_bytes_per_s, most.network_bytes_per_s),
            device_millis: most.device_millis.iter().map(device).collect(),
        };
        let tasks = limit.tasks_max.map(|most| self.used_tasks.saturating_sub(most));
        amounts_text(tasks.filter(|tasks| *tasks > 0), &beyond.into())
    }

    /// Whether it may have what it has beyond the limit.
    fn may_borrow(&self, limit: &LimitView) -> bool {
        let Some(borrow) = &limit.borrow else { return false };
        let tasks = limit.tasks_max.map_or(0, |most| self.used_tasks.saturating_sub(most));
        let (used, most, given) = (&self.used, &limit.resources, &borrow.resources);
        let within = |used: u64, most: u64, given: u64| most == 0 || used.saturating_sub(most) <= given;
        let device = |(kind, most): (&String, &u64)| {
            let of = |of: &ResourcesView| of.device_millis.get(kind).copied().unwrap_or(0);
            within(of(used), *most, of(given))
        };
        borrow.all
            || (tasks <= borrow.tasks
                && within(used.cpu_millis, most.cpu_millis, given.cpu_millis)
                && within(used.memory_bytes, most.memory_bytes, given.memory_bytes)
                && within(used.disk_bytes, most.disk_bytes, given.disk_bytes)
                && within(used.disk_bytes_per_s, most.disk_bytes_per_s, given.disk_bytes_per_s)
                && within(used.network_bytes_per_s, most.network_bytes_per_s, given.network_bytes_per_s)
                && most.device_millis.iter().all(device))
    }

    fn state_text(&self) -> String {
        let Some(limit) = &self.limit else {
            // There a user without a quota needs the right for any job.
            return if self.needs_right() { "no limit, with raise_priority" } else { "no limit" }.to_owned();
        };
        if !limit.is_own() {
            return "no limit of its own".to_owned();
        }
        let beyond = self.beyond_text();
        let state = if !self.in_force {
            "not in force".to_owned()
        } else if beyond.is_empty() {
            "in force".to_owned()
        } else if self.may_borrow(limit) {
            format!("borrows {beyond}")
        } else {
            "exceeded".to_owned()
        };
        let window = limit.window_text();
        if window.is_empty() {
            return state;
        }
        let then =
            if self.in_force && limit.until_ms.is_some() { self.after_text(limit) } else { String::new() };
        format!("{state} ({window}{then})")
    }

    fn needs_right(&self) -> bool {
        ["production", "monitoring"].contains(&self.band.as_str())
    }

    /// What holds once the window has closed.
    fn after_text(&self, limit: &LimitView) -> String {
        let needs_right = self.needs_right();
        let left = if needs_right { "nothing new without raise_priority" } else { "no limit" };
        if limit.parent.is_empty() || needs_right {
            return format!("; then {left}");
        }
        format!("; then only that of {}", limit.parent)
    }
}

impl Tabular for QuotaView {
    const PLURAL: &'static str = "quotas";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let more = vec!["DISK", "DISK RATE", "NETWORK RATE", "BORROWS", "REVISION"];
        (vec!["HOLDER", "BAND", "TASKS", "CPU", "MEMORY", "DEVICES", "PARENT", "LIMIT"], more)
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
            self.limit.as_ref().map(|limit| limit.parent.to_string()).unwrap_or_default(),
            self.state_text(),
        ];
        let more = vec![
            pair(used.disk_bytes, most.disk_bytes, bytes_text),
            pair(used.disk_bytes_per_s, most.disk_bytes_per_s, rate_text),
            pair(used.network_bytes_per_s, most.network_bytes_per_s, rate_text),
            self.limit
                .as_ref()
                .and_then(|limit| limit.borrow.as_ref())
                .map(BorrowView::text)
                .unwrap_or_default(),
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
