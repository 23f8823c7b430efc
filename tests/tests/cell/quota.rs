//! Quotas: an operator sets them, and admission keeps them.

use std::collections::BTreeSet;

use borough_client::{ClientError, JobRef};
use borough_model::job::JobKind;
use borough_model::{JobSpec, Name, Resources};
use borough_proto::convert::job_spec_to_message;
use borough_proto::v1;
use borough_tests::{Ran, TestCell, options, until};
use futures::StreamExt as _;
use rustix::process::Signal;

const WINDOW_LATER: &str = "2999-01-01T00:00:00Z";

fn file(name: &str, count: u32, cpu: &str) -> String {
    format!(
        "name: {name}\ncount: {count}\ntask: {{command: [sleep, 600], resources: {{cpu: {cpu}, memory: 4MiB}}, \
         grace: 300ms}}\ndrain_delay: 0s\n"
    )
}

/// `quota set` of the band of services.
async fn quota_set(cell: &TestCell, words: &[&str]) -> Ran {
    let line = ["quota", "set", "tester", "--band", "production"];
    cell.borough(&[&line[..], words].concat()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_operator_limits_a_user_and_admission_keeps_to_it() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.borough(&["quota", "list"]).await.ended(0).warns("no quotas, and no charges, in cell alpha");
    cell.borough(&["quota", "status"]).await.ended(0).prints("production  0").prints("no limit");
    quota_set(&cell, &["--tasks", "3", "--cpu", "200m"]).await.ended(0).prints("0/3").prints("0/200m");
    cell.run("web.yaml", &file("web", 2, "50m")).await;
    cell.borough(&["quota", "list"]).await.ended(0).prints("tester  production  2/3").prints("100m/200m");
    // More tasks than may be, and more cores: by growth, by a changed file and by a new job.
    let refused = cell.borough(&["job", "scale", "web", "4"]).await.ended(4);
    refused.warns("the quota of tester for production (priority 200-299) does not allow it: tasks: 4 of 3");
    let wide = cell.file("wide.yaml", &file("web", 2, "150m"));
    // The plan says what the submission would.
    let planned = cell.borough(&["job", "plan", &wide]).await.ended(2);
    planned.prints("the gateway would refuse it: ").prints("cpu: 300m of 200m would be used, 100m too many");
    cell.borough(&["job", "run", &wide])
        .await
        .ended(4)
        .warns("cpu: 300m of 200m would be used, 100m too many");
    let other = cell.file("other.yaml", &file("other", 2, "10m"));
    cell.borough(&["job", "run", &other]).await.ended(4).warns("tasks: 4 of 3 would be admitted, 1 too many");
    cell.borough(&["job", "scale", "web", "3"]).await.ended(0);
    // Other bands and users are their own.
    let batch = cell.file("batch.yaml", &file("low", 1, "10m").replace("count", "kind: batch\ncount"));
    cell.borough(&["job", "run", "--detach", &batch]).await.ended(0);
    // A smaller limit lets what runs stay, and admits nothing.
    quota_set(&cell, &["--tasks", "1"]).await.ended(0).prints("3/1").prints("exceeded").prints("150m/200m");
    cell.borough(&["job", "run", &other]).await.ended(4).warns("tasks: 5 of 1");
    cell.borough(&["job", "status", "web"]).await.ended(0).prints("3 running, 3 healthy");
    // It holds in its window only.
    quota_set(&cell, &["--from", WINDOW_LATER])
        .await
        .ended(0)
        .prints("not in force (from 2999-01-01T00:00:00Z)");
    cell.borough(&["job", "run", &other]).await.ended(0);
    quota_set(&cell, &["--from", "none", "--until", "2020-01-01T00:00:00Z"])
        .await
        .ended(0)
        .prints("not in force");
    quota_set(&cell, &["--until", WINDOW_LATER]).await.ended(0).prints("exceeded (until 2999");
    let limit = cell.borough(&["quota", "list", "-o", "json"]).await.ended(0).json();
    let line = limit.as_array().unwrap().iter().find(|line| line["band"] == "production").unwrap();
    assert_eq!((&line["limit"]["tasks_max"], &line["used_tasks"]), (&1.into(), &5.into()), "{line}");
    assert_eq!(line["in_force"], true, "{line}");
    let remove = ["quota", "remove", "tester", "--band", "production"];
    cell.borough(&[&remove[..], &["--yes"]].concat()).await.ended(0).prints("no limit");
    cell.borough(&["job", "scale", "web", "4"]).await.ended(0);
    let history = cell.borough(&["quota", "history", "tester", "--band", "production"]).await.ended(0);
    history.prints("user/tester").prints("tasks 3, cpu 200m").prints("no limit");
    // Without a band, those of all bands. What is not there cannot be taken away.
    cell.borough(&["quota", "set", "tester", "--band", "batch", "--tasks", "7"]).await.ended(0);
    let all = cell.borough(&["quota", "history", "tester", "-o", "json"]).await.ended(0).json();
    let bands: Vec<&str> =
        all.as_array().unwrap().iter().map(|line| line["band"].as_str().unwrap()).collect();
    assert_eq!((bands[0], bands.contains(&"production")), ("batch", true), "{bands:?}");
    let again = cell.borough(&[&remove[..], &["--yes"]].concat()).await.ended(3);
    again.warns("error: user tester has no quota in production; nothing was changed");
    cell.finish().await;
}

/// Two operators that change one line: the second one's change was made for what the first one has replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_change_of_a_quota_for_another_revision_is_refused() {
    use borough_proto::v1::{Band, QuotaLimit};
    let cell = TestCell::start(options!().nodes(1)).await;
    let limit = |tasks_max| Some(QuotaLimit { tasks_max: Some(tasks_max), ..QuotaLimit::default() });
    let first = cell.client().quota_set("ann", Band::Batch, limit(1), 0).await.unwrap();
    cell.client().quota_set("ann", Band::Batch, limit(2), first.revision).await.unwrap();
    let refused = cell.client().quota_set("ann", Band::Batch, limit(3), first.revision).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("is at revision 2, by user/tester, and the change was made for 1"), "{text}");
    cell.finish().await;
}

