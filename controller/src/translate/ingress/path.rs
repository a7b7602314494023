//! What a path matches.

use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{HttpMatchRequest, StringMatch};

use crate::model::{IngressPath, PathType, Reason};

/// Kinds of paths in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum PathKind {
    Exact,
    Prefix,
}

/// A path in normal form: what conflicts are decided on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PathMatch {
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

    /// Reads a path of an Ingress. The error is the field below the path, the reason and words for its author.
    pub(super) fn parse(path: &IngressPath) -> Result<Self, (&'static str, Reason, String)> {
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
        let mut text: &str = &path.path;
        if path.path_type == PathType::Absent {
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
        Ok(Self {
            kind,
            path: text.to_owned(),
        })
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
            PathKind::Exact => vec![uri(MatchType::Exact(self.path.clone()))],
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
        let parsed = PathMatch::parse(&path);
        let found = parsed
            .as_ref()
            .map(|p| (p.kind, p.path.as_str()))
            .map_err(|e| e.1);
        assert_eq!(found, expected);
    }
}
