//! `dig` and the resolver of the system as oracles of DNS: what they read of an answer is what was published.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;

use borough_kv::exercise::not_exercised;
use borough_model::task::Endpoint;
use borough_testkit::program_find;
use tokio::process::Command;

use super::{DEADLINE, Views, endpoint, names_listeners};

/// Hosts of the job `web`: two addresses of version 4, one of version 6, and a name.
const HOSTS: [&str; 4] = ["10.0.0.1", "10.0.0.2", "2001:db8::1", "host.example.org"];

fn at(host: &str, endpoint: Endpoint) -> Endpoint {
    Endpoint { host: host.to_owned(), ..endpoint }
}

/// Publishes the job `web`, with a task on each of the hosts.
async fn web(views: &mut Views) {
    let one = |(host, index): (&&str, u16)| at(host, endpoint((1, "web"), index.into(), 8_080 + index));
    views.publish_all(HOSTS.iter().zip(0..).map(one).collect()).await;
    views.until("every host", async || views.has_endpoints("web", HOSTS.len()).await).await;
}

/// An answer as `dig` has read it.
struct Dug {
    status: String,
    flags: Vec<String>,
    /// Section, owner, type and data of each record.
    records: BTreeSet<[String; 4]>,
    text: String,
}

impl Dug {
    fn of(text: String) -> Self {
        let after = |mark: &str, end: char| {
            let (_, rest) = text.split_once(mark).unwrap_or_default();
            rest.split(end).next().unwrap_or_default().trim().to_owned()
        };
        let (status, flags) = (after("status: ", ','), after(";; flags: ", ';'));
        let flags = flags.split(' ').map(str::to_owned).collect();
        let (mut section, mut records) = (String::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix(";; ").and_then(|line| line.strip_suffix(" SECTION:")) {
                section = name.to_lowercase();
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [owner, _ttl, "IN", kind, data @ ..] = words.as_slice()
                && !owner.starts_with(';')
            {
                let record = [section.as_str(), owner, kind, &data.join(" ")];
                records.insert(record.map(str::to_owned));
            }
        }
        Self { status, flags, records, text }
    }

    /// Fails unless these are its records: section, owner, type and data of each.
    #[track_caller]
    fn has(&self, records: &[[&str; 4]]) {
        let wanted: BTreeSet<[String; 4]> = records.iter().map(|record| record.map(str::to_owned)).collect();
        assert_eq!(self.records, wanted, "{}", self.text);
        assert_eq!(self.status, "NOERROR", "{}", self.text);
        assert!(self.flags.iter().any(|flag| flag == "aa"), "authoritative: {}", self.text);
        assert!(!self.flags.iter().any(|flag| flag == "ra"), "no recursion: {}", self.text);
    }

    /// Fails unless there is no record of the type, and this status.
    #[track_caller]
    fn has_none(&self, status: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        let sections: Vec<&str> = self.records.iter().map(|[section, ..]| section.as_str()).collect();
        assert_eq!(sections, ["authority"], "the SOA for how long that holds: {}", self.text);
    }
}

struct Dig {
    program: PathBuf,
    server: SocketAddr,
}

impl Dig {
    /// Asks. Fails if `dig` finds a fault in the answer.
    async fn ask(&self, arguments: &[&str]) -> Dug {
        let mut command = Command::new(&self.program);
        command.arg(format!("@{}", self.server.ip())).arg("-p").arg(self.server.port().to_string());
        command.args(["-r", "+norecurse", "+tries=1", "+time=10"]).args(arguments).kill_on_drop(true);
        let output = tokio::time::timeout(DEADLINE, command.output()).await.unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("WARNING") && !text.contains("malformed"), "{text}");
        Dug::of(text)
    }
}

