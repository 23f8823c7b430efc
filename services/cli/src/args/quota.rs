//! Verbs on quotas.

use std::time::UNIX_EPOCH;

use borough_model::access::AccessSubject;
use borough_model::quota::quota_holder_parse;
use borough_model::resource::{bytes_parse, cpu_parse, device_parse, rate_parse};
use borough_proto::v1::Band;
use clap::{Args, Subcommand};

use super::list::ListArguments;

/// What a quota counts.
const QUOTA_NOTES: &str = "A quota counts what admitted tasks ask for, also those that wait for a node. It limits new \
    jobs, larger counts and changed files. Tasks that are admitted stay, also beyond a smaller quota.\n\n\
    A quota with a parent counts for the group there too, and for every group above. Its jobs need room in all of them. \
    A new parent holds for new jobs: those that are admitted stay charged where they are.\n\n\
    --borrow lets a holder go beyond its own amounts while the parent has room. Nothing is evicted to take borrowed \
    room back: the parent has it again when the tasks end.\n\n\
    Nothing limits a user without a quota in a band. But once the cell has grants, such a user needs the right \
    raise_priority for jobs of production and monitoring. A service is of production unless its file has a priority \
    below 200. Batch work and best effort need neither.";

/// Verbs on quotas.
#[derive(Debug, Subcommand)]
pub enum QuotaVerb {
    /// List how much each user and group has admitted in each band, and how much it may
    List {
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show how much a user or a group has admitted in each band, and how much it may. Of a user it also shows the
    /// groups above, and of a group who is below
    Status {
        /// A user, such as ann, or a group, such as group/shop [default: you]
        #[arg(id = "of_user", value_name = "HOLDER")]
        user: Option<String>,
    },
    /// Say how much a user or a group may have admitted in a band; what is not named stays
    #[command(after_help = QUOTA_NOTES)]
    Set(Box<QuotaSet>),
    /// Take the limits of a user or a group in a band away
    Remove(QuotaTarget),
    /// Show who changed the limits of a user or a group, when, and to what: the last ten changes of each band
    History {
        /// A user, such as ann, or a group, such as group/shop
        #[arg(id = "of_user", value_name = "HOLDER")]
        user: String,
        /// batch (priority 100-199), production (200-299) or monitoring (300-399) [default: all three]
        #[arg(long, value_parser = band, value_name = "BAND")]
        band: Option<Band>,
    },
}

/// A user or a group in a band.
#[derive(Clone, Debug, Args)]
pub struct QuotaTarget {
    /// A user, such as ann, or a group, such as group/shop
    // An id of its own: with that of `--user` the call would be made in the name of this user.
    #[arg(id = "of_user", value_name = "HOLDER")]
    pub user: String,
    /// batch (priority 100-199), production (200-299) or monitoring (300-399)
    #[arg(long, value_parser = band, value_name = "BAND")]
    pub band: Band,
}

/// `quota set`.
#[derive(Clone, Debug, Args)]
pub struct QuotaSet {
    #[command(flatten)]
    pub target: QuotaTarget,
    /// Tasks at once, from 0, or none: no limit
    #[arg(long, value_parser = tasks, value_name = "N")]
    pub tasks: Option<LimitAmount>,
    /// Cores, such as 16 or 500m, or none
    #[arg(long, value_parser = cpu, value_name = "CORES")]
    pub cpu: Option<LimitAmount>,
    /// Memory, such as 64GiB, or none
    #[arg(long, value_parser = bytes, value_name = "BYTES")]
    pub memory: Option<LimitAmount>,
    /// Disk, such as 1TiB, or none
    #[arg(long, value_parser = bytes, value_name = "BYTES")]
    pub disk: Option<LimitAmount>,
    /// Bytes to and from disks per second, such as 1GiB/s, or none
    #[arg(long, value_parser = rate, value_name = "RATE")]
    pub disk_rate: Option<LimitAmount>,
    /// Bytes to and from networks per second, such as 1GiB/s, or none
    #[arg(long, value_parser = rate, value_name = "RATE")]
    pub network_rate: Option<LimitAmount>,
    /// Countable devices, such as gpu=8 or gpu=none; repeat for more
    #[arg(long = "device", value_name = "KIND=AMOUNT", value_parser = device)]
    pub devices: Vec<(String, LimitAmount)>,
    /// From this time on, such as 2027-01-31T08:00:00Z, or none: since ever
    #[arg(long, value_parser = moment, value_name = "TIME")]
    pub from: Option<LimitTime>,
    /// Up to this time, or none: for ever
    #[arg(long, value_parser = moment, value_name = "TIME")]
    pub until: Option<LimitTime>,
    /// The group whose quota in the band counts too, such as group/shop, or none
    #[arg(long, value_parser = parent, value_name = "GROUP")]
    pub parent: Option<LimitParent>,
    /// What may be admitted beyond the amounts while the parent has room: all, none, or NAME=AMOUNT, such as tasks=10,
    /// cpu=8 or memory=64GiB; repeat for more. It replaces what could be borrowed before
    #[arg(long, value_parser = borrow, value_name = "WHAT")]
    pub borrow: Vec<LimitBorrow>,
}

/// What is above a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitParent {
    None,
    /// Such as `group/shop`.
    Group(String),
}