/// Submissions at once, and how many tasks the quota has room for.
const RACERS: usize = 1_000;
const GRANTED: usize = 50;

/// A thousand submissions race for one quota, while the store fails commits and hides their results. Exactly as many
/// are admitted as it has room for, and when all of them have ended, nothing is charged any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_submissions_at_once_never_exceed_the_quota_and_leave_nothing_charged() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let limit = v1::QuotaLimit { tasks_max: Some(GRANTED as u64), ..v1::QuotaLimit::default() };
    cell.client().quota_set("tester", v1::Band::Batch, Some(limit), 0).await.unwrap();
    let spec = |number: usize| {
        let (user, name) = (Name::new("tester").unwrap(), Name::new(format!("racer-{number}")).unwrap());
        let mut spec =
            JobSpec::defaults(user, name, JobKind::Batch, vec!["sleep".to_owned(), "600".to_owned()]);
        spec.task.resources = Resources { cpu_millis: 1, memory_bytes: 1 << 20, ..Resources::default() };
        job_spec_to_message(&spec)
    };
    let submit = |number: usize| {
        let (client, spec) = (cell.client().clone(), spec(number));
        async move { (number, client.job_submit(spec, 0).await) }
    };
    let answers: Vec<_> =
        futures::stream::iter((0..RACERS).map(submit)).buffer_unordered(200).collect().await;
    let mut admitted = BTreeSet::new();
    for (number, answer) in answers {
        match answer {
            Ok(_) => drop(admitted.insert(format!("racer-{number}"))),
            Err(ClientError::Refused(refusal)) => {
                assert!(refusal.message.contains("the quota of tester for batch"), "{}", refusal.message);
            }
            Err(error) => panic!("racer-{number}: {error}"),
        }
    }
    assert_eq!(admitted.len(), GRANTED, "{admitted:?}");
    let jobs = cell.borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    let listed: BTreeSet<String> =
        jobs.as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, admitted, "what was refused is not there");
    // Half of them end, and as many others find room.
    for name in admitted.iter().take(GRANTED / 2) {
        let job = JobRef { user: "tester".to_owned(), name: name.clone() };
        cell.client().job_stop(&job).await.unwrap();
    }
    let used = || async {
        let line = cell.client().quota_get("tester", v1::Band::Batch).await.unwrap().quota.unwrap();
        line.used_tasks
    };
    until("the room of what has ended", || async { (used().await == (GRANTED / 2) as u64).then_some(()) })
        .await;
    let again = futures::stream::iter((RACERS..RACERS + 200).map(submit)).buffer_unordered(200);
    let again = again.filter(|(_, answer)| futures::future::ready(answer.is_ok())).count().await;
    assert_eq!(again, GRANTED - GRANTED / 2);
    let jobs = cell.borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    for job in jobs.as_array().unwrap() {
        let job = JobRef { user: "tester".to_owned(), name: job["name"].as_str().unwrap().to_owned() };
        cell.client().job_stop(&job).await.unwrap();
    }
    until("the end of every charge", || async { (used().await == 0).then_some(()) }).await;
    cell.finish().await;
}

