//! Key material for TLS, as PEM. Never printed.

use std::fmt;

use bytes::Bytes;

/// Certificate, key and trust anchors of one Kubernetes Secret; validated when it was read.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsSecret {
    /// Certificate chain, leaf first; empty when the Secret holds trust anchors only.
    pub cert_chain: Bytes,
    /// Private key of the leaf; empty exactly when `cert_chain` is.
    pub private_key: Bytes,
    /// Trust anchors to verify the peer with.
    pub ca: Option<Bytes>,
}

impl fmt::Debug for TlsSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSecret")
            .field("cert_chain_bytes", &self.cert_chain.len())
            .field("private_key", &"[redacted]")
            .field("ca_bytes", &self.ca.as_ref().map(Bytes::len))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::TlsSecret;

    #[test]
    fn debug_output_hides_the_key() {
        let secret = TlsSecret {
            cert_chain: "certificate".into(),
            private_key: "very-private".into(),
            ca: None,
        };
        assert!(!format!("{secret:?}").contains("very-private"));
    }
}
