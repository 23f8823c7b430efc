//! Arguments of `borough agent`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use borough_model::Name;
use borough_model::node::{HOST_ACCEPTED, is_host};
use borough_model::resource::{bytes_parse, cpu_parse, device_parse};
use borough_proto::v1;
use clap::Args;

use super::file::pair;
use super::label::parts_check;
use super::number::whole;
use super::task_user::TaskUserArguments;

/// Arguments of `borough agent`; cell, gateways and token are those of every verb.
#[derive(Clone, Debug, Args)]
pub struct AgentArguments {
    /// The node's name, unique within the cell; required
    // Optional to the parser, so that one message has all that is missing, also of the options of every verb.
    #[arg(long, value_name = "NAME")]
    pub node: Option<Name>,
    /// Keep the agent's state in this directory over restarts; required
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Join by the token in this file, once. The agent keeps what it gets in --state-dir, renews it, and needs no file
    /// when it starts again
    #[arg(long, value_name = "FILE", env = "BOROUGH_JOIN_TOKEN_FILE", hide_env_values = true)]
    pub join_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub users: TaskUserArguments,
    /// Offer these TCP ports to tasks, as FIRST-LAST
    #[arg(long, default_value = "20000-29999", value_name = "RANGE", value_parser = ports)]
    pub ports: RangeInclusive<u16>,
    /// Publish endpoints of its tasks under this address
    #[arg(long, default_value = "127.0.0.1", value_name = "HOST", value_parser = host)]
    pub host: String,
    /// Set a node attribute, such as rack=r1; repeat for more
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = attribute)]
    pub attributes: Vec<(String, String)>,
    /// Offer this many cores of the machine to tasks, such as 8 or 500m [default: all]
    #[arg(long, value_name = "AMOUNT", value_parser = cores)]
    pub cpu: Option<u64>,
    /// Offer this much memory to tasks, such as 16GiB [default: all]
    #[arg(long, value_name = "AMOUNT", value_parser = bytes)]
    pub memory: Option<u64>,
    /// Offer this much disk to tasks, such as 100GiB [default: all of the state directory's disk]
    #[arg(long, value_name = "AMOUNT", value_parser = bytes)]
    pub disk: Option<u64>,
    /// Offer countable devices, such as gpu=2; repeat for more
    #[arg(long = "device", value_name = "KIND=AMOUNT", value_parser = device)]
    pub devices: Vec<(String, u64)>,
    /// Offer one device by its id, such as gpu=GPU-1,model=A100,memory=40GiB; repeat for more
    #[arg(long = "card", value_name = "KIND=ID[,model=MODEL][,memory=AMOUNT]", value_parser = card)]
    pub cards: Vec<v1::Card>,
    /// Count a core of this machine as this many cores of the cell's reference machine, such as 1.25
    #[arg(long, default_value = "1", value_name = "SPEED", value_parser = core_speed)]
    pub core_speed: u64,
    /// Report packages in DIR/NAME/VERSION; tasks that use them prefer this node [default: none]
    #[arg(long, value_name = "DIR")]
    pub package_dir: Option<PathBuf>,
    /// Give tasks secrets of DIR/USER; only the agent may use DIR [default: none]
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// Keep new tasks below production away while less than this part of the memory is left
    #[arg(long, default_value_t = 3, value_name = "PERCENT", value_parser = whole(0..=100_u8))]
    pub memory_low: u8,
    /// Keep them away too while all tasks wait for memory for more than this part of the time
    #[arg(long, default_value_t = 10, value_name = "PERCENT", value_parser = whole(0..=100_u8))]
    pub memory_stalled: u8,
    /// Keep new tasks away while less than this part of the state directory's disk is left
    #[arg(long, default_value_t = 5, value_name = "PERCENT", value_parser = whole(0..=100_u8))]
    pub disk_low: u8,
    /// Keep new tasks away while less than this part of the machine's process numbers is left
    #[arg(long, default_value_t = 5, value_name = "PERCENT", value_parser = whole(0..=100_u8))]
    pub pids_low: u8,
    /// For tests of the system: read the machine's statistics here instead of in /proc
    #[arg(long, value_name = "DIR", hide = true)]
    pub proc: Option<PathBuf>,
    /// For tests of the system: read its processors and memory here instead of in /sys/devices/system
    #[arg(long, value_name = "DIR", hide = true)]
    pub sysfs: Option<PathBuf>,
    /// For tests of the system: milliseconds between two looks at the machine
    #[arg(long, value_name = "MS", hide = true, value_parser = whole(10..=u64::from(u32::MAX)))]
    pub sample_ms: Option<u64>,
    /// For tests of the system: read the machine's id here instead of in /etc/machine-id
    #[arg(long, value_name = "FILE", hide = true)]
    pub machine_id: Option<PathBuf>,
    /// Record every started process here, for whoever has to end them all
    #[arg(long, value_name = "DIR", hide = true)]
    pub record_dir: Option<PathBuf>,
}

/// A range of ports as FIRST-LAST.
pub(super) fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let accepted = "accepted: FIRST-LAST within 1024-65535, such as 20000-29999";
    let wrong = || accepted.to_owned();
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (first, last) =
        (first.parse::<u16>().map_err(|_| wrong())?, last.parse::<u16>().map_err(|_| wrong())?);
    let least = first.min(last);
    let turned = (last < first).then(|| "has its first port above its last one".to_owned());
    let low = (least < PORT_LEAST).then(|| format!("has port {least}, below {PORT_LEAST}"));
    let problems: Vec<String> = [turned, low].into_iter().flatten().collect();
    if problems.is_empty() {
        Ok(first..=last)
    } else {
        Err(format!("{}; {accepted}", problems.join(", and ")))
    }
}

