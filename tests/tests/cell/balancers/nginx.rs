//! nginx, over DNS or with a file of upstreams.

use std::fs;
use std::path::{Path, PathBuf};

use borough_testkit::HeldProgram;
use borough_tests::{TestCell, http_get, options, until};

use super::page::{example, replaced};
use super::program_or_report;

/// Starts it with these directives of `http`. Its files are in `folder`.
pub(super) fn start(program: &Path, folder: &Path, http: &str) -> HeldProgram {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let own: String = folders.iter().map(|kind| format!("    {kind}_temp_path tmp;\n")).collect();
    fs::create_dir_all(folder).unwrap();
    let text = format!(
        "worker_processes 1;\npid nginx.pid;\nerror_log stderr warn;\ndaemon off;\nevents {{}}\nhttp {{\n    \
         access_log off;\n{own}{http}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), text).unwrap();
    HeldProgram::start(program, &arguments(folder), folder.join("log"))
}

/// The arguments that name the files of an nginx in `folder`.
pub(super) fn arguments(folder: &Path) -> Vec<PathBuf> {
    ["-p".into(), folder.to_owned(), "-c".into(), folder.join("nginx.conf")].into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nginx_follows_a_job_by_dns() {
    let Some(program) = program_or_report("nginx") else { return };
    let cell = TestCell::start(options!().agent_arguments(&["--task-user=agent"])).await;
    let (address, task) = (cell.balancer(0), cell.balancer(1));
    let port = task.rsplit(':').next().unwrap();
    let server = cell.file("server.py", source!("http-python/server.py"));
    let job = format!(
        "name: web\nkind: service\ntask:\n  command: [python3, -u, {server}, '{port}']\n  \
         resources: {{cpu: 10m, memory: 32MiB}}\n  ports: [{{name: http, number: {port}}}]\n  \
         health: {{tcp: http, interval: 200ms}}\n  grace: 500ms\n"
    );
    let http = replaced(&example(&cell, "### nginx", &address), ":8000", &format!(":{port}"));
    let folder = Path::new(&server).with_file_name("nginx-dns");
    let nginx = start(&program, &folder, &http);
    let status = async |wanted: u16| {
        until(&format!("an answer {wanted} of nginx"), || async {
            let (status, _) = http_get(&address, "/", None).await.ok()?;
            (status == wanted).then_some(())
        })
        .await;
    };
    status(502).await;
    cell.run("web.yaml", &job).await;
    status(200).await;
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    status(502).await;
    cell.run("web.yaml", &job).await;
    status(200).await;
    nginx.end().await;
    cell.finish().await;
}