#[tokio::test]
async fn dig_reads_every_type_of_record() {
    let Some(program) = program_find("dig") else {
        return not_exercised("dig as an oracle of DNS", "dig is not installed");
    };
    let mut views = Views::start().await;
    web(&mut views).await;
    let dig = Dig { program, server: views.addresses.dns };
    let port = "_http._tcp.web.ann.alpha.names.test";
    let (job, owner) = ("web.ann.alpha.names.test", "web.ann.alpha.names.test.");
    let task = |index: u32| format!("{index}.{owner}");
    let service = |index: u32, target: &str| format!("0 768 {} {target}", 8_080 + index);
    for transport in ["+notcp", "+tcp", "+noedns"] {
        dig.ask(&[transport, port, "SRV"]).await.has(&[
            ["answer", "_http._tcp.web.ann.alpha.names.test.", "SRV", &service(0, &task(0))],
            ["answer", "_http._tcp.web.ann.alpha.names.test.", "SRV", &service(1, &task(1))],
            ["answer", "_http._tcp.web.ann.alpha.names.test.", "SRV", &service(2, &task(2))],
            ["answer", "_http._tcp.web.ann.alpha.names.test.", "SRV", &service(3, "host.example.org.")],
            ["additional", &task(0), "A", "10.0.0.1"],
            ["additional", &task(1), "A", "10.0.0.2"],
            ["additional", &task(2), "AAAA", "2001:db8::1"],
        ]);
        let addresses = dig.ask(&[transport, job, "A"]).await;
        addresses.has(&[["answer", owner, "A", "10.0.0.1"], ["answer", owner, "A", "10.0.0.2"]]);
    }
    dig.ask(&[job, "AAAA"]).await.has(&[["answer", owner, "AAAA", "2001:db8::1"]]);
    dig.ask(&[&task(1), "A"]).await.has(&[["answer", &task(1), "A", "10.0.0.2"]]);
    dig.ask(&[&task(3), "A"]).await.has(&[["answer", &task(3), "CNAME", "host.example.org."]]);
    let reverse = dig.ask(&["-x", "10.0.0.2"]).await;
    reverse.has(&[["answer", "2.0.0.10.in-addr.arpa.", "PTR", &task(1)]]);
    let reverse = dig.ask(&["-x", "2001:db8::1"]).await;
    assert!(
        reverse.records.iter().all(|[.., kind, data]| kind == "PTR" && *data == task(2)),
        "{}",
        reverse.text
    );
    assert_eq!(reverse.records.len(), 1, "{}", reverse.text);
    for (kind, count) in [("SOA", 1), ("NS", 1)] {
        let found = dig.ask(&["names.test", kind]).await;
        let answers = found.records.iter().filter(|[section, _, of, _]| section == "answer" && of == kind);
        assert_eq!((found.status.as_str(), answers.count()), ("NOERROR", count), "{}", found.text);
    }
    dig.ask(&[job, "TXT"]).await.has_none("NOERROR");
    dig.ask(&["no.ann.alpha.names.test", "A"]).await.has_none("NXDOMAIN");
    dig.ask(&["9.web.ann.alpha.names.test", "A"]).await.has_none("NXDOMAIN");
    assert_eq!(dig.ask(&["example.org", "A"]).await.status, "REFUSED");
    let transfer = dig.ask(&["names.test", "AXFR"]).await;
    assert!(transfer.text.contains("Transfer failed"), "{}", transfer.text);
    assert_eq!(transfer.records, BTreeSet::new());
}

/// Asks the resolver of the system, in which this name service is the only server.
async fn resolve(folder: &std::path::Path, arguments: &[&str]) -> (Option<i32>, BTreeSet<String>) {
    let file = folder.join("resolv.conf").display().to_string();
    let within = "mount --bind \"$1\" /etc/resolv.conf && shift && exec getent \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", within, "sh", &file]).args(arguments);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(DEADLINE, command.output()).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let addresses = text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    (output.status.code(), addresses.collect())
}

#[tokio::test]
async fn the_resolver_of_the_system_finds_jobs_and_tasks() {
    let subject = "the resolver of the system over DNS";
    let may_mount = ["-m", "mount", "--bind", "/dev/null", "/etc/resolv.conf"];
    let tried = Command::new("unshare").args(may_mount).stderr(Stdio::null()).status().await;
    let hosts = std::fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    let uses_dns = hosts.lines().any(|line| line.starts_with("hosts:") && line.contains("dns"));
    if !tried.is_ok_and(|status| status.success()) || !uses_dns || program_find("getent").is_none() {
        return not_exercised(subject, "this user may not mount a resolv.conf, or getent does not ask DNS");
    }
    // A resolver asks port 53 only. Test runs beside this one have other addresses.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, high.max(1), low, 53);
    let Ok(listeners) = names_listeners(SocketAddr::from((address, 53))).await else {
        return not_exercised(subject, "port 53 of loopback is taken");
    };
    let mut views = Views::on(listeners).await;
    web(&mut views).await;
    let one =
        |index: u32| at(&format!("10.1.{}.{}", index / 100, index % 100), endpoint((2, "many"), index, 80));
    views.publish_all((0..200).map(one).collect()).await;
    views.until("many endpoints", async || views.has_endpoints("many", 200).await).await;
    let folder = tempfile::tempdir().unwrap();
    let text = format!("nameserver {address}\nsearch ann.alpha.names.test\noptions timeout:5 attempts:1\n");
    std::fs::write(folder.path().join("resolv.conf"), text).unwrap();
    let found = |hosts: &[&str]| (Some(0), hosts.iter().map(|host| (*host).to_owned()).collect());
    let ask = async |arguments: &[&str]| resolve(folder.path(), arguments).await;
    assert_eq!(ask(&["ahosts", "web.ann.alpha.names.test"]).await, found(&HOSTS[..3]));
    assert_eq!(ask(&["ahostsv4", "web"]).await, found(&HOSTS[..2]), "by its search list");
    assert_eq!(ask(&["ahosts", "1.web"]).await, found(&HOSTS[1..2]));
    assert_eq!(ask(&["ahosts", "no.ann.alpha.names.test"]).await.0, Some(2), "no such job");
    let (code, addresses) = ask(&["ahostsv4", "many.ann.alpha.names.test"]).await;
    assert_eq!((code, addresses.len()), (Some(0), 200), "over TCP: they do not fit into UDP");
}
