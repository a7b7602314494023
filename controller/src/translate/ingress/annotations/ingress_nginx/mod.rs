//! What annotations mean in ingress-nginx, where that is not what they mean in Higress. One module per family; the family calls it when
//! the Ingress has these semantics.

pub(super) mod cors;
pub(in crate::translate::ingress) mod redirect;
pub(super) mod retry;

/// Seconds that may pass without a byte in either direction when nothing is said about them.
pub(super) const IDLE: i64 = 60;
