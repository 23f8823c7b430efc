//! Arguments of the verbs on merged services: `name set`, `name status` and `name remove`.

use std::collections::BTreeMap;
use std::str::FromStr;

use borough_client::JobRef;
use borough_model::Name;
use borough_model::merged::{MERGED_NAME_MAX, SHARE_WHOLE};
use clap::Args;

use super::list::{LabelConditions, label_conditions};
use super::value_shown;

/// How a service over labels behaves, with examples.
pub(super) const SERVICE_NOTES: &str = "A service over labels has the endpoints of all jobs of one user whose labels \
    meet its conditions. A job with a share gets it, however many tasks it has; the others divide what is left by the \
    weights of their endpoints. A job without a usable endpoint gives its part to the others.\n\n\
    Examples:\n  \
    borough name set shop --label app=shop --share shop-canary=5    # a canary gets 5 per cent\n  \
    borough name set shop --share shop-canary=25                    # more; what is not named stays\n  \
    borough name set shop --share shop-canary=none                  # no share: by the weights of its endpoints";

/// `[USER/]NAME` of a merged service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTarget {
    user: Option<String>,
    name: String,
}

impl ServiceTarget {
    /// The service, of `caller` where no user is given.
    pub fn resolve(&self, caller: &str) -> JobRef {
        JobRef::new(self.user.as_deref().unwrap_or(caller), self.name.as_str())
    }
}

impl FromStr for ServiceTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (user, name) = match *text.split('/').collect::<Vec<_>>().as_slice() {
            [name] => (None, name),
            [user, name] => (Some(user), name),
            _ => return Err("accepted: NAME or USER/NAME".to_owned()),
        };
        let checked = |what: &str, name: &str| {
            let named = Name::new(name);
            named.map_err(|error| format!("the name of the {what}, {}, {error}", value_shown(name)))
        };
        user.map(|user| checked("user", user)).transpose()?;
        let length = checked("service", name)?.as_str().len();
        if length > MERGED_NAME_MAX {
            return Err(format!(
                "the name of the service has {length} characters; accepted: at most {MERGED_NAME_MAX}"
            ));
        }
        Ok(Self { user: user.map(str::to_owned), name: name.to_owned() })
    }
}

/// What a job gets of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobSharePart {
    /// It divides what is left with the others.
    None,
    Percent(u32),
}

/// `name set`.
#[derive(Clone, Debug, Args)]
pub struct ServiceSet {
    /// [USER/]NAME
    #[arg(value_name = "NAME")]
    pub service: ServiceTarget,
    /// Take the jobs with labels like this, instead of those before
    #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
    pub label: Vec<LabelConditions>,
    /// Give a job this part of the traffic in per cent, 0 to 100, or none: no share; repeat for more
    #[arg(long = "share", value_name = "JOB=PERCENT", value_parser = share)]
    pub shares: Vec<(String, JobSharePart)>,
}

fn share(text: &str) -> Result<(String, JobSharePart), String> {
    let accepted = || format!("accepted: JOB=PERCENT, 0 to {SHARE_WHOLE}, such as canary=5, or JOB=none");
    let (job, part) = text.split_once('=').ok_or_else(accepted)?;
    if Name::new(job).is_err() {
        return Err(accepted());
    }
    let percent = || part.strip_suffix('%').unwrap_or(part).parse().ok();
    let part = match part {
        "none" => JobSharePart::None,
        _ => percent()
            .filter(|percent| *percent <= SHARE_WHOLE)
            .map(JobSharePart::Percent)
            .ok_or_else(accepted)?,
    };
    Ok((job.to_owned(), part))
}

/// The shares with what a command line changes. The error says which job stands twice.
pub(crate) fn shares_changed(
    mut shares: BTreeMap<String, u32>,
    named: &[(String, JobSharePart)],
) -> Result<BTreeMap<String, u32>, String> {
    for (at, (job, part)) in named.iter().enumerate() {
        if named.iter().take(at).any(|(before, _)| before == job) {
            return Err(format!("--share: the job {job:?} stands twice; accepted: each job once"));
        }
        match part {
            JobSharePart::None => drop(shares.remove(job)),
            JobSharePart::Percent(percent) => drop(shares.insert(job.clone(), *percent)),
        }
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_job_with_its_per_cent() {
        let of = |job: &str, part| Ok((job.to_owned(), part));
        assert_eq!(share("canary=5"), of("canary", JobSharePart::Percent(5)));
        assert_eq!(share("canary=5%"), of("canary", JobSharePart::Percent(5)));
        assert_eq!(share("canary=none"), of("canary", JobSharePart::None));
        for bad in ["canary", "canary=", "=5", "canary=101", "canary=-1", "canary=2.5", "Canary=5", "c=5%%"] {
            assert!(share(bad).unwrap_err().starts_with("accepted: JOB=PERCENT, 0 to 100"), "{bad}");
        }
    }

    #[test]
    fn what_is_not_named_stays() {
        let before: BTreeMap<String, u32> = [("a".to_owned(), 5), ("b".to_owned(), 10)].into();
        let named = [("a".to_owned(), JobSharePart::None), ("c".to_owned(), JobSharePart::Percent(1))];
        let after = shares_changed(before.clone(), &named).unwrap();
        assert_eq!(after, [("b".to_owned(), 10), ("c".to_owned(), 1)].into());
        let twice = [named[1].clone(), named[1].clone()];
        assert!(shares_changed(before, &twice).unwrap_err().contains("\"c\" stands twice"));
    }

    #[test]
    fn a_service_has_a_name_and_perhaps_a_user() {
        let of = |text: &str| text.parse::<ServiceTarget>().map(|target| target.resolve("ann").to_string());
        assert_eq!((of("shop"), of("bob/shop")), (Ok("ann/shop".to_owned()), Ok("bob/shop".to_owned())));
        assert!(of(&"n".repeat(60)).is_ok());
        assert!(of(&"n".repeat(61)).unwrap_err().ends_with("accepted: at most 60"));
        assert_eq!(of("a/b/c"), Err("accepted: NAME or USER/NAME".to_owned()));
        assert!(of("Shop").unwrap_err().starts_with("the name of the service, "));
    }
}
