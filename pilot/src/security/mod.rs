//! xDS over TLS: the certificate of the secure port, and who may use it.
//!
//! [`setup`] reads the flags. [`certificates`] is the one task that owns the certificate, from files or made by an
//! [`authority`] that all replicas share ([`shared_ca`]). [`listener`] does the handshakes, [`authenticate`] lets in whom a
//! ServiceAccount token ([`tokens`], in [`turns`]) or a client certificate vouches for. Private keys of HTTPS hosts go to
//! nobody else; see [`crate::xds::source`].

pub mod authenticate;
pub mod authority;
pub mod certificates;
pub mod listener;
pub mod setup;
pub mod shared_ca;
pub mod tokens;
pub mod turns;
