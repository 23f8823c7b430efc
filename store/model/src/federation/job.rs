//! A job file with a `federation` part: the job as each cell has it, and how its tasks are divided.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::release::ReleaseSpec;
use super::spec::{
    CellGroup, CellLimits, CellSpread, FailoverAfter, FederationSpec, ReturnPolicy, SplitPolicy,
};
use crate::field_error::{FieldError, FieldErrors};
use crate::id::Name;
use crate::job::file::write::{FileMap, delay, toleration};
use crate::job::file::{
    FieldInfo, FieldReader, FileItem, FileMessage, InnerMessage, Problem, TreeNode, TreeValue, check_problem,
};
use crate::job::{JobSpec, Note, SPEC_BYTES_MAX};
use crate::merged::LabelCondition;

/// The field of a job file that makes the job a federated one.
pub const FEDERATION_FIELD: &str = "federation";

/// What a job file with a `federation` part says.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct FederatedJob {
    /// The job with the whole count. A cell has [`FederatedJob::cell_job`].
    #[n(0)]
    pub job: JobSpec,
    #[n(1)]
    pub federation: FederationSpec,
}

impl FederationSpec {
    /// The definition of its fields.
    pub fn file_fields() -> &'static [FieldInfo] {
        <Self as FileMessage>::FIELDS
    }

    /// The JSON Schema of the part in a job file.
    pub fn file_schema() -> Value {
        <Self as InnerMessage>::schema()
    }

    /// Checks everything that the part alone decides.
    ///
    /// # Errors
    /// Each field that cannot be admitted.
    pub fn validate(&self) -> Result<(), Vec<FieldError>> {
        let mut fields = FieldErrors::default();
        self.fields_check(&mut fields, FEDERATION_FIELD);
        fields.done()
    }

    /// The part as a job file has it: the fields that differ from their defaults.
    pub fn to_file(&self) -> Value {
        let default = Self::default();
        let mut file = FileMap::default();
        file.put_list("cells", &self.cells, |cell| json!(cell.as_str()));
        file.put_list("where", &self.conditions, condition);
        file.put_list("groups", &self.groups, group);
        file.put_unless("split", &self.split, &default.split, |policy: &SplitPolicy| json!(policy.name()));
        file.put_unless("weights", &self.weights, &default.weights, |weights| json!(weights));
        file.put_some("cell_min", self.cell_min.as_ref(), |tasks| json!(tasks));
        file.put_some("cell_max", self.cell_max.as_ref(), |tasks| json!(tasks));
        file.put_unless("limits", &self.limits, &default.limits, |limits| {
            let limits = limits.iter().map(|(cell, limits)| (cell.as_str().to_owned(), limits_file(limits)));
            Value::Object(limits.collect())
        });
        file.put_list("spread", &self.spread, spread);
        file.put_list("tolerations", &self.tolerations, toleration);
        file.put_list("away_from", &self.away_from, |job| json!(job.as_str()));
        file.put_unless("overrides", &self.overrides, &default.overrides, |overrides| {
            let patch = |text: &String| serde_json::from_str(text).unwrap_or(Value::Null);
            Value::Object(
                overrides.iter().map(|(cell, text)| (cell.as_str().to_owned(), patch(text))).collect(),
            )
        });
        file.put_unless(
            "failover_after",
            &self.failover_after,
            &default.failover_after,
            |after| match after {
                FailoverAfter::Never => json!("never"),
                FailoverAfter::Ms(ms) => delay(*ms),
            },
        );
        file.put_unless("returns", &self.returns, &default.returns, |policy: &ReturnPolicy| {
            json!(policy.name())
        });
        file.put_unless("avoid_disruption", &self.avoid_disruption, &true, |avoids| json!(avoids));
        file.put_unless("rollout", &self.rollout, &default.rollout, ReleaseSpec::to_file);
        file.done()
    }
}

pub(super) fn condition(condition: &LabelCondition) -> Value {
    condition.to_string().into()
}

fn group(group: &CellGroup) -> Value {
    let mut map = FileMap::default();
    map.put_list("cells", &group.cells, |cell| json!(cell.as_str()));
    map.put_list("where", &group.conditions, condition);
    map.done()
}

fn limits_file(limits: &CellLimits) -> Value {
    let mut map = FileMap::default();
    map.put_some("min", limits.min.as_ref(), |tasks| json!(tasks));
    map.put_some("max", limits.max.as_ref(), |tasks| json!(tasks));
    map.done()
}

fn spread(rule: &CellSpread) -> Value {
    let mut map = FileMap::default();
    map.put("by", rule.by.as_str());
    map.put_some("min", rule.min.as_ref(), |values| json!(values));
    map.put_some("max", rule.max.as_ref(), |values| json!(values));
    map.done()
}