/// What a limit may borrow, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitBorrow {
    None,
    All,
    Tasks(u64),
    Cpu(u64),
    Memory(u64),
    Disk(u64),
    DiskRate(u64),
    NetworkRate(u64),
    Device { kind: String, amount: u64 },
}

/// A limit of one amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAmount {
    None,
    Of(u64),
}

/// An end of the window of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitTime {
    None,
    /// Wall time, milliseconds since 1970.
    At(i64),
}

/// The words that `--band` takes.
const BANDS: [(&str, Band); 3] =
    [("batch", Band::Batch), ("production", Band::Production), ("monitoring", Band::Monitoring)];

/// The words that `--band` takes.
pub(crate) fn band_names() -> impl Iterator<Item = &'static str> {
    BANDS.iter().map(|(word, _)| *word)
}

fn band(text: &str) -> Result<Band, String> {
    let found = BANDS.iter().find(|(word, _)| *word == text);
    let best_effort = if text == "best_effort" { "; best effort has no limits" } else { "" };
    found
        .map(|(_, band)| *band)
        .ok_or_else(|| format!("accepted: batch, production, monitoring{best_effort}"))
}

/// An amount that `accepted` describes for people, or none. 0 would be no limit.
fn amount(text: &str, read: impl Fn(&str) -> Option<u64>, accepted: &str) -> Result<LimitAmount, String> {
    if text == "none" {
        return Ok(LimitAmount::None);
    }
    let amount = read(text).filter(|amount| *amount > 0 && i64::try_from(*amount).is_ok());
    amount.map(LimitAmount::Of).ok_or_else(|| format!("accepted: {accepted}, or none for no limit"))
}

fn tasks(text: &str) -> Result<LimitAmount, String> {
    if text == "0" {
        return Ok(LimitAmount::Of(0));
    }
    amount(text, |text| text.parse().ok(), "a whole number from 0")
}

fn cpu(text: &str) -> Result<LimitAmount, String> {
    amount(text, |text| cpu_parse(text).ok(), "more than 0 cores, such as 16 or 500m")
}

/// The least limit of memory and of disk. No job asks for less, so a smaller one is a number without its unit.
const BYTES_MIN: u64 = 1 << 20;

fn bytes(text: &str) -> Result<LimitAmount, String> {
    let read = |text: &str| bytes_parse(text).ok().filter(|bytes| *bytes >= BYTES_MIN);
    amount(text, read, "1MiB or more, such as 64GiB")
}

fn rate(text: &str) -> Result<LimitAmount, String> {
    amount(text, |text| rate_parse(text).ok(), "more than 0 bytes per second, such as 1GiB/s")
}

fn device(text: &str) -> Result<(String, LimitAmount), String> {
    let accepted = "KIND=AMOUNT, such as gpu=8 or gpu=none";
    let (kind, number) = text.split_once('=').ok_or_else(|| format!("accepted: {accepted}"))?;
    if kind.is_empty() {
        return Err(format!("accepted: {accepted}"));
    }
    Ok((
        kind.to_owned(),
        amount(number, |text| device_parse(text).ok(), "more than 0 devices, such as gpu=8")?,
    ))
}

fn parent(text: &str) -> Result<LimitParent, String> {
    if text == "none" {
        return Ok(LimitParent::None);
    }
    match quota_holder_parse(text) {
        Ok(AccessSubject::Group(_)) => Ok(LimitParent::Group(text.to_owned())),
        Ok(AccessSubject::User(_)) | Err(_) => {
            Err("accepted: group/NAME of a group, such as group/shop, or none".to_owned())
        }
    }
}

