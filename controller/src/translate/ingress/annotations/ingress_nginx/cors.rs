//! Cross-origin requests as ingress-nginx has them: other headers by default, and origins in any letter case whose `*` is one
//! label.

use shared_proto::networking::v1alpha3::string_match::MatchType;

use super::super::text;

/// Headers that clients may send when nothing is said about them.
pub(in super::super) const HEADERS: [&str; 9] = [
    "DNT",
    "Keep-Alive",
    "User-Agent",
    "X-Requested-With",
    "If-Modified-Since",
    "Cache-Control",
    "Content-Type",
    "Range",
    "Authorization",
];
/// A part of a host name.
const LABEL: &str = "[a-z0-9-]+";

/// The origin `scheme://authority`; with `wildcard` something stands before the authority.
pub(in super::super) fn origin(scheme: &str, authority: &str, wildcard: bool) -> MatchType {
    let label = if wildcard { LABEL } else { "" };
    let (scheme, authority) = (text::literal(scheme), text::literal(authority));
    MatchType::Regex(format!("(?i){scheme}://{label}{authority}"))
}
