//! Host name algebra: what a host may look like and which one is the more specific.

use std::cmp::Ordering;

/// True when Envoy takes the text as a virtual host domain: `*`, a name, or `*.` and a name; lower
/// case letters, digits, `-`, `_` and `.`; or an IP address.
pub(crate) fn is_valid(host: &str) -> bool {
    if host == "*" || host.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    !name.is_empty()
        && name.len() <= 253
        && name.split('.').all(|label| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
        })
}

/// Names before wildcards, longer ones first, then by the alphabet.
pub(crate) fn by_specificity(left: &str, right: &str) -> Ordering {
    let wildcard = |host: &str| host.starts_with('*');
    (wildcard(left), right.len(), left).cmp(&(wildcard(right), left.len(), right))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*", true)]
    #[case("a.example.com", true)]
    #[case("*.example.com", true)]
    #[case("10.0.0.1", true)]
    #[case("localhost", true)]
    #[case("under_score.example", true)]
    #[case("", false)]
    #[case("*.", false)]
    #[case("*a.example.com", false)]
    #[case("a.*.com", false)]
    #[case("a..com", false)]
    #[case("A.com", false)]
    #[case("a.com:80", false)]
    #[case("a b.com", false)]
    fn valid_hosts(#[case] host: &str, #[case] expected: bool) {
        assert_eq!(is_valid(host), expected);
    }

    #[test]
    fn specific_hosts_come_first() {
        let mut hosts = ["*", "*.c", "b.c", "*.b.c", "a.b.c"];
        hosts.sort_by(|left, right| by_specificity(left, right));
        assert_eq!(hosts, ["a.b.c", "b.c", "*.b.c", "*.c", "*"]);
    }
}
