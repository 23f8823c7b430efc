//! YAML output, whole.

use super::*;

#[test]
fn yaml_is_yaml() {
    check(
        &yaml(&CellOutput::from(v1::Cell::default())).expect("YAML"),
        &expect![[r#"
            name: ""
            state: unspecified
            store: ""
            store_epoch: 0
            nodes: 0
            nodes_ready: 0
            capacity:
              cpu_millis: 0
              memory_bytes: 0
              disk_bytes: 0
              disk_bytes_per_s: 0
              network_bytes_per_s: 0
              device_millis: {}
            used:
              cpu_millis: 0
              memory_bytes: 0
              disk_bytes: 0
              disk_bytes_per_s: 0
              network_bytes_per_s: 0
              device_millis: {}
            jobs: 0
            tasks:
              pending: 0
              held: 0
              assigned: 0
              starting: 0
              running: 0
              healthy: 0
              stopping: 0
              releasing: 0
              lost: 0
              succeeded: 0
              failed: 0
            schedulers: []
            staleness_ms: 0
            settings:
              profile: ""
              failure_domains: []
              lost_per_minute_max: 0
              job_retention_ms: 0
              journal_retention_ms: 0
              journal_bytes_max: 0
              audit_retention_ms: 0
              ended_jobs_max: 0
              queueing: ""
              queues: []
              schedulers: {}
              fresh_start_ms: 0
              reclaim: false
              dns_ttl_ms: 0
              dns_negative_ttl_ms: 0
              drain_delay_ms: 0
              oversell_production: 0
              oversell_batch: 0
              revision: 0
            warnings: []
            members: 0
        "#]],
    );
}
