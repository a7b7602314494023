//! From changes to facts and their indexes.
//!
//! In: [`Change`](crate::model::change::Change)s of the sources. [`world`] and [`context`] keep the facts and their
//! indexes in persistent maps: the next state shares with the last one what did not change, and says what may
//! have. [`debounce`] says when. Work is proportional to the change at every step.

pub mod context;
pub mod debounce;
pub mod destination_rules;
mod destinations;
pub mod envoy_filters;
pub mod world;
