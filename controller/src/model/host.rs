//! Host names of rules.

use std::net::Ipv4Addr;

/// The host of rules without one: every host that has no rules of its own.
pub const CATCH_ALL: &str = "*";

/// Longest DNS name, RFC 1035.
const MAX_LEN: usize = 253;
const MAX_LABEL: usize = 63;

/// Why a text is not the host of a rule (Kubernetes Ingress: a DNS name, or one with a leading `*.`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Longer than DNS allows.
    #[error("is longer than 253 characters, or has a part longer than 63")]
    TooLong,
    /// An address.
    #[error("is an IP address; a rule's host is a name, leave it out to match all hosts")]
    Address,
    /// `host:port`.
    #[error("has a port; a host matches on every port, write the name only")]
    Port,
    /// `*` anywhere but as the first label.
    #[error("has a `*` that is not its whole first part; write `*.example.com`")]
    Wildcard,
    /// Any other character.
    #[error("is not a DNS name; use letters, digits, `-` and `.`, with no part empty")]
    Character,
}

/// Normal form of a rule's host: lower case; empty becomes [`CATCH_ALL`].
///
/// # Errors
/// The text can never be the host of a request.
pub fn parse_host(raw: &str) -> Result<String, HostError> {
    if raw.is_empty() || raw == CATCH_ALL {
        return Ok(CATCH_ALL.to_owned());
    }
    if raw.len() > MAX_LEN {
        return Err(HostError::TooLong);
    }
    if raw.parse::<std::net::IpAddr>().is_ok() || raw.starts_with('[') {
        return Err(HostError::Address);
    }
    let host = raw.to_ascii_lowercase();
    if let Some((name, port)) = host.rsplit_once(':') {
        let numeric = port.bytes().all(|b| b.is_ascii_digit());
        return Err(match name.parse::<Ipv4Addr>() {
            Ok(_) => HostError::Address,
            Err(_) if numeric => HostError::Port,
            Err(_) => HostError::Character,
        });
    }
    let name = host.strip_prefix("*.").unwrap_or(&host);
    if name.contains('*') {
        return Err(HostError::Wildcard);
    }
    for label in name.split('.') {
        if label.len() > MAX_LABEL {
            return Err(HostError::TooLong);
        }
        let edges = label.starts_with('-') || label.ends_with('-');
        let plain = label
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if label.is_empty() || edges || !plain {
            return Err(HostError::Character);
        }
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("", Ok("*"))]
    #[case("*", Ok("*"))]
    #[case("a.example.com", Ok("a.example.com"))]
    #[case("A.Example.COM", Ok("a.example.com"))]
    #[case("*.example.com", Ok("*.example.com"))]
    #[case("localhost", Ok("localhost"))]
    #[case("1a.test", Ok("1a.test"))]
    #[case("a.*.b", Err(HostError::Wildcard))]
    #[case("*a.b", Err(HostError::Wildcard))]
    #[case("*.*.b", Err(HostError::Wildcard))]
    #[case("a.test:80", Err(HostError::Port))]
    #[case("10.0.0.1", Err(HostError::Address))]
    #[case("10.0.0.1:80", Err(HostError::Address))]
    #[case("::1", Err(HostError::Address))]
    #[case("[::1]:80", Err(HostError::Address))]
    #[case("a b", Err(HostError::Character))]
    #[case("a..b", Err(HostError::Character))]
    #[case("a.test.", Err(HostError::Character))]
    #[case("*.", Err(HostError::Character))]
    #[case("-a.test", Err(HostError::Character))]
    #[case("bücher.test", Err(HostError::Character))]
    #[case("http://a.test", Err(HostError::Character))]
    fn hosts(#[case] raw: &str, #[case] expected: Result<&str, HostError>) {
        assert_eq!(parse_host(raw), expected.map(str::to_owned));
    }

    #[test]
    fn long_hosts() {
        assert_eq!(
            parse_host(&format!("{}.test", "a".repeat(64))),
            Err(HostError::TooLong)
        );
        assert_eq!(parse_host(&"a.".repeat(130)), Err(HostError::TooLong));
    }
}
