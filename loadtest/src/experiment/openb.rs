//! The openb trace: nodes with graphics cards of several models and the tasks of a production cluster (Alibaba's
//! cluster-trace-gpu-v2023, and the variants of the FGD paper, ATC 2023).

use std::path::Path;

use anyhow::Context as _;

use super::table::{ResultTable, Row};

/// A node of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenbNode {
    pub name: String,
    pub cpu_millis: u64,
    pub memory_mib: u64,
    pub cards: u32,
    /// The model of its cards; empty without cards.
    pub model: String,
}

/// A task of the trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpenbTask {
    pub cpu_millis: u64,
    pub memory_mib: u64,
    /// Thousandths: a share of one card, or whole ones.
    pub gpu_millis: u64,
    /// Acceptable models; empty: any.
    pub models: Vec<String>,
    /// Whether it serves users, rather than being batch work.
    pub service: bool,
}

const NODES: &str = "openb_node_list_all_node.csv";
const TASKS_PREFIX: &str = "openb_pod_list_";

/// The nodes of the trace in `directory`.
pub(super) fn nodes(directory: &Path) -> anyhow::Result<Vec<OpenbNode>> {
    let node = |row: Row<'_>| {
        Ok(OpenbNode {
            name: row.text("sn").to_owned(),
            cpu_millis: row.number("cpu_milli")?,
            memory_mib: row.number("memory_mib")?,
            cards: row.number("gpu")?,
            model: row.text("model").to_owned(),
        })
    };
    ResultTable::read(&directory.join(NODES))?.rows().map(node).collect()
}

/// The tasks of a variant, in the order of the file.
pub(super) fn tasks(directory: &Path, variant: &str) -> anyhow::Result<Vec<OpenbTask>> {
    let table = ResultTable::read(&directory.join(format!("{TASKS_PREFIX}{variant}.csv")))?;
    table.rows().map(task_of).collect()
}

fn task_of(row: Row<'_>) -> anyhow::Result<OpenbTask> {
    let (cards, millis): (u64, u64) = (row.number("num_gpu")?, row.number("gpu_milli")?);
    let mut models: Vec<String> =
        row.text("gpu_spec").split('|').filter(|model| !model.is_empty()).map(str::to_owned).collect();
    models.sort();
    models.dedup();
    Ok(OpenbTask {
        cpu_millis: row.number("cpu_milli")?,
        memory_mib: row.number("memory_mib")?,
        gpu_millis: if cards > 1 { cards * 1000 } else { cards * millis },
        models,
        service: matches!(row.text("qos"), "LS" | "Guaranteed"),
    })
}

/// The variants in `directory`, by name.
pub(super) fn variants(directory: &Path) -> anyhow::Result<Vec<String>> {
    let listed = std::fs::read_dir(directory).with_context(|| {
        format!("there is no trace in {}: give its directory with --trace", directory.display())
    })?;
    let mut found = Vec::new();
    for entry in listed {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let variant = name.strip_prefix(TASKS_PREFIX).and_then(|name| name.strip_suffix(".csv"));
        found.extend(variant.map(str::to_owned));
    }
    anyhow::ensure!(!found.is_empty(), "{} has no {TASKS_PREFIX}*.csv", directory.display());
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_from_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write(NODES, "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,786432,8,G2\n");
        write(
            "openb_pod_list_default.csv",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,4000,15258,1,220,\nb,8000,1,4,1000,T4|A10|T4\nc,1,1,0,0,\n",
        );
        write("openb_pod_list_small.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,2,1000\n");
        let nodes = nodes(directory.path()).unwrap();
        assert_eq!((nodes.len(), nodes[1].cards, nodes[1].model.as_str()), (2, 8, "G2"));
        let tasks = super::tasks(directory.path(), "default").unwrap();
        let gpu: Vec<u64> = tasks.iter().map(|task| task.gpu_millis).collect();
        assert_eq!(gpu, [220, 4000, 0]);
        assert_eq!(tasks[1].models, ["A10", "T4"]);
        assert_eq!(super::tasks(directory.path(), "small").unwrap()[0].gpu_millis, 2000);
        assert_eq!(variants(directory.path()).unwrap(), ["default", "small"]);
    }

    #[test]
    fn a_directory_without_a_trace_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        assert!(variants(directory.path()).unwrap_err().to_string().contains("openb_pod_list_"));
        assert!(variants(Path::new("/nowhere")).unwrap_err().to_string().contains("--trace"));
    }
}
