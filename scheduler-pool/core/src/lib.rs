//! Deciding: snapshot, filters, scores, plans, explanations. Pure.
