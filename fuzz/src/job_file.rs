//! Job files in YAML and JSON, up to the checked spec. The first byte chooses the language. Jsonnet is left out,
//! because it runs in a process of its own. The places of YAML are left out too: the program's reader adds them.
//!
//! Property: no text makes the reader panic. An accepted spec is the same after its encoding.

use borough_model::job::file::TreeNode;
use borough_model::{JobSpec, Name};
use serde_json::Value;

use crate::{golden, rows, text};

/// One file.
pub fn run(data: &[u8]) {
    let Some((&language, bytes)) = data.split_first() else { return };
    let text = text(bytes);
    let json = || serde_json::from_str::<Value>(&text).ok();
    let yaml = || serde_saphyr::from_str::<Value>(&text).ok();
    let Some(file) = (if language.is_multiple_of(2) { yaml() } else { json() }) else { return };
    let Ok(caller) = Name::new("ada") else { return };
    if let Ok((spec, _)) = JobSpec::from_file(&TreeNode::from(&file), &caller) {
        let bytes = minicbor::to_vec(&spec).ok();
        assert!(bytes.is_some(), "a spec without an encoding");
        bytes.iter().for_each(|bytes| rows::stable::<JobSpec>(bytes));
    }
}

/// Small files in both languages.
pub fn corpus() -> Vec<Vec<u8>> {
    let yaml = [
        "name: web\ntask:\n  command: [/bin/serve]\n",
        "name: web\nkind: batch\ncount: 3\nmin_member: 2\ntask:\n  command: [a, b]\n  resources: {cpu: 500m, memory: 64Mi}\n",
        "name: a\nlabels: {team: x}\ntask: &t\n  command: [x]\n  environment: {A: \"1\"}\n  ports: [{name: http}]\n",
        "name: a\nconstraints:\n- {attribute: rack, operator: in, values: [r1]}\nspread: [{attribute: rack}]\ntask: {command: [x]}\n",
    ];
    let json =
        [r#"{"name":"web","kind":"service","count":2,"task":{"command":["x"],"resources":{"cpu":0.5}}}"#];
    let yaml = yaml.iter().map(|text| [&[0], text.as_bytes()].concat());
    let specs = golden("job_spec").into_iter().filter_map(|bytes| minicbor::decode(&bytes).ok());
    let values = specs.map(|spec: JobSpec| borough_model::job::spec_value(&spec).to_string());
    let json = json.iter().map(|text| (*text).to_owned()).chain(values);
    yaml.chain(json.map(|text| [&[1], text.as_bytes()].concat())).collect()
}