fn borrow(text: &str) -> Result<LimitBorrow, String> {
    let accepted = "accepted: all, none, or NAME=AMOUNT, such as tasks=10, cpu=8, memory=64GiB or gpu=2";
    match text {
        "all" => return Ok(LimitBorrow::All),
        "none" => return Ok(LimitBorrow::None),
        _ => {}
    }
    let (name, amount) = text.split_once('=').ok_or(accepted)?;
    let read = match name {
        "tasks" => amount.parse().ok().filter(|tasks| *tasks > 0).map(LimitBorrow::Tasks),
        "cpu" => cpu_parse(amount).ok().map(LimitBorrow::Cpu),
        "memory" => bytes_parse(amount).ok().map(LimitBorrow::Memory),
        "disk" => bytes_parse(amount).ok().map(LimitBorrow::Disk),
        "disk_rate" => rate_parse(amount).ok().map(LimitBorrow::DiskRate),
        "network_rate" => rate_parse(amount).ok().map(LimitBorrow::NetworkRate),
        "" => None,
        kind => {
            let of_kind = |amount| LimitBorrow::Device { kind: kind.to_owned(), amount };
            device_parse(amount).ok().map(of_kind)
        }
    };
    read.ok_or_else(|| accepted.to_owned())
}

fn moment(text: &str) -> Result<LimitTime, String> {
    if text == "none" {
        return Ok(LimitTime::None);
    }
    let at = humantime::parse_rfc3339_weak(text).ok();
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let ms = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    let accepted = "accepted: a time in UTC from 1970 on, such as 2027-01-31T08:00:00Z, or none";
    ms.map(LimitTime::At).ok_or_else(|| accepted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_an_amount_or_none() {
        assert_eq!((tasks("0"), tasks("none")), (Ok(LimitAmount::Of(0)), Ok(LimitAmount::None)));
        assert_eq!(cpu("500m"), Ok(LimitAmount::Of(500)));
        assert_eq!(bytes("1GiB"), Ok(LimitAmount::Of(1 << 30)));
        assert_eq!(device("gpu=8"), Ok(("gpu".to_owned(), LimitAmount::Of(8_000))));
        for wrong in ["0", "-1", "much", "", "99999999999999999999"] {
            assert!(cpu(wrong).unwrap_err().ends_with(", or none for no limit"), "{wrong}");
        }
        assert_eq!(bytes("1MiB"), Ok(LimitAmount::Of(1 << 20)));
        for wrong in ["5", "0", "1023KiB"] {
            let refused = bytes(wrong).unwrap_err();
            assert_eq!(refused, "accepted: 1MiB or more, such as 64GiB, or none for no limit", "{wrong}");
        }
        assert!(device("=1").is_err() && device("gpu").is_err() && tasks("-1").is_err());
    }

    #[test]
    fn what_is_borrowed_is_all_or_amounts_of_a_group_above() {
        assert_eq!(borrow("all"), Ok(LimitBorrow::All));
        assert_eq!(borrow("cpu=500m"), Ok(LimitBorrow::Cpu(500)));
        assert_eq!(borrow("gpu=2"), Ok(LimitBorrow::Device { kind: "gpu".to_owned(), amount: 2_000 }));
        for wrong in ["", "some", "tasks=0", "=1", "cpu", "memory=much"] {
            assert!(borrow(wrong).unwrap_err().starts_with("accepted: all, none, or NAME=AMOUNT"), "{wrong}");
        }
        assert_eq!(parent("group/shop"), Ok(LimitParent::Group("group/shop".to_owned())));
        for wrong in ["shop", "user/ann", "group/", ""] {
            assert!(parent(wrong).unwrap_err().contains("group/NAME"), "{wrong}");
        }
    }

    #[test]
    fn a_window_has_times_in_utc() {
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(LimitTime::At(1_000)));
        assert_eq!(moment("none"), Ok(LimitTime::None));
        for wrong in ["tomorrow", "", "2027-13-01T00:00:00Z", "1969-12-31T00:00:00Z"] {
            assert!(moment(wrong).unwrap_err().contains("in UTC"), "{wrong}");
        }
        assert!(band("best_effort").unwrap_err().ends_with("; best effort has no limits"));
    }
}
