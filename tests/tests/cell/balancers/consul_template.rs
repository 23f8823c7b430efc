//! consul-template over the catalogue of Consul. It writes the upstreams of an nginx.

use std::path::Path;

use borough_testkit::HeldProgram;
use borough_tests::{TestCell, until};

use super::nginx;
use super::page::{example, replaced};

/// The heading of the documentation.
const HEADING: &str = "### consul-template and nginx";

/// Starts both before the job `web`. nginx listens on `address`.
pub(super) async fn start(
    cell: &TestCell,
    consul_template: &Path,
    nginx_program: &Path,
    address: &str,
) -> [HeldProgram; 2] {
    let file = cell.file("web.hcl", "");
    let folder = Path::new(&file).with_file_name("nginx-web");
    let upstreams = folder.join("web.conf");
    let nginx_arguments = nginx::arguments(&folder);
    let reload = std::iter::once(nginx_program).chain(nginx_arguments.iter().map(AsRef::as_ref));
    let reload = reload.chain([Path::new("-s"), Path::new("reload")]);
    // Before nginx runs, there is nothing to reload.
    let reload: Vec<String> = reload.map(|part| format!("'{}'", part.display())).collect();
    let reload = format!("\"test ! -e '{}' || {}\"", folder.join("nginx.pid").display(), reload.join(" "));
    let text = example(cell, HEADING, address);
    let text = replaced(&text, "\"/etc/nginx/conf.d/web.conf\"", &format!("\"{}\"", upstreams.display()));
    let text = replaced(&text, r#"["nginx", "-s", "reload"]"#, &reload);
    cell.file("web.hcl", &text);
    let follower =
        HeldProgram::start(consul_template, &["-config", &file], Path::new(&file).with_extension("log"));
    until("a file of upstreams", || async { upstreams.exists().then_some(()) }).await;
    let http = format!(
        "    include {};\n    server {{ listen {address}; location / {{ proxy_pass http://web; }} }}",
        upstreams.display()
    );
    let server = nginx::start(nginx_program, &folder, &http);
    until("nginx that can be reloaded", || async { folder.join("nginx.pid").exists().then_some(()) }).await;
    [follower, server]
}
