//! Cell controllers: liveness, stops, restarts, trimming.
