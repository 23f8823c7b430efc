//! Compiles `borough/v1/*.proto` without a system `protoc`: protox parses, prost and tonic generate. The conversions
//! of a job's spec come from the same descriptors.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Messages that have the fields of a type of the model, by the same names. `src/convert/wire.rs` converts the values.
const MIRRORED: [(&str, &str); 19] = [
    ("JobSpec", "job::JobSpec"),
    ("TaskSpec", "job::TaskSpec"),
    ("TaskOverride", "job::TaskOverride"),
    ("Role", "job::Role"),
    ("After", "job::After"),
    ("Constraint", "job::Constraint"),
    ("Spread", "job::Spread"),
    ("Affinity", "job::Affinity"),
    ("Toleration", "job::Toleration"),
    ("Preemption", "job::PreemptionSpec"),
    ("RestartSpec", "job::RestartSpec"),
    ("UpdateSpec", "job::UpdateSpec"),
    ("HelperSpec", "job::HelperSpec"),
    ("IdentitySpec", "job::IdentitySpec"),
    ("SecretReference", "job::SecretReference"),
    ("LogSpec", "job::LogSpec"),
    ("PortSpec", "job::PortSpec"),
    ("DeviceSelector", "node::CardSelector"),
    ("Resources", "Resources"),
];
/// Fields of a message that stand in one field of the model: the message, its fields, the model's field, its type.
const GATHERED: [(&str, [&str; 2], &str, &str); 1] =
    [("JobSpec", ["gang_topology", "roles"], "gang", "super::gang::GangFields")];

fn main() -> Result<(), Box<dyn Error>> {
    let names = [
        "access",
        "agent",
        "audit",
        "cell",
        "common",
        "dry_run",
        "federated",
        "job",
        "member",
        "merged",
        "name",
        "node",
        "quota",
        "task",
        "watch",
    ];
    let files: Vec<String> = names.iter().map(|name| format!("borough/v1/{name}.proto")).collect();
    println!("cargo:rerun-if-changed=borough");
    let descriptors = protox::compile(&files, ["."])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("borough.bin"), descriptors.encode_to_vec())?;
    fs::write(out.join("wire.rs"), conversions(&descriptors)?)?;
    tonic_prost_build::configure().bytes(".").btree_map(".").compile_fds(descriptors)?;
    Ok(())
}

/// Both directions of every mirrored message, field by field. A field that the other side lacks does not compile.
fn conversions(descriptors: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let mut code = String::new();
    for (name, model) in MIRRORED {
        let messages = || descriptors.file.iter().flat_map(|file| &file.message_type);
        let message = messages().find(|message| message.name() == name);
        conversion(&mut code, message.ok_or_else(|| format!("there is no message {name}"))?, model)?;
    }
    Ok(code)
}

fn conversion(code: &mut String, message: &DescriptorProto, model: &str) -> Result<(), std::fmt::Error> {
    let name = message.name();
    let gathered = || GATHERED.iter().filter(|(of, ..)| *of == name);
    let (mut to, mut from) = (String::new(), String::new());
    for field in message.field.iter().map(prost_types::FieldDescriptorProto::name) {
        if gathered().any(|(_, fields, ..)| fields.contains(&field)) {
            continue;
        }
        write!(to, "{field}: Wire::of(&model.{field}),")?;
        write!(from, "{field}: Wire::read(&self.{field}, &path.field({field:?}))?,")?;
    }
    for (_, [first, second], field, parts) in gathered() {
        write!(
            to,
            "{first}: {parts}::of(&model.{field}).{first}, {second}: {parts}::of(&model.{field}).{second},"
        )?;
        write!(from, "{field}: {parts}::read(self, path)?,")?;
    }
    writeln!(
        code,
        "impl Wire<borough_model::{model}> for v1::{name} {{
            fn of(model: &borough_model::{model}) -> Self {{ Self {{ {to} }} }}
            fn read(&self, path: &WirePath<'_>) -> Result<borough_model::{model}, FieldRefused> {{
                Ok(borough_model::{model} {{ {from} }})
            }}
        }}"
    )
}
