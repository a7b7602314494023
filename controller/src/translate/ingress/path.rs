//! What a path matches.

use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{HttpMatchRequest, StringMatch};

use super::annotations::Settings;
use super::annotations::text;
use super::annotations::value::shorten;
use crate::model::{IngressPath, PathType, Reason, Semantics};

/// Longest path, in bytes: longer ones hardly get through any proxy.
const MAX_LEN: usize = 8192;

/// The field below a path, the reason and words for its author.
type Fault = (&'static str, Reason, String);

/// Kinds of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathKind {
    Exact,
    Prefix,
    /// What begins with the path, which ends in a slash: a prefix of ingress-nginx, whose slash matters.
    Below,
    /// Of no Ingress path: the redirect of the root, and the like.
    Special,
    /// A regular expression of the start of the path.
    PrefixRegex,
    /// A regular expression of the whole path.
    FullRegex,
    /// A regular expression of the start of the path, in any letter case: every path of a host with regular expressions
    /// in ingress-nginx.
    AnyCaseRegex {
        /// It was written as an Exact path. Matches the same; it only tells claims on a path apart.
        exact: bool,
    },
}

impl PathKind {
    /// Rank in the order in which routes are tried.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Exact => 0,
            Self::Prefix | Self::Below => 1,
            Self::Special => 2,
            Self::PrefixRegex | Self::FullRegex | Self::AnyCaseRegex { .. } => 3,
        }
    }

    fn is_regex(self) -> bool {
        matches!(
            self,
            Self::PrefixRegex | Self::FullRegex | Self::AnyCaseRegex { .. }
        )
    }
}

/// A path in normal form: what conflicts are decided on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathMatch {
    pub(super) kind: PathKind,
    /// For a prefix without its trailing slash, unless it is `/`.
    pub(super) path: String,
}

impl PathMatch {
    /// `/`, every path.
    pub(super) fn root() -> Self {
        Self {
            kind: PathKind::Prefix,
            path: "/".to_owned(),
        }
    }

    /// A prefix of whole path elements, without a slash at the end.
    pub(super) fn prefix(path: String) -> Self {
        Self {
            kind: PathKind::Prefix,
            path,
        }
    }

    pub(super) fn is_root(&self) -> bool {
        let every = matches!(self.kind, PathKind::Prefix | PathKind::AnyCaseRegex { .. });
        every && self.path == "/"
    }

    /// The path that a client may have meant by this one without its slash at the end, where ingress-nginx tells it so.
    pub(super) fn without_slash(&self) -> Option<Self> {
        let told = matches!(self.kind, PathKind::Exact | PathKind::Below);
        let path = self
            .path
            .strip_suffix('/')
            .filter(|path| told && !path.is_empty())?;
        Some(Self {
            kind: PathKind::Exact,
            path: path.to_owned(),
        })
    }

    /// True when the expression of its start is no more than text.
    fn is_text(&self) -> bool {
        !self.path.contains(text::is_special)
    }

    /// Exactly the root, in the place of routes that no path of an Ingress asks for.
    pub(super) fn special_root() -> Self {
        Self {
            kind: PathKind::Special,
            path: "/".to_owned(),
        }
    }

    /// Exactly the root.
    pub(super) fn exact_root() -> Self {
        Self {
            kind: PathKind::Exact,
            path: "/".to_owned(),
        }
    }

    /// The regular expression that the whole path has to match, for the kinds that are one.
    pub(super) fn expression(&self) -> String {
        match self.kind {
            PathKind::FullRegex => format!("{}$", self.path),
            // Only the first of several alternatives is bound to the start.
            PathKind::AnyCaseRegex { .. } if has_alternatives(&self.path) => {
                format!("(?i).*?(?:^{}).*", self.path)
            }
            PathKind::AnyCaseRegex { .. } => format!("(?i){}.*", self.path),
            _ => format!("{}.*", self.path),
        }
    }

