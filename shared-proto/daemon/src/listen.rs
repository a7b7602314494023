//! Listening sockets and the addresses that flags give for them.

use std::fmt;
use std::io;
use std::str::FromStr;

use tokio::net::TcpListener;

/// A listening address, `host:port` or `:port` (all interfaces).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress(String);

/// Why a text is not a listening address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not host:port; write it like 127.0.0.1:8080, [::1]:8080 or :8080")]
pub struct AddressError(String);

impl ListenAddress {
    /// This port of all interfaces.
    #[must_use]
    pub fn any(port: u16) -> Self {
        Self(format!("0.0.0.0:{port}"))
    }
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || AddressError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(refuse)?;
        let port: u16 = port.parse().map_err(|_| refuse())?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.contains(char::is_whitespace) || (host.contains(':') && !bracketed) {
            return Err(refuse());
        }
        let host = if host.is_empty() { "0.0.0.0" } else { host };
        Ok(Self(format!("{host}:{port}")))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An address that could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({flag}): {source}; free it or give another address")]
pub struct BindError {
    flag: &'static str,
    address: ListenAddress,
    source: io::Error,
}

/// Listens on the address that `flag` gave.
///
/// # Errors
/// Names the flag, the address and the system's reason.
pub async fn bind(flag: &'static str, address: &ListenAddress) -> Result<TcpListener, BindError> {
    TcpListener::bind(&address.0)
        .await
        .map_err(|source| BindError {
            flag,
            address: address.clone(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("127.0.0.1:80", Some("127.0.0.1:80"))]
    #[case(":8888", Some("0.0.0.0:8888"))]
    #[case("[::1]:80", Some("[::1]:80"))]
    #[case("localhost:80", Some("localhost:80"))]
    #[case("80", None)]
    #[case("::1:80", None)]
    #[case("a:http", None)]
    #[case("a:70000", None)]
    fn addresses(#[case] text: &str, #[case] expected: Option<&str>) {
        let parsed = text.parse::<ListenAddress>().ok();
        assert_eq!(parsed.map(|a| a.to_string()).as_deref(), expected);
    }

    #[tokio::test]
    async fn a_taken_port_names_the_flag() {
        let first = bind("--x", &"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = first.local_addr().unwrap().to_string();
        let error = bind("--y-address", &address.parse().unwrap())
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("--y-address") && text.contains(&address),
            "{text}"
        );
    }
}
