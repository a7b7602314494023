//! Names and values of HTTP headers, and the substitutions in values.
//!
//! Envoy reads `%COMMAND%` in a value and refuses the whole resource when it does not know the
//! command. Known commands stay live, every other percent sign is sent as itself.

/// Commands without argument.
const PLAIN: [&str; 36] = [
    "BYTES_RECEIVED",
    "BYTES_SENT",
    "CONNECTION_ID",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_ADDRESS",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_LOCAL_SUBJECT",
    "DOWNSTREAM_LOCAL_URI_SAN",
    "DOWNSTREAM_PEER_CERT",
    "DOWNSTREAM_PEER_CERT_V_END",
    "DOWNSTREAM_PEER_CERT_V_START",
    "DOWNSTREAM_PEER_FINGERPRINT_1",
    "DOWNSTREAM_PEER_FINGERPRINT_256",
    "DOWNSTREAM_PEER_ISSUER",
    "DOWNSTREAM_PEER_SERIAL",
    "DOWNSTREAM_PEER_SUBJECT",
    "DOWNSTREAM_PEER_URI_SAN",
    "DOWNSTREAM_REMOTE_ADDRESS",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_REMOTE_PORT",
    "DOWNSTREAM_TLS_CIPHER",
    "DOWNSTREAM_TLS_SESSION_ID",
    "DOWNSTREAM_TLS_VERSION",
    "DURATION",
    "HOSTNAME",
    "PROTOCOL",
    "REQUESTED_SERVER_NAME",
    "RESPONSE_CODE",
    "RESPONSE_FLAGS",
    "ROUTE_NAME",
    "START_TIME",
    "UPSTREAM_CLUSTER",
    "UPSTREAM_HOST",
    "UPSTREAM_LOCAL_ADDRESS",
];

/// Commands with the name of a header.
const WITH_HEADER: [&str; 2] = ["REQ", "RESP"];

/// Largest value that Envoy takes, in bytes.
const MAX_VALUE: usize = 16384;

/// True for a field name of RFC 9110.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_VALUE
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// True for text that can stand in a header: no control characters and not too long.
pub(super) fn is_valid(value: &str) -> bool {
    value.len() <= MAX_VALUE
        && value
            .bytes()
            .all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// The value with every percent sign escaped that does not belong to a known command.
pub(super) fn escape(value: &str) -> String {
    let mut result = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        result.push_str(before);
        match substitution(from) {
            Some(len) => {
                let (command, after) = from.split_at(len);
                result.push_str(command);
                rest = after;
            }
            None => {
                result.push_str("%%");
                rest = from.strip_prefix('%').unwrap_or_default();
            }
        }
    }
    result.push_str(rest);
    result
}

/// Length of `%%` or of a known command at the start.
fn substitution(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('%')?;
    if inner.starts_with('%') {
        return Some(2);
    }
    let name_len = inner
        .bytes()
        .take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
        .count();
    let (name, tail) = inner.split_at(name_len);
    let tail = if WITH_HEADER.contains(&name) {
        let (argument, tail) = tail.strip_prefix('(')?.split_once(')')?;
        let pseudo = argument.strip_prefix(':').unwrap_or(argument);
        is_name(pseudo).then_some(tail)?
    } else {
        PLAIN.contains(&name).then_some(tail)?
    };
    let tail = tail.strip_prefix('%')?;
    Some(text.len() - tail.len())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("plain", "plain")]
    #[case("100%", "100%%")]
    #[case("100%%", "100%%")]
    #[case("%PROTOCOL%", "%PROTOCOL%")]
    #[case("a%REQ(x-a)%b", "a%REQ(x-a)%b")]
    #[case("%REQ(:authority)%", "%REQ(:authority)%")]
    #[case("%REQ%", "%%REQ%%")]
    #[case("%NO_SUCH%", "%%NO_SUCH%%")]
    #[case("%ENVIRONMENT(HOME)%", "%%ENVIRONMENT(HOME)%%")]
    #[case("%PROTOCOL", "%%PROTOCOL")]
    #[case("50%20%PROTOCOL%", "50%%20%PROTOCOL%")]
    fn unknown_commands_are_text(#[case] value: &str, #[case] expected: &str) {
        assert_eq!(escape(value), expected);
    }

    #[rstest]
    #[case("x-a", true)]
    #[case("X_A.b", true)]
    #[case("", false)]
    #[case("a b", false)]
    #[case("a:b", false)]
    #[case("é", false)]
    fn names(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_name(name), expected);
    }
}
