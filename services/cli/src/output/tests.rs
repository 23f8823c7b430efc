//! What answers look like: golden tables, JSON and YAML.