/// The groups of the tree: `web` and `lab` below `shop`, and the users below these two.
const USERS: [&str; 10] = ["u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9"];

async fn line_set(cell: &TestCell, holder: &str, tasks_max: Option<u64>, parent: &str) {
    let limit = v1::QuotaLimit { tasks_max, parent: parent.to_owned(), ..v1::QuotaLimit::default() };
    // The same limit again changes nothing.
    while let Err(error) = cell.client().quota_set(holder, v1::Band::Batch, Some(limit.clone()), 0).await {
        assert!(!matches!(error, ClientError::Refused(_)), "{holder}: {error}");
    }
}

fn racer(number: usize) -> v1::JobSpec {
    let user = Name::new(USERS[number % USERS.len()]).unwrap();
    let name = Name::new(format!("racer-{number}")).unwrap();
    let command = vec!["sleep".to_owned(), "600".to_owned()];
    let mut spec = JobSpec::defaults(user, name, JobKind::Batch, command);
    spec.task.resources = Resources { cpu_millis: 1, memory_bytes: 1 << 20, ..Resources::default() };
    job_spec_to_message(&spec)
}

/// A thousand submissions of ten users race for the quota of one group above all of them, while an operator moves users
/// from one group below it to another. Exactly as many are admitted as it has room for, and nothing stays charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_submissions_below_one_group_never_exceed_it_and_leave_nothing_charged() {
    let cell = TestCell::start(options!().nodes(1)).await;
    line_set(&cell, "group/shop", Some(GRANTED as u64), "").await;
    line_set(&cell, "group/web", Some(GRANTED as u64), "group/shop").await;
    line_set(&cell, "group/lab", None, "group/shop").await;
    for user in USERS {
        line_set(&cell, user, Some(GRANTED as u64), "group/web").await;
    }
    let submit = |number: usize| {
        let client = cell.client().clone();
        async move { (number, client.job_submit(racer(number), 0).await) }
    };
    let racing = futures::stream::iter((0..RACERS).map(submit)).buffer_unordered(200).collect::<Vec<_>>();
    let moving = async {
        for round in 0..20 {
            let parent = if round % 2 == 0 { "group/lab" } else { "group/web" };
            line_set(&cell, USERS[round % USERS.len()], Some(GRANTED as u64), parent).await;
        }
    };
    let (answers, ()) = futures::join!(racing, moving);
    let jobs = cell.borough(&["job", "list", "--all", "-o", "json"]).await.ended(0).json();
    let admitted: BTreeSet<String> =
        jobs.as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(admitted.len(), GRANTED, "{admitted:?}");
    for (number, answer) in answers {
        let is_there = admitted.contains(&format!("racer-{number}"));
        match answer {
            Ok(_) => assert!(is_there, "racer-{number} was admitted"),
            Err(ClientError::Refused(refusal)) if refusal.message.contains("the quota of ") => {
                assert!(!is_there, "racer-{number} was refused");
            }
            // Whether it is there is open.
            Err(_) => {}
        }
    }
    let used = |holder: &'static str| {
        let client = cell.client().clone();
        async move {
            let line = client.quota_get(holder, v1::Band::Batch).await.unwrap().quota.unwrap();
            line.used_tasks
        }
    };
    assert_eq!(used("group/shop").await, GRANTED as u64);
    let below = used("group/web").await + used("group/lab").await;
    assert_eq!(below, GRANTED as u64, "each task is charged to one group of the two");
    for job in jobs.as_array().unwrap() {
        let of = |field: &str| job[field].as_str().unwrap().to_owned();
        cell.client().job_stop(&JobRef { user: of("user"), name: of("name") }).await.unwrap();
    }
    for holder in ["group/shop", "group/web", "group/lab"].into_iter().chain(USERS) {
        until("the end of every charge", || async { (used(holder).await == 0).then_some(()) }).await;
    }
    cell.finish().await;
}

