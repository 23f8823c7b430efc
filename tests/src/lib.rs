//! Whole-system tests with real processes, and the tidy test.