/// Lower ports belong to the system.
const PORT_LEAST: u16 = 1024;

/// An attribute, with the bounds of a label.
fn attribute(text: &str) -> Result<(String, String), String> {
    let (key, value) = pair(text)?;
    parts_check(&key, &value)?;
    Ok((key, value))
}

/// Cores of one machine, in thousandths: as many as a node may report processors.
const CORES_MILLIS: RangeInclusive<u64> = 1..=65_536_000;
/// Bytes of one machine. More is a slip: it would let the sums of a cell overflow.
const MACHINE_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 53;
/// Devices of one kind, in thousandths.
const DEVICES_MILLIS: RangeInclusive<u64> = 1..=65_536_000;
/// Thousandths of the reference's speed, as the cell accepts them.
const CORE_SPEEDS: RangeInclusive<u64> = 10..=100_000;

/// An amount within bounds, which `accepted` says for people. A text that is no amount has its own refusal.
fn amount_within(
    read: Result<u64, impl std::fmt::Display>,
    bounds: &RangeInclusive<u64>,
    accepted: &str,
) -> Result<u64, String> {
    let amount = read.map_err(|error| error.to_string())?;
    if bounds.contains(&amount) { Ok(amount) } else { Err(format!("accepted: {accepted}")) }
}

fn host(text: &str) -> Result<String, String> {
    if is_host(text) { Ok(text.to_owned()) } else { Err(format!("accepted: {HOST_ACCEPTED}")) }
}

fn cores(text: &str) -> Result<u64, String> {
    amount_within(cpu_parse(text), &CORES_MILLIS, "1m to 65536 cores")
}

fn bytes(text: &str) -> Result<u64, String> {
    amount_within(bytes_parse(text), &MACHINE_BYTES, "1MiB to 8PiB")
}

fn core_speed(text: &str) -> Result<u64, String> {
    amount_within(cpu_parse(text), &CORE_SPEEDS, "0.01 to 100")
}

fn device(text: &str) -> Result<(String, u64), String> {
    let (kind, amount) = pair(text)?;
    parts_check(&kind, "")?;
    let devices = amount_within(device_parse(&amount), &DEVICES_MILLIS, "0.001 to 65536 devices of a kind")?;
    Ok((kind, devices))
}

/// A card as `gpu=GPU-1,model=A100,memory=40GiB`.
pub(super) fn card(text: &str) -> Result<v1::Card, String> {
    let accepted = "accepted: KIND=ID[,model=MODEL][,memory=AMOUNT], such as gpu=GPU-0,model=A100";
    let (kind, rest) = pair(text).map_err(|_| accepted.to_owned())?;
    let mut parts = rest.split(',');
    let id = parts.next().unwrap_or_default().to_owned();
    let mut card = v1::Card { kind, id, ..v1::Card::default() };
    for part in parts {
        match part.split_once('=') {
            Some(("model", model)) => model.clone_into(&mut card.model),
            Some(("memory", amount)) => {
                card.memory_bytes = bytes_parse(amount).map_err(|error| error.to_string())?;
            }
            _ => return Err(format!("has the part {part:?}; accepted: model=MODEL, memory=AMOUNT")),
        }
    }
    parts_check(&card.kind, &card.id)?;
    parts_check("model", &card.model)?;
    Ok(card)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_read_with_model_and_memory() {
        let read = card("gpu=GPU-1,model=A100,memory=40GiB").unwrap();
        let whole = (read.kind.as_str(), read.id.as_str(), read.model.as_str(), read.memory_bytes);
        assert_eq!(whole, ("gpu", "GPU-1", "A100", 40 << 30));
        assert_eq!(card("gpu=0").unwrap().id, "0");
        for wrong in [
            "gpu",
            "=0",
            "gpu=0,colour=red",
            "gpu=0,memory=much",
            "g u=0",
            "gpu=\u{1b}",
            "gpu=0,model=\u{202e}",
        ] {
            assert!(card(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refused_range_or_card_says_what_is_wrong_with_it() {
        assert_eq!(ports("20000-20010"), Ok(20000..=20010));
        let refused = ports("300-200").unwrap_err();
        let wrong =
            "has its first port above its last one, and has port 200, below 1024; accepted: FIRST-LAST";
        assert!(refused.starts_with(wrong), "{refused}");
        assert!(ports("1023-2000").unwrap_err().starts_with("has port 1023, below 1024; "));
        assert!(ports("20000").unwrap_err().starts_with("accepted: FIRST-LAST"));
        assert!(card("gpu").unwrap_err().starts_with("accepted: KIND=ID[,model=MODEL]"));
    }

    #[test]
    fn sizes_that_no_machine_has_are_refused() {
        assert_eq!((cores("500m"), bytes("16GiB"), core_speed("1.25")), (Ok(500), Ok(16 << 30), Ok(1_250)));
        for wrong in ["0", "65537", "9000000000000", "-1"] {
            assert!(cores(wrong).unwrap_err().contains("accepted: "), "{wrong}");
        }
        for wrong in ["0", "1k", "9PiB", "8000PiB", "much"] {
            assert!(bytes(wrong).unwrap_err().contains("accepted: "), "{wrong}");
        }
        assert!(core_speed("0.001").is_err() && core_speed("101").is_err());
        assert!(device("gpu=2").is_ok() && device("gpu=65537").is_err() && device("g u=1").is_err());
    }

    #[test]
    fn port_ranges_are_checked() {
        assert_eq!(ports("20000-20010"), Ok(20_000..=20_010));
        for wrong in ["", "20000", "80-90", "3000-2000", "1-70000", "a-b"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