/// A team below an organisation, by the verbs that operators use.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn groups_in_a_tree_limit_their_users_and_show_who_uses_what() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let set = async |words: &[&str]| {
        let line = [&["quota", "set"][..], words, &["--band", "production"]].concat();
        cell.borough(&line).await
    };
    set(&["group/shop", "--tasks", "3"]).await.ended(0).prints("group/shop  production  0/3");
    set(&["group/web-team", "--parent", "group/shop"]).await.ended(0).prints("no limit of its own");
    set(&["user/tester", "--parent", "group/web-team"]).await.ended(0).prints("group/web-team  no limit");
    cell.run("web.yaml", &file("web", 2, "10m")).await;
    let status = cell.borough(&["quota", "status", "group/shop"]).await.ended(0);
    status.prints("group/shop      production  2/3").prints("group/web-team  production  2 ");
    cell.borough(&["quota", "status", "group/web-team"])
        .await
        .ended(0)
        .prints("tester          production  2 ");
    // Who is refused by a group sees what it has left.
    let own = cell.borough(&["quota", "status"]).await.ended(0);
    own.prints("tester").prints("group/web-team  production  2 ").prints("group/shop      production  2/3");
    let other = cell.file("other.yaml", &file("other", 2, "10m"));
    let refused = cell.borough(&["job", "run", &other]).await.ended(4);
    refused
        .warns("the quota of group/shop for production (priority 200-299) does not allow it: tasks: 4 of 3");
    let refused = cell.borough(&["job", "scale", "web", "4"]).await.ended(4);
    refused.warns("(2 asked, 2 used, 1 would fit now)");
    // What is below a group stays below one, and the tree has no cycle.
    let refused = set(&["group/shop", "--parent", "group/web-team"]).await.ended(2);
    refused.warns("--parent: group/web-team; accepted").warns("a group that is not below group/shop itself");
    set(&["ann", "--parent", "group/none"]).await.ended(2).warns("a group with a quota in production");
    set(&["ann", "--parent", "shop"]).await.ended(2).warns("group/NAME of a group");
    let gone = ["quota", "remove", "group/web-team", "--band", "production", "--yes"];
    cell.borough(&gone).await.ended(4).warns("group/web-team is the parent of tester in production");
    // One task of its own, and the room of the groups above.
    set(&["tester", "--tasks", "1"]).await.ended(0).prints("exceeded");
    cell.borough(&["job", "scale", "web", "3"]).await.ended(4).warns("the quota of tester for production");
    set(&["tester", "--borrow", "tasks=1"]).await.ended(0).prints("borrows tasks 1");
    cell.borough(&["job", "scale", "web", "3"]).await.ended(4).warns("tasks: 3 of 2");
    set(&["tester", "--borrow", "all"]).await.ended(0);
    cell.borough(&["job", "scale", "web", "3"]).await.ended(0);
    cell.borough(&["job", "scale", "web", "4"]).await.ended(4).warns("the quota of group/shop");
    cell.borough(&["quota", "list"]).await.ended(0).prints("borrows tasks 2");
    set(&["ann", "--tasks", "1", "--borrow", "all"])
        .await
        .ended(2)
        .warns("--borrow")
        .warns("with a `parent`");
    set(&["group/shop", "--until", WINDOW_LATER])
        .await
        .ended(0)
        .prints("then nothing new without raise_priority");
    cell.borough(&["job", "scale", "web", "4"]).await.ended(4).warns("closes at 2999-01-01T00:00:00Z");
    let history = cell.borough(&["quota", "history", "tester"]).await.ended(0);
    history.prints("tasks 1, below group/web-team, borrows all");
    cell.finish().await;
}

/// The cores of the nodes that are ready, in thousandths.
async fn capacity(cell: &TestCell) -> u64 {
    let status = cell.borough(&["cell", "status", "-o", "json"]).await.ended(0).json();
    status["capacity"]["cpu_millis"].as_u64().unwrap()
}

