//! What a path matches.

use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{HttpMatchRequest, StringMatch};

use super::annotations::Settings;
use super::annotations::value::shorten;
use crate::model::{IngressPath, PathType, Reason};

/// The field below a path, the reason and words for its author.
type Fault = (&'static str, Reason, String);

/// Kinds of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathKind {
    Exact,
    Prefix,
    /// Of no Ingress path: the redirect of the root, and the like.
    Special,
    /// A regular expression of the start of the path.
    PrefixRegex,
    /// A regular expression of the whole path.
    FullRegex,
}

impl PathKind {
    /// Rank in the order in which routes are tried.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Exact => 0,
            Self::Prefix => 1,
            Self::Special => 2,
            Self::PrefixRegex | Self::FullRegex => 3,
        }
    }

    fn is_regex(self) -> bool {
        matches!(self, Self::PrefixRegex | Self::FullRegex)
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

    pub(super) fn is_root(&self) -> bool {
        self.kind == PathKind::Prefix && self.path == "/"
    }

    /// Exactly the root, in the place of routes that no path of an Ingress asks for.
    pub(super) fn special_root() -> Self {
        Self {
            kind: PathKind::Special,
            path: "/".to_owned(),
        }
    }

    /// The regular expression that the whole path has to match, for the kinds that are one.
    pub(super) fn expression(&self) -> String {
        match self.kind {
            PathKind::FullRegex => format!("{}$", self.path),
            _ => format!("{}.*", self.path),
        }
    }

    /// Reads a path of an Ingress. The error is the field below the path, the reason and words for its author.
    pub(super) fn parse(path: &IngressPath, settings: &Settings) -> Result<Self, Fault> {
        let rewrite = settings.rewrite.as_ref();
        let regex = rewrite.and_then(|rewrite| rewrite.regex_kind(&path.path));
        let kind = match &path.path_type {
            PathType::Exact => PathKind::Exact,
            PathType::Prefix | PathType::ImplementationSpecific | PathType::Absent => {
                PathKind::Prefix
            }
            PathType::Unknown(text) => {
                let message = format!(
                    "{text:?} is not a path type; use Exact, Prefix or ImplementationSpecific"
                );
                return Err((".pathType", Reason::InvalidPathType, message));
            }
        };
        let kind = regex.unwrap_or(kind);
        let mut text: &str = &path.path;
        if path.path_type == PathType::Absent && !kind.is_regex() {
            text = text.strip_suffix(".*").unwrap_or(text);
            text = text.strip_suffix("/*").unwrap_or(text);
        }
        if kind == PathKind::Prefix && text.len() > 1 {
            text = text.strip_suffix('/').unwrap_or(text);
        }
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
            PathKind::PrefixRegex | PathKind::FullRegex => {
                vec![uri(MatchType::Regex(self.expression()))]
            }
            PathKind::Prefix if self.path == "/" => vec![uri(MatchType::Prefix("/".to_owned()))],
            PathKind::Prefix => vec![
                uri(MatchType::Exact(self.path.clone())),
                uri(MatchType::Prefix(format!("{}/", self.path))),
            ],
        }
    }
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
        let parsed = PathMatch::parse(&path, &Settings::default());
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
        let parsed = PathMatch::parse(&path, &Settings::parse(&ingress).0);
        let found = parsed.map(|p| (p.kind, p.expression())).map_err(|e| e.1);
        assert_eq!(found, expected.map(|(kind, text)| (kind, text.to_owned())));
    }
}
