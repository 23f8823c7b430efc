//! What becomes of a change of a job in its cell if a federation wants the job otherwise.

use std::time::Duration;

use borough_client::{Client, ClientError, JobRef};
use borough_model::federation::FEDERATION_LABEL;
use borough_proto::v1::{GetFederatedJobResponse, Job};

use crate::output::{Printer, federation_named, line_shown};

/// How long the home of a federation may take to say whether it still has the job.
const HOME_WAIT: Duration = Duration::from_secs(2);

/// A change of a part of a federated job, made in its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartChange {
    Stop,
    Count(u32),
    Labels,
    Version,
}

/// Says what becomes of it; nothing if no federation wants the job. One that has forgotten it, and one that the cell
/// has left, leave their labels.
pub(super) async fn owned_warn(client: &Client, job: &Job, change: PartChange, printer: &Printer) {
    let Some(remark) = owned_remark(job, change) else { return };
    let home = job.labels.get(FEDERATION_LABEL).map_or("", String::as_str);
    let (home, name) = (client.with_cell(home), JobRef::new(job.user.as_str(), job.name.as_str()));
    let asked = tokio::time::timeout(HOME_WAIT, home.federated_get(&name)).await;
    if !asked.is_ok_and(|answer| is_given_up(answer, client.cell())) {
        printer.remark(&remark);
    }
}

/// Whether the home has said that it wants nothing of the job in this cell.
fn is_given_up(answer: Result<GetFederatedJobResponse, ClientError>, cell: &str) -> bool {
    match answer {
        Ok(answer) => {
            let parts = answer.job.unwrap_or_default().parts;
            !parts.iter().any(|part| part.cell == cell)
        }
        Err(error) => {
            error.code() == Some(tonic::Code::NotFound) && error.to_string().contains("federated job")
        }
    }
}

fn owned_remark(job: &Job, change: PartChange) -> Option<String> {
    let home = job.labels.get(FEDERATION_LABEL)?;
    let (user, name, home) = (line_shown(&job.user), line_shown(&job.name), line_shown(home));
    let job = format!("{user}/{name}");
    let (then, way) = match change {
        PartChange::Stop => (
            "runs it again; to stop it everywhere, at its home:".to_owned(),
            format!("borough federation job stop {job} --all-cells"),
        ),
        PartChange::Count(count) => (
            "sets its count back; to scale it in all cells together, at its home:".to_owned(),
            format!("borough federation job scale {job} {count}"),
        ),
        PartChange::Labels => (
            "sets its labels back; to change them everywhere, in its file, at its home:".to_owned(),
            "borough federation job run FILE".to_owned(),
        ),
        PartChange::Version => (
            "sets back what it runs; to change it everywhere, at its home:".to_owned(),
            "borough federation job run FILE".to_owned(),
        ),
    };
    let federation = federation_named(&home);
    Some(format!("{job} is a part of a federated job: {federation} {then} {way}"))
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::{FederatedJob, FederatedPart};

    use super::*;

    #[test]
    fn a_cell_that_has_left_hears_nothing_of_its_federation() {
        let part = FederatedPart { cell: "alpha".to_owned(), ..FederatedPart::default() };
        let job = FederatedJob { parts: vec![part], ..FederatedJob::default() };
        let of = |cell: &str| {
            let answer =
                GetFederatedJobResponse { job: Some(job.clone()), ..GetFederatedJobResponse::default() };
            is_given_up(Ok(answer), cell)
        };
        assert_eq!((of("alpha"), of("beta")), (false, true));
    }

    #[test]
    fn who_changes_a_part_of_a_federated_job_hears_what_becomes_of_it() {
        let of = |labels: &[(&str, &str)], change| {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let (user, name) = ("ann".to_owned(), "web".to_owned());
            owned_remark(&Job { user, name, labels, ..Job::default() }, change)
        };
        assert_eq!(of(&[("tier", "web")], PartChange::Stop), None);
        let part = [(FEDERATION_LABEL, "home")];
        let stopped = of(&part, PartChange::Stop).unwrap();
        assert!(stopped.contains("the federation home runs it again"), "{stopped}");
        assert!(stopped.ends_with("borough federation job stop ann/web --all-cells"), "{stopped}");
        let scaled = of(&part, PartChange::Count(7)).unwrap();
        assert!(scaled.contains("the federation home sets its count back"), "{scaled}");
        assert!(scaled.ends_with("borough federation job scale ann/web 7"), "{scaled}");
        assert!(of(&part, PartChange::Labels).unwrap().contains("sets its labels back"));
        assert!(of(&part, PartChange::Version).unwrap().contains("sets back what it runs"));
    }
}
