//! gRPC and HTTP front doors, agent sessions, watch fan-out.
