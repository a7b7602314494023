//! Rewrites of path and authority.

use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use route::route_action::HostRewriteSpecifier;
use shared_proto::networking::v1alpha3::{HttpRewrite, RegexRewrite};

use super::header_value;
use super::report::{Problem, Report};
use crate::translate::issue::Reason;
use crate::translate::proto;

/// Sets the rewrites of a route; a part that cannot be used is left out and reported.
pub(super) fn apply(
    rewrite: &HttpRewrite,
    action: &mut route::RouteAction,
    report: &mut Report<'_>,
) {
    if let Some(regex) = &rewrite.uri_regex_rewrite {
        action.regex_rewrite = report.optional(regex_rewrite(regex));
    } else if !rewrite.uri.is_empty() {
        if header_value::is_valid(&rewrite.uri) {
            action.prefix_rewrite.clone_from(&rewrite.uri);
        } else {
            report.add(Problem::new(
                Reason::InvalidPath,
                "rewrite has control characters; it is left out",
            ));
        }
    }
    if !rewrite.authority.is_empty() {
        action.host_rewrite_specifier = report.optional(authority(&rewrite.authority));
    }
}

/// A new authority for the backend.
pub(super) fn authority(value: &str) -> Result<HostRewriteSpecifier, Problem> {
    if header_value::is_valid(value) && !value.contains([' ', '/', '\t']) {
        return Ok(HostRewriteSpecifier::HostRewriteLiteral(value.to_owned()));
    }
    Err(Problem::new(
        Reason::InvalidHost,
        format!("authority {value:?} is no host"),
    ))
}

fn regex_rewrite(rewrite: &RegexRewrite) -> Result<matcher::RegexMatchAndSubstitute, Problem> {
    let expression = &rewrite.r#match;
    let pattern = re2_pattern::parse(expression).map_err(|why| {
        Problem::new(
            Reason::InvalidRegex,
            format!("rewrite: regular expression {expression:?} {why}"),
        )
    })?;
    if !is_substitution(&rewrite.rewrite, pattern.groups) {
        return Err(Problem::new(
            Reason::InvalidPath,
            format!(
                "rewrite {:?} is not possible with {} capture groups",
                rewrite.rewrite, pattern.groups
            ),
        ));
    }
    Ok(matcher::RegexMatchAndSubstitute {
        pattern: Some(proto::regex(&pattern.text)),
        substitution: rewrite.rewrite.clone(),
    })
}

/// `\0` to `\9` name groups that exist, `\\` is a backslash, and there is no other escape.
fn is_substitution(text: &str, groups: usize) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            continue;
        }
        match bytes.next() {
            Some(b'\\') => {}
            Some(digit) if digit.is_ascii_digit() => {
                if usize::from(digit - b'0') > groups {
                    return false;
                }
            }
            _ => return false,
        }
    }
    header_value::is_valid(text)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::is_substitution;

    #[rstest]
    #[case(r"/a/\1", 1, true)]
    #[case(r"/a/\2", 1, false)]
    #[case(r"\0", 0, true)]
    #[case(r"\\", 0, true)]
    #[case(r"\", 0, false)]
    #[case(r"\x", 0, false)]
    #[case("a\nb", 0, false)]
    fn substitutions(#[case] text: &str, #[case] groups: usize, #[case] expected: bool) {
        assert_eq!(is_substitution(text, groups), expected);
    }
}
