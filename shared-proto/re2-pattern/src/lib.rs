//! Regular expressions of users: what Envoy's engine (RE2) takes.
//!
//! In: an expression as its author wrote it. Out: the text to send and its number of capture groups, or why Envoy would
//! refuse it. One expression that RE2 refuses makes Envoy refuse the whole resource, so it is refused here, where its author
//! is told. Expressions are read with the parser of Rust's regex crate, whose syntax is of the same family, and what only
//! one of the two knows is sorted out here. When in doubt the answer is no.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod braces;
mod cost;

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::hir::translate::Translator;

/// Bound on the estimated size of the compiled program, below what gateways are set to refuse.
const MAX_COST: u64 = 20_000;
/// Bound on the nesting of groups.
const MAX_DEPTH: u32 = 100;

/// An expression that Envoy takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The text to send: braces that are no repetition are escaped.
    pub text: String,
    /// Number of capture groups.
    pub groups: usize,
}

/// Why Envoy would refuse an expression: words that follow its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is nothing in it.
    #[error("is empty")]
    Empty,
    /// It cannot be parsed.
    #[error("{0}")]
    Syntax(regex_syntax::ast::ErrorKind),
    /// It can be parsed and has no meaning.
    #[error("{0}")]
    Meaning(regex_syntax::hir::ErrorKind),
    /// A name of a group that RE2 does not take.
    #[error("has the group name {0:?}")]
    GroupName(String),
    /// Something that RE2 does not know, or reads otherwise.
    #[error("{0}")]
    Construct(&'static str),
    /// Bounded repetitions, nested ones multiplied, that are more than this.
    #[error("repeats more than {0} times")]
    Repeats(u64),
    /// The compiled program would be too large.
    #[error("is too large")]
    TooLarge,
}

/// Reads an expression.
///
/// # Errors
///
/// Says why Envoy would refuse it.
pub fn parse(expression: &str) -> Result<Pattern, Refusal> {
    if expression.is_empty() {
        return Err(Refusal::Empty);
    }
    let text = braces::escape_literal(expression);
    let tree = ParserBuilder::new()
        .nest_limit(MAX_DEPTH)
        .build()
        .parse(&text)
        .map_err(|error| Refusal::Syntax(error.kind().clone()))?;
    Translator::new()
        .translate(&text, &tree)
        .map_err(|error| Refusal::Meaning(error.kind().clone()))?;
    let (cost, groups) = cost::measure(&tree)?;
    if cost > MAX_COST {
        return Err(Refusal::TooLarge);
    }
    Ok(Pattern { text, groups })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::parse;

    #[rstest]
    #[case("/a.*", 0)]
    #[case("^/api/(v[0-9]+)(/.*)?$", 2)]
    #[case("(?i)abc", 0)]
    #[case("(?P<name>x)", 1)]
    #[case("[[:alpha:]]+", 0)]
    #[case(r"\d{1,1000}", 0)]
    #[case(r"^(.*?;\s*)?(user=always)(;.*)?$", 3)]
    #[case("GET|POST", 0)]
    #[case(r"\pL+\x{10FFFF}", 0)]
    fn taken(#[case] expression: &str, #[case] groups: usize) {
        let pattern = parse(expression).unwrap();
        assert_eq!(pattern.text, expression);
        assert_eq!(pattern.groups, groups);
    }

    #[rstest]
    #[case("")]
    #[case("(unclosed")]
    #[case("/broken/([a-z")]
    #[case("(?=look)")]
    #[case(r"\1")]
    #[case("*")]
    #[case("a**")]
    #[case("a++")]
    #[case(r"a{1001}")]
    #[case(r"(a{100}){100}")]
    #[case("(?x)a b")]
    #[case(r"[a-z&&[aeiou]]")]
    #[case(r"[a[b]]")]
    #[case(r"\u1234")]
    #[case(r"\p{Letter}")]
    #[case(r"(\w{500}[a-z]{500}.{900}){1}.{1000}")]
    fn refused(#[case] expression: &str) {
        assert!(parse(expression).is_err());
    }

    #[rstest]
    #[case("/users/{id}", r"/users/\{id\}")]
    #[case("[{}]{2}", "[{}]{2}")]
    #[case(r"\{a}", r"\{a\}")]
    #[case(r"\p{Greek}{", r"\p{Greek}\{")]
    fn braces_are_escaped(#[case] expression: &str, #[case] text: &str) {
        assert_eq!(parse(expression).unwrap().text, text);
    }
}