impl FederatedJob {
    /// The checked job of a file, with notes. `caller` is the user of the job if the file names none.
    ///
    /// # Errors
    /// Every problem, in the order of the file. A patch that makes an invalid job in one cell refuses the whole job.
    pub fn from_file(root: &TreeNode, caller: &Name) -> Result<(Self, Vec<Note>), Vec<Problem>> {
        let (rest, part) = part_taken(root).map_err(|mut problems| {
            let mut of_job = JobSpec::from_file(root, caller).err().unwrap_or_default();
            // A file that is no map lacks more than one field.
            if matches!(root.value, TreeValue::Map(_)) {
                of_job.retain(|problem| !problem.message.contains(FEDERATION_FIELD));
                problems.extend(of_job);
                problems
            } else {
                of_job
            }
        })?;
        let mut problems = Vec::new();
        let job = JobSpec::from_file(&rest, caller).map_err(|found| problems.extend(found)).ok();
        let mut reader = FieldReader::default();
        reader.part(FEDERATION_FIELD, FederationSpec::file_fields());
        let item = FileItem { node: &part, path: FEDERATION_FIELD.to_owned() };
        let federation = FederationSpec::default().message_read(&mut reader, &item);
        problems.append(&mut reader.problems);
        if let Some(federation) = &federation {
            let mut fields = FieldErrors::beside(&reader.unread);
            federation.fields_check(&mut fields, FEDERATION_FIELD);
            if let Some((job, _)) = &job {
                federation.job_check(&mut fields, job);
            }
            let errors = fields.done().err().unwrap_or_default();
            problems.extend(errors.iter().filter_map(|error| check_problem(&reader, error)));
        }
        if let (Some((job, notes)), Some(federation), true) = (job, federation, problems.is_empty()) {
            let whole = Self { job, federation };
            problems.extend(whole.patches_check().into_iter().map(|error| {
                Problem::at(reader.place(&error.path), format!("{}: {}", error.path, error.problem))
            }));
            if problems.is_empty() {
                return Ok((whole, notes));
            }
        }
        problems.sort_by_key(|problem| problem.at);
        Err(problems)
    }

    /// Checks both parts, and the job of each cell that an override changes.
    ///
    /// # Errors
    /// Each field that cannot be admitted.
    pub fn validate(&self) -> Result<(), Vec<FieldError>> {
        self.job.validate()?;
        let mut fields = FieldErrors::default();
        self.federation.fields_check(&mut fields, FEDERATION_FIELD);
        self.federation.job_check(&mut fields, &self.job);
        fields.done()?;
        let mut fields = FieldErrors::default();
        let bytes = minicbor::to_vec(self).map_or(usize::MAX, |bytes| bytes.len());
        let accepted = format!("at most {SPEC_BYTES_MAX} bytes as stored, with the `federation` part");
        fields.require(bytes <= SPEC_BYTES_MAX, "job", format!("{bytes} bytes"), accepted);
        for error in self.patches_check() {
            fields.refuse(&error.path, error.problem, "a patch that makes a valid job in its cell");
        }
        fields.done()
    }

    /// The job file that says the same.
    pub fn to_file(&self) -> Value {
        let mut file = self.job.to_file();
        if let Value::Object(fields) = &mut file {
            fields.insert(FEDERATION_FIELD.to_owned(), self.federation.to_file());
        }
        file
    }

    /// The job of one cell, with so many tasks.
    ///
    /// # Errors
    /// What the job of this cell cannot have. With the whole count nothing, if the job was checked: fields that depend
    /// on the count, such as `update.canaries`, may not fit a smaller one.
    pub fn cell_job(&self, cell: &Name, count: u32) -> Result<JobSpec, Vec<Problem>> {
        let mut file = self.federation.patched(&self.job.to_file(), cell);
        if let Value::Object(fields) = &mut file {
            fields.insert("count".to_owned(), count.into());
        }
        JobSpec::from_file(&TreeNode::from(&file), &self.job.user).map(|(job, _)| job)
    }

    /// The problems of patches, each with the path of the patch.
    fn patches_check(&self) -> Vec<PatchProblem> {
        let problems = |cell: &Name| {
            let path = format!("{FEDERATION_FIELD}.overrides[{:?}]", cell.as_str());
            let found = self.cell_job(cell, self.job.count).err().unwrap_or_default();
            found
                .into_iter()
                .map(move |problem| PatchProblem { path: path.clone(), problem: problem.message })
        };
        self.federation.overrides.keys().flat_map(problems).collect()
    }
}

/// What a patch makes of the job in its cell.
struct PatchProblem {
    path: String,
    problem: String,
}

/// The file without its `federation` part, and that part.
fn part_taken(root: &TreeNode) -> Result<(TreeNode, TreeNode), Vec<Problem>> {
    let missing = || {
        let accepted = "a map such as {cells: [a, b]}, or {} for every cell";
        let message = format!("field {FEDERATION_FIELD:?} is missing; accepted: {accepted}");
        vec![Problem::of(root, message)]
    };
    let TreeValue::Map(entries) = &root.value else { return Err(missing()) };
    let (parts, rest): (Vec<_>, Vec<_>) =
        entries.iter().cloned().partition(|(key, _)| key.text == FEDERATION_FIELD);
    if let Some((key, _)) = parts.get(1) {
        let message = format!("field {FEDERATION_FIELD:?} stands twice; accepted: each once");
        return Err(vec![Problem::at(key.at, message)]);
    }
    let part = parts.into_iter().next().filter(|(_, node)| node.value != TreeValue::Null);
    let (_, part) = part.ok_or_else(missing)?;
    Ok((TreeNode { at: root.at, value: TreeValue::Map(rest) }, part))
}