/// Sets the cores of a holder, in thousandths.
async fn cores_set(cell: &TestCell, holder: &str, band: &str, cpu_millis: u64) -> Ran {
    let cores = format!("{cpu_millis}m");
    cell.borough(&["quota", "set", holder, "--band", band, "--cpu", &cores]).await
}

/// Quotas of production never promise more than there is. When a node goes, they stay, and everybody sees that they are
/// too large.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn quotas_of_production_grant_no_more_than_the_nodes_have() {
    let cell = TestCell::start(options!().lost_after_ms(2_000)).await;
    cell.nodes_ready().await;
    let whole = capacity(&cell).await;
    cores_set(&cell, "group/shop", "production", whole - 500).await.ended(0);
    let refused = cores_set(&cell, "ann", "monitoring", 501).await.ended(4);
    let refused =
        refused.warns("the quota of ann in monitoring does not fit the cell beside the others of production");
    refused.warns("1m too many (500m would fit)").warns("borough quota list shows the others");
    cores_set(&cell, "ann", "monitoring", 500).await.ended(0);
    // Below a group it is the group's share, and a window that is over promises nothing.
    let cores = format!("{whole}m");
    let bob = ["quota", "set", "bob", "--band", "production", "--cpu", &cores];
    cell.borough(&[&bob[..], &["--parent", "group/shop"]].concat()).await.ended(0);
    cell.borough(&[&bob[..], &["--parent", "none"]].concat()).await.ended(4).warns("would fit");
    let past = ["--parent", "none", "--until", "2020-01-01T00:00:00Z"];
    cell.borough(&[&bob[..], &past].concat()).await.ended(0);
    // Batch may have any amount, up to a factor.
    cores_set(&cell, "ann", "batch", whole * 3).await.ended(0);
    let set = async |factors: &[&str]| cell.borough(&[&["cell", "set"][..], factors].concat()).await;
    set(&["--oversell", "batch=200"]).await.ended(4).warns("batch do not fit a factor of 200%: cpu:");
    set(&["--oversell", "production=101"]).await.ended(2).warns("production=PERCENT from 1 to 100");
    set(&["--oversell", "production=90"]).await.ended(4).warns("production and monitoring do not fit");
    set(&["--oversell", "batch=300"]).await.ended(0).prints("batch 300% of the capacity");
    cores_set(&cell, "eve", "batch", 1).await.ended(4).warns("(0 would fit)");
    cell.borough(&["event", "list"]).await.ended(0).prints("oversell: production=100 batch=none ->");
    let quiet = cell.borough(&["quota", "list"]).await.ended(0);
    assert!(!quiet.stderr.contains("warning"), "{}", quiet.stderr);

    // A node goes. What was granted stays.
    let agent = cell.agent_found("alpha-1").await;
    agent.signal(Signal::STOP).unwrap();
    let left =
        until("the loss of a node", || async { Some(capacity(&cell).await).filter(|left| *left < whole) });
    let left = left.await;
    let warning = "the quotas of production and monitoring grant more than the cell has: cpu:";
    cell.borough(&["quota", "status", "group/shop"]).await.ended(0).prints("in force").warns(warning);
    cell.borough(&["quota", "list"]).await.ended(0).warns(warning);
    cell.borough(&["cell", "status"]).await.ended(0).prints(warning);
    cell.run("web.yaml", &file("web", 1, "10m")).await;
    cores_set(&cell, "group/shop", "production", whole - 501).await.ended(0);
    cores_set(&cell, "group/shop", "production", whole - 500).await.ended(4).warns("would fit");
    cores_set(&cell, "group/shop", "production", left - 500).await.ended(0);
    cell.borough(&["cell", "set", "--oversell", "batch=none"]).await.ended(0);
    let quiet = cell.borough(&["quota", "list"]).await.ended(0);
    assert!(!quiet.stderr.contains("warning"), "{}", quiet.stderr);
    agent.signal(Signal::CONT).unwrap();
    cell.nodes_ready().await;
    cell.finish().await;
}

/// Quotas may be set before there is any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cell_without_nodes_takes_quotas_of_any_size() {
    let cell = TestCell::start(options!().nodes(0)).await;
    cores_set(&cell, "ann", "production", 64_000).await.ended(0).prints("/64");
    cell.borough(&["quota", "list"]).await.ended(0).prints("ann");
    cell.finish().await;
}
