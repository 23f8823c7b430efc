//! Metrics as a server shows them.

use prometheus_client::registry::Registry;

/// The text of the metrics that `register` puts into a registry.
pub fn metrics_text(register: impl FnOnce(&mut Registry)) -> String {
    let mut registry = Registry::default();
    register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}