    /// Reads a path of an Ingress; `regex_host` = every path of the host is a regular expression in ingress-nginx. The
    /// error is the field below the path, the reason and words for its author.
    pub(super) fn parse(
        path: &IngressPath,
        settings: &Settings,
        regex_host: bool,
    ) -> Result<Self, Fault> {
        let exact = is_exact(&path.path_type)?;
        let rewrite = settings.rewrite.as_ref();
        let regex = rewrite.and_then(|rewrite| rewrite.regex_kind(&path.path));
        let (kind, text) = match settings.semantics {
            Semantics::Higress => higress(path, exact, regex),
            Semantics::IngressNginx => ingress_nginx(&path.path, exact, regex, regex_host),
        };
        let text = if text.is_empty() { "/" } else { text };
        if !text.starts_with('/') {
            let message = format!(
                "{:?} does not begin with `/`; the path is not served",
                path.path
            );
            return Err((".path", Reason::InvalidPath, message));
        }
        if text.chars().any(char::is_control) {
            let text = shorten(text);
            let message = format!("{text:?} has a control character; the path is not served");
            return Err((".path", Reason::InvalidPath, message));
        }
        let why = if text.len() > MAX_LEN {
            Some("is longer than 8192 bytes; shorten it")
        } else if kind.is_regex() {
            None
        } else {
            never_requested(text)
        };
        if let Some(why) = why {
            let message = format!("{:?} {why}; the path is not served", shorten(text));
            return Err((".path", Reason::InvalidPath, message));
        }
        let parsed = Self {
            kind,
            path: text.to_owned(),
        };
        if kind.is_regex()
            && let Err(why) = parsed.check()
        {
            let text = shorten(text);
            let message = format!("regular expression {text:?} {why}; the path is not served");
            return Err((".path", Reason::InvalidRegex, message));
        }
        Ok(parsed)
    }

    /// Says why the path is not a regular expression. What is put after it must not mend it.
    fn check(&self) -> Result<(), re2_pattern::Refusal> {
        re2_pattern::parse(&self.path)?;
        re2_pattern::parse(&self.expression()).map(drop)
    }

    /// The conditions of a route. A prefix matches whole path elements: the path itself, and what is below it.
    pub(super) fn conditions(&self) -> Vec<HttpMatchRequest> {
        let uri = |match_type| HttpMatchRequest {
            uri: Some(StringMatch {
                match_type: Some(match_type),
            }),
            ..HttpMatchRequest::default()
        };
        match self.kind {
            PathKind::Exact | PathKind::Special => {
                vec![uri(MatchType::Exact(self.path.clone()))]
            }
            // Cheaper than an expression, and the same.
            PathKind::AnyCaseRegex { .. } if self.is_text() => {
                let prefix = uri(MatchType::Prefix(self.path.clone()));
                vec![HttpMatchRequest {
                    ignore_uri_case: self.path != "/",
                    ..prefix
                }]
            }
            PathKind::PrefixRegex | PathKind::FullRegex | PathKind::AnyCaseRegex { .. } => {
                vec![uri(MatchType::Regex(self.expression()))]
            }
            PathKind::Below => vec![uri(MatchType::Prefix(self.path.clone()))],
            PathKind::Prefix if self.path == "/" => vec![uri(MatchType::Prefix("/".to_owned()))],
            PathKind::Prefix => vec![
                uri(MatchType::Exact(self.path.clone())),
                uri(MatchType::Prefix(format!("{}/", self.path))),
            ],
        }
    }
}

