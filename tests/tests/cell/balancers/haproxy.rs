//! HAProxy over DNS, as the documentation configures it.

use std::path::Path;

use borough_testkit::HeldProgram;
use borough_tests::TestCell;

/// Starts it before the port `http` of a job. It listens on `address`.
pub(super) fn start(cell: &TestCell, program: &Path, job: &str, address: &str) -> HeldProgram {
    let text = format!(
        "defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
resolvers borough
    nameserver names tcp@{dns}
    accepted_payload_size 65535
    timeout resolve 1s
    timeout retry 1s
    hold valid 1s
    hold obsolete 0s
    hold nx 5s
    hold other 30s
    hold refused 30s
    hold timeout 30s
frontend in
    bind {address}
    default_backend web
backend web
    balance roundrobin
    option redispatch 1
    option httpchk GET /health
    server-template web 40 _http._tcp.{job}.tester.alpha.borough.internal resolvers borough resolve-opts \
         allow-dup-ip init-addr none check inter 1s
",
        dns = cell.dns(),
    );
    let file = cell.file("haproxy.cfg", &text);
    HeldProgram::start(program, &["-f", &file], Path::new(&file).with_extension("log"))
}
