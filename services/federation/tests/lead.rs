//! Federation processes over one home, in simulated time: who leads, and what is recorded of members that are dark.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use borough_client::{Client, ClientConfig};
use borough_federation::{Federation, FederationConfig, FederationMetrics, MemberClients};
use borough_kv::env::{Clock, Rng, SeededRng};
use borough_kv::secret::Secret;
use borough_model::member::{MemberRow, MemberSeen, MemberSpec, ProblemKind};
use borough_model::{MemberId, Name};
use borough_proto::connect::Connector;
use borough_store::cell::CellMeta;
use borough_store::member::{MemberEdit, member_change, member_join, members_seen_list};
use borough_store::mirror::MirrorFollower;
use borough_testkit::{MemoryStore, OpenCell, Role, VirtualClock, cell_time, change, name};

/// How the gateways of all members behave.
#[derive(Clone, Copy)]
enum Gateways {
    Refuse,
    /// They take a connection and never answer.
    Hang,
}

struct DarkMembers {
    gateways: Gateways,
    directory: tempfile::TempDir,
    rng: Arc<dyn Rng>,
}

impl MemberClients for DarkMembers {
    fn credential(&self, _member: &MemberRow) -> Result<Secret, String> {
        let path = self.directory.path().join("token");
        if path.exists() { Secret::read(&path) } else { Secret::create(&path, "test") }
            .map_err(|error| error.to_string())
    }

    fn client(&self, member: &MemberRow, gateway: &str, _credential: &Secret) -> Result<Client, String> {
        let mut config = ClientConfig::new(vec![gateway.to_owned()], "federation", member.cell.as_str());
        let gateways = self.gateways;
        config.connector = Connector::simulated(move |_| {
            Box::pin(async move {
                match gateways {
                    Gateways::Refuse => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                    Gateways::Hang => std::future::pending().await,
                }
            })
        });
        Client::new(config, Arc::clone(&self.rng)).map_err(|error| error.to_string())
    }
}

/// A home, with its machine's clock.
struct Home {
    cell: OpenCell,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

impl Home {
    async fn new() -> Self {
        let (clock, rng) = (VirtualClock::at(1_000_000_000), SeededRng::shared(1));
        let store = MemoryStore::new(Arc::clone(&clock), Arc::clone(&rng));
        let cell = OpenCell::create(store.quiet(), &CellMeta::default()).await;
        Self { cell, clock, rng }
    }

    async fn join(&self, number: u64, cell: &str) {
        let spec = MemberSpec { gateways: vec![format!("{cell}:7400")], labels: BTreeMap::new() };
        let joined = self.cell.change(change(number.into(), "member_join", 0), async |tx, changes| {
            member_join(tx, changes, MemberId(number), &name(cell), spec.clone()).await
        });
        joined.await.unwrap();
    }

    /// Starts a process, with what it says of itself.
    async fn process(&self, holder: &str, gateways: Gateways) -> (Role, FederationMetrics) {
        let OpenCell { db, space } = &self.cell;
        let time = cell_time(Arc::clone(&self.clock), db, space).await;
        let metrics = FederationMetrics::default();
        let config = FederationConfig {
            space: space.clone(),
            holder: holder.to_owned(),
            lease_ms: 5_000,
            generation: 0,
            metrics: metrics.clone(),
        };
        let rng = || Arc::clone(&self.rng);
        let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&time), rng());
        let clients = Arc::new(DarkMembers { gateways, directory: tempfile::tempdir().unwrap(), rng: rng() });
        let federation = Federation::new(config, db.clone(), mirror, clients, time, rng());
        (Role::begin(|cancelled| federation.run(cancelled)), metrics)
    }

    async fn seen(&self) -> BTreeMap<Name, MemberSeen> {
        self.cell.read(async |tx, space| members_seen_list(tx, space).await).await.unwrap()
    }

    /// Waits until what was seen is as wanted, at most so long.
    async fn until(&self, what: &str, most: Duration, wanted: impl Fn(&BTreeMap<Name, MemberSeen>) -> bool) {
        let from = self.clock.monotonic();
        loop {
            let seen = self.seen().await;
            if wanted(&seen) {
                return;
            }
            assert!(self.clock.monotonic().saturating_sub(from) < most, "not {what}: {seen:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_process_leads_and_another_one_goes_on_after_its_death() {
    let home = Home::new().await;
    home.join(1, "beta").await;
    let (first, of_first) = home.process("federation-1", Gateways::Refuse).await;
    let is_silent =
        |seen: &MemberSeen| seen.problem.as_ref().is_some_and(|problem| problem.kind == ProblemKind::Silent);
    let most = Duration::from_secs(30);
    home.until("seen", most, |seen| seen.get(&name("beta")).is_some_and(is_silent)).await;
    let (second, of_second) = home.process("federation-2", Gateways::Refuse).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((of_first.members.get(), of_second.members.get()), (1, 0), "the second one waits");
    assert_eq!(of_second.looks_failed.get(), 0);

    first.kill().await;
    let before = home.seen().await[&name("beta")].clone();
    let is_later = |seen: &MemberSeen| seen.looked_ms > before.looked_ms + 5_000;
    home.until("seen again", most, |seen| is_later(&seen[&name("beta")])).await;
    assert_eq!(of_second.members.get(), 1);
    // It is silent since the first process saw it, and not since the second one leads.
    let since = |seen: &MemberSeen| seen.problem.as_ref().map(|problem| problem.since_ms);
    assert_eq!(since(&home.seen().await[&name("beta")]), since(&before));
    second.end().await;
}

/// The present addresses are looked at soon, and not when the next look is due.
#[tokio::test(start_paused = true)]
async fn a_member_with_other_addresses_is_looked_at_soon() {
    let home = Home::new().await;
    home.join(1, "beta").await;
    let (process, _) = home.process("federation-1", Gateways::Refuse).await;
    home.until("seen", Duration::from_secs(30), |seen| seen.contains_key(&name("beta"))).await;
    let gateways = vec!["elsewhere:7400".to_owned()];
    let edit = MemberEdit { gateways: Some(gateways.clone()), ..MemberEdit::default() };
    let moved = home.cell.change(change(2, "member_change", 0), async |tx, changes| {
        member_change(tx, changes, &name("beta"), &edit, 0).await
    });
    moved.await.unwrap();
    let most = Duration::from_secs(4);
    home.until("looked at", most, |seen| seen[&name("beta")].gateways == gateways).await;
    process.end().await;
}

/// A look at one of them takes as long as a look may.
#[tokio::test(start_paused = true)]
async fn many_dark_members_are_looked_at_together() {
    let home = Home::new().await;
    let count = 300;
    for number in 0..count {
        home.join(number + 1, &format!("cell-{number}")).await;
    }
    let (process, _) = home.process("federation-1", Gateways::Hang).await;
    let all = usize::try_from(count).unwrap();
    home.until("all seen", Duration::from_secs(12), |seen| seen.len() == all).await;
    process.end().await;
}
