//! Addresses that flags take.

use std::str::FromStr;

/// A host and a port to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Why a text is no host and port.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("write it as host:port, for example 127.0.0.1:15010")]
pub struct HostPortError;

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        let (host, port) = text.rsplit_once(':').ok_or(HostPortError)?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or(HostPortError)?;
        let valid = !host.is_empty()
            && !host.contains(|c: char| c.is_whitespace() || c == '/' || c == '@')
            && (bare.is_some() || !host.contains(':'));
        if valid {
            Ok(Self {
                host: host.to_owned(),
                port,
            })
        } else {
            Err(HostPortError)
        }
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A source of configs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSource(pub HostPort);

/// Why a text is no source of configs.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("write it as xds://host:port, for example xds://127.0.0.1:15051")]
pub struct ConfigSourceError;

impl FromStr for ConfigSource {
    type Err = ConfigSourceError;

    fn from_str(text: &str) -> Result<Self, ConfigSourceError> {
        let address = text.strip_prefix("xds://").ok_or(ConfigSourceError)?;
        address.parse().map(Self).map_err(|_| ConfigSourceError)
    }
}