/// True for an expression `a|b`; alternatives within a group do not count.
fn has_alternatives(expression: &str) -> bool {
    let (mut depth, mut in_class) = (0usize, false);
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

fn is_exact(path_type: &PathType) -> Result<bool, Fault> {
    match path_type {
        PathType::Exact => Ok(true),
        PathType::Prefix | PathType::ImplementationSpecific | PathType::Absent => Ok(false),
        PathType::Unknown(text) => {
            let message =
                format!("{text:?} is not a path type; use Exact, Prefix or ImplementationSpecific");
            Err((".pathType", Reason::InvalidPathType, message))
        }
    }
}

/// Higress: an expression whatever the path type, else whole path elements; a slash at the end of a prefix does not matter.
fn higress(path: &IngressPath, exact: bool, regex: Option<PathKind>) -> (PathKind, &str) {
    let plain = if exact {
        PathKind::Exact
    } else {
        PathKind::Prefix
    };
    let kind = regex.unwrap_or(plain);
    let mut text: &str = &path.path;
    if path.path_type == PathType::Absent && !kind.is_regex() {
        text = text.strip_suffix(".*").unwrap_or(text);
        text = text.strip_suffix("/*").unwrap_or(text);
    }
    if kind == PathKind::Prefix && text.len() > 1 {
        text = text.strip_suffix('/').unwrap_or(text);
    }
    (kind, text)
}

/// ingress-nginx: the host decides whether paths are expressions. All path types but Exact are the same.
fn ingress_nginx(
    path: &str,
    exact: bool,
    regex: Option<PathKind>,
    regex_host: bool,
) -> (PathKind, &str) {
    let kind = match regex {
        Some(kind) => kind,
        None if regex_host => PathKind::AnyCaseRegex { exact },
        None if exact => PathKind::Exact,
        None if path.len() > 1 && path.ends_with('/') => PathKind::Below,
        None => PathKind::Prefix,
    };
    (kind, path)
}

/// Why no request has this path, or one that begins with it.
fn never_requested(path: &str) -> Option<&'static str> {
    if path.contains('?') {
        return Some(
            "has a `?`, and the query is no part of the path; write the path alone, conditions on the query go into annotations match-query",
        );
    }
    if path.contains('#') {
        return Some("has a `#`, and clients send nothing from there on; write %23 if it is meant");
    }
    let escapes = path.split('%').skip(1);
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !escapes.into_iter().all(is_escape) {
        return Some("has a `%` without two hexadecimal digits after it; write %25 if it is meant");
    }
    if path.split('/').any(|part| part == "." || part == "..") {
        return Some(
            "has a part `.` or `..`, which gateways resolve first; write the path without",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Backend;
    use std::sync::Arc;

    #[rstest::rstest]
    #[case(PathType::Exact, "/a/", Ok((PathKind::Exact, "/a/")))]
    #[case(PathType::Exact, "", Ok((PathKind::Exact, "/")))]
    #[case(PathType::Prefix, "/a/", Ok((PathKind::Prefix, "/a")))]
    #[case(PathType::Prefix, "/a//", Ok((PathKind::Prefix, "/a/")))]
    #[case(PathType::Prefix, "/", Ok((PathKind::Prefix, "/")))]
    #[case(PathType::Prefix, "", Ok((PathKind::Prefix, "/")))]
    #[case(PathType::ImplementationSpecific, "/a/*", Ok((PathKind::Prefix, "/a/*")))]
    #[case(PathType::Absent, "/a/*", Ok((PathKind::Prefix, "/a")))]
    #[case(PathType::Absent, "/a.*", Ok((PathKind::Prefix, "/a")))]
    #[case(PathType::Absent, "/*", Ok((PathKind::Prefix, "/")))]
    #[case(PathType::Prefix, "a", Err(Reason::InvalidPath))]
    #[case(PathType::Exact, "/a\nb", Err(Reason::InvalidPath))]
    #[case(PathType::Exact, "/a?b=c", Err(Reason::InvalidPath))]
    #[case(PathType::Prefix, "/a#b", Err(Reason::InvalidPath))]
    #[case(PathType::Prefix, "/%zz", Err(Reason::InvalidPath))]
    #[case(PathType::Prefix, "/a%2", Err(Reason::InvalidPath))]
    #[case(PathType::Exact, "/a/../b", Err(Reason::InvalidPath))]
    #[case(PathType::Exact, "/a/.", Err(Reason::InvalidPath))]
    #[case(PathType::Exact, "/a%20b", Ok((PathKind::Exact, "/a%20b")))]
    #[case(PathType::Exact, "/.well-known/a..b", Ok((PathKind::Exact, "/.well-known/a..b")))]
    #[case(PathType::Exact, &format!("/{}", "a".repeat(8192)), Err(Reason::InvalidPath))]
    #[case(
        PathType::Unknown(Arc::from("Odd")),
        "/a",
        Err(Reason::InvalidPathType)
    )]
    fn paths(
        #[case] path_type: PathType,
        #[case] path: &str,
        #[case] expected: Result<(PathKind, &str), Reason>,
    ) {
        let path = IngressPath {
            path: Arc::from(path),
            path_type,
            backend: Backend::Absent,
        };
        let parsed = PathMatch::parse(&path, &Settings::default(), false);
        let found = parsed
            .as_ref()
            .map(|p| (p.kind, p.path.as_str()))
            .map_err(|e| e.1);
        assert_eq!(found, expected);
    }

    #[rstest::rstest]
    #[case("use-regex", "/a/[0-9]", Ok((PathKind::PrefixRegex, "/a/[0-9].*")))]
    #[case("full-path-regex", "/a/", Ok((PathKind::FullRegex, "/a/$")))]
    #[case("use-regex", "/a*", Ok((PathKind::PrefixRegex, "/a*.*")))]
    #[case("use-regex", "/a?/%?#", Ok((PathKind::PrefixRegex, "/a?/%?#.*")))]
    #[case("use-regex", "/a(", Err(Reason::InvalidRegex))]
    #[case("use-regex", "/a\\", Err(Reason::InvalidRegex))]
    #[case("use-regex", "a", Err(Reason::InvalidPath))]
    fn expressions(
        #[case] key: &str,
        #[case] path: &str,
        #[case] expected: Result<(PathKind, &str), Reason>,
    ) {
        let mut ingress = crate::model::Ingress::new(Arc::from("n"), Arc::from("i"));
        let key = format!("higress.io/{key}");
        ingress
            .annotations
            .insert(Arc::from(key), Arc::from("true"));
        let path = IngressPath {
            path: Arc::from(path),
            path_type: PathType::Absent,
            backend: Backend::Absent,
        };
        let parsed = PathMatch::parse(&path, &Settings::parse(&ingress).0, false);
        let found = parsed.map(|p| (p.kind, p.expression())).map_err(|e| e.1);
        assert_eq!(found, expected.map(|(kind, text)| (kind, text.to_owned())));
    }

    #[rstest::rstest]
    #[case(PathType::Exact, "/a", false, &["= /a"])]
    #[case(PathType::Exact, "/a/", false, &["= /a/"])]
    #[case(PathType::Prefix, "/a", false, &["= /a", "^ /a/"])]
    #[case(PathType::Prefix, "/a/", false, &["^ /a/"])]
    #[case(PathType::ImplementationSpecific, "/a", false, &["= /a", "^ /a/"])]
    #[case(PathType::Absent, "/a/*", false, &["= /a/*", "^ /a/*/"])]
    #[case(PathType::Prefix, "/", false, &["^ /"])]
    #[case(PathType::Exact, "/a", true, &["^i /a"])]
    #[case(PathType::Prefix, "/a/", true, &["^i /a/"])]
    #[case(PathType::Prefix, "", true, &["^ /"])]
    #[case(PathType::ImplementationSpecific, "/v1.0", true, &["~ (?i)/v1.0.*"])]
    #[case(PathType::ImplementationSpecific, "/a(/|$)(.*)", true, &["~ (?i)/a(/|$)(.*).*"])]
    #[case(PathType::ImplementationSpecific, "/a[|]|/b", true, &["~ (?i).*?(?:^/a[|]|/b).*"])]
    #[case(PathType::ImplementationSpecific, "/a(", true, &[])]
    fn paths_of_ingress_nginx(
        #[case] path_type: PathType,
        #[case] path: &str,
        #[case] regex_host: bool,
        #[case] expected: &[&str],
    ) {
        let path = IngressPath {
            path: Arc::from(path),
            path_type,
            backend: Backend::Absent,
        };
        let settings = Settings {
            semantics: Semantics::IngressNginx,
            ..Settings::default()
        };
        let parsed = PathMatch::parse(&path, &settings, regex_host);
        let shown = |condition: HttpMatchRequest| {
            let case = if condition.ignore_uri_case { "i" } else { "" };
            match condition.uri.unwrap().match_type.unwrap() {
                MatchType::Exact(text) => format!("={case} {text}"),
                MatchType::Prefix(text) => format!("^{case} {text}"),
                MatchType::Regex(text) => format!("~{case} {text}"),
            }
        };
        let conditions = parsed.map(|path| path.conditions()).unwrap_or_default();
        let found: Vec<String> = conditions.into_iter().map(shown).collect();
        assert_eq!(found, expected);
    }
}
