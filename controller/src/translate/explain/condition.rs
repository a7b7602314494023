//! Conditions of routes.

use regex::Regex;
use shared_proto::networking::v1alpha3::string_match::MatchType;
use shared_proto::networking::v1alpha3::{HttpMatchRequest, StringMatch};

use super::Request;

/// A pattern of a text.
#[derive(Debug)]
pub(super) enum Pattern {
    Exact(String),
    Prefix(String),
    Regex(Regex),
    /// Any text.
    Present,
    /// An expression that cannot be compiled.
    Never,
}

impl Pattern {
    pub(super) fn new(value: &StringMatch) -> Self {
        match &value.match_type {
            None => Self::Present,
            Some(MatchType::Exact(text)) => Self::Exact(text.clone()),
            Some(MatchType::Prefix(text)) => Self::Prefix(text.clone()),
            Some(MatchType::Regex(text)) => whole(text).map_or(Self::Never, Self::Regex),
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(wanted) => text == wanted,
            Self::Prefix(wanted) => text.starts_with(wanted.as_str()),
            Self::Regex(regex) => regex.is_match(text),
            Self::Present => true,
            Self::Never => false,
        }
    }

    /// The same for text in lower case. Letter case does not matter for texts; expressions say themselves whether it does.
    fn matches_any_case(&self, text: &str) -> bool {
        let lower = text.to_ascii_lowercase();
        match self {
            Self::Exact(wanted) => lower == wanted.to_ascii_lowercase(),
            Self::Prefix(wanted) => lower.starts_with(&wanted.to_ascii_lowercase()),
            _ => self.matches(text),
        }
    }
}

/// An expression of a whole text.
fn whole(expression: &str) -> Option<Regex> {
    Regex::new(&format!("^(?:{expression})$")).ok()
}

/// One alternative of what a route takes.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) path: Option<Pattern>,
    any_case: bool,
    method: Option<Pattern>,
    headers: Vec<(String, Pattern)>,
    parameters: Vec<(String, Pattern)>,
}

impl Condition {
    pub(super) fn new(condition: &HttpMatchRequest) -> Self {
        let named = |(name, value): (&String, &StringMatch)| (name.clone(), Pattern::new(value));
        Self {
            path: condition.uri.as_ref().map(Pattern::new),
            any_case: condition.ignore_uri_case,
            method: condition.method.as_ref().map(Pattern::new),
            headers: condition.headers.iter().map(named).collect(),
            parameters: condition.query_params.iter().map(named).collect(),
        }
    }

    /// True when the request meets all of it.
    pub(super) fn holds(&self, request: &Request) -> bool {
        let path = self.path.as_ref().is_none_or(|path| {
            let plain = request.plain_path();
            match self.any_case {
                true => path.matches_any_case(plain),
                false => path.matches(plain),
            }
        });
        let method = self.method.as_ref();
        let found = |(pattern, value): (&Pattern, Option<&str>)| {
            value.is_some_and(|value| pattern.matches(value))
        };
        let mut headers = self.headers.iter();
        let mut parameters = self.parameters.iter();
        path && method.is_none_or(|method| method.matches(&request.method))
            && headers.all(|(name, pattern)| found((pattern, request.header(name))))
            && parameters.all(|(name, pattern)| found((pattern, request.parameter(name))))
    }
}
