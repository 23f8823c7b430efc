//! The dimensions of resources by name, so that code for one dimension works for all.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Resources, bytes_display, bytes_rounded, cpu_display, device_display, rate_display};

/// One dimension of [`Resources`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Thousandths of a core.
    Cpu,
    Memory,
    /// Bytes of local disk.
    Disk,
    /// Bytes per second of disk access.
    DiskRate,
    /// Bytes per second of network.
    NetworkRate,
    /// Thousandths of a device of this kind.
    Device(String),
}

impl Dimension {
    /// The dimensions of every node; devices are additional, by kind.
    pub const FIXED: [Self; 5] = [Self::Cpu, Self::Memory, Self::Disk, Self::DiskRate, Self::NetworkRate];

    /// An amount in this dimension, rounded for people: `500m`, `22.1GiB`, `10MiB/s`.
    pub fn amount_rounded(&self, amount: u64) -> String {
        match self {
            Self::Memory | Self::Disk => bytes_rounded(amount),
            Self::DiskRate | Self::NetworkRate => format!("{}/s", bytes_rounded(amount)),
            Self::Cpu | Self::Device(_) => self.amount_display(amount),
        }
    }

    /// An amount in this dimension as a person writes it: `500m`, `64MiB`, `10MiB/s`.
    pub fn amount_display(&self, amount: u64) -> String {
        match self {
            Self::Cpu => cpu_display(amount),
            Self::Memory | Self::Disk => bytes_display(amount),
            Self::DiskRate | Self::NetworkRate => rate_display(amount),
            Self::Device(_) => device_display(amount),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Memory => f.write_str("memory"),
            Self::Disk => f.write_str("disk"),
            Self::DiskRate => f.write_str("disk_rate"),
            Self::NetworkRate => f.write_str("network_rate"),
            Self::Device(kind) => write!(f, "device {kind}"),
        }
    }
}

impl Resources {
    /// The amount in a dimension, in its unit; 0 if absent.
    pub fn amount(&self, dimension: &Dimension) -> u64 {
        match dimension {
            Dimension::Cpu => self.cpu_millis,
            Dimension::Memory => self.memory_bytes,
            Dimension::Disk => self.disk_bytes,
            Dimension::DiskRate => self.disk_bytes_per_s,
            Dimension::NetworkRate => self.network_bytes_per_s,
            Dimension::Device(kind) => self.device_millis.get(kind).copied().unwrap_or(0),
        }
    }

    /// Sets the amount in a dimension. A device amount of 0 leaves no entry, so that equal amounts are equal values.
    pub fn amount_set(&mut self, dimension: &Dimension, amount: u64) {
        match dimension {
            Dimension::Cpu => self.cpu_millis = amount,
            Dimension::Memory => self.memory_bytes = amount,
            Dimension::Disk => self.disk_bytes = amount,
            Dimension::DiskRate => self.disk_bytes_per_s = amount,
            Dimension::NetworkRate => self.network_bytes_per_s = amount,
            Dimension::Device(kind) if amount == 0 => {
                self.device_millis.remove(kind);
            }
            Dimension::Device(kind) => {
                self.device_millis.insert(kind.clone(), amount);
            }
        }
    }

    /// Every dimension with its amount: the five fixed ones, then devices by kind.
    pub fn amounts(&self) -> Vec<(Dimension, u64)> {
        let fixed = Dimension::FIXED.into_iter().map(|dimension| {
            let amount = self.amount(&dimension);
            (dimension, amount)
        });
        let devices =
            self.device_millis.iter().map(|(kind, &amount)| (Dimension::Device(kind.clone()), amount));
        fixed.chain(devices).collect()
    }

    /// Returns true if the amount is 0 in every dimension.
    pub fn is_zero(&self) -> bool {
        Dimension::FIXED.iter().all(|dimension| self.amount(dimension) == 0)
            && self.device_millis.values().all(|&amount| amount == 0)
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = self.amounts().into_iter().filter(|&(_, amount)| amount > 0);
        let parts: Vec<String> = present
            .map(|(dimension, amount)| format!("{dimension} {}", dimension.amount_display(amount)))
            .collect();
        if parts.is_empty() { f.write_str("nothing") } else { f.write_str(&parts.join(", ")) }
    }
}
