//! Which series an expression of PromQL reads, and which of their labels it needs.
//!
//! It reads what dashboards are written in: selectors with matchers, ranges and offsets, functions, operators with `on`,
//! and aggregations whose `by` stands before the brackets. Anything else is an error, so that nothing is passed over.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};

/// A metric that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Its name.
    pub(crate) name: String,
    /// Labels that are matched, grouped or joined by.
    pub(crate) labels: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text,
    Number,
    Sign(char),
}

const AGGREGATIONS: [&str; 8] = [
    "sum", "min", "max", "avg", "count", "topk", "bottomk", "stddev",
];
const JOINS: [&str; 3] = ["and", "or", "unless"];

/// Reads an expression without variables.
///
/// # Errors
/// It is not of the form that is understood.
pub(crate) fn selectors(expression: &str) -> Result<Vec<Selector>> {
    let read = || {
        let mut parser = Parser {
            tokens: tokens(expression)?,
            at: 0,
        };
        let found = parser.expression()?;
        ensure!(parser.peek().is_none(), "more than an expression");
        Ok(found)
    };
    read().with_context(|| format!("`{expression}`"))
}

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let length = if first == '"' {
            let end = rest[1..].find('"').context("a text without end")?;
            tokens.push(Token::Text);
            end + 2
        } else if first.is_ascii_digit() {
            tokens.push(Token::Number);
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
                .unwrap_or(rest.len())
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            end
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, words: &[&str]) -> bool {
        let found =
            matches!(self.peek(), Some(Token::Word(word)) if words.contains(&word.as_str()));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: char) -> Result<()> {
        ensure!(self.takes(sign), "no {sign} before {:?}", self.peek());
        Ok(())
    }

    /// `( label, label )`
    fn labels(&mut self) -> Result<BTreeSet<String>> {
        self.expect('(')?;
        let mut labels = BTreeSet::new();
        while !self.takes(')') {
            let Some(Token::Word(label)) = self.peek().cloned() else {
                bail!("no label but {:?}", self.peek());
            };
            labels.insert(label);
            self.at += 1;
            self.takes(',');
        }
        Ok(labels)
    }

    fn expression(&mut self) -> Result<Vec<Selector>> {
        let mut found = self.operand()?;
        while self.operator() {
            let mut joined = BTreeSet::new();
            if self.takes_word(&["on"]) {
                joined = self.labels()?;
            }
            if self.takes_word(&["group_left", "group_right"]) {
                joined.extend(self.labels()?);
            }
            found.extend(self.operand()?);
            add(&mut found, &joined);
        }
        Ok(found)
    }

    fn operator(&mut self) -> bool {
        if self.takes_word(&JOINS) {
            return true;
        }
        let before = self.at;
        while matches!(self.peek(), Some(Token::Sign(sign)) if "+-*/%^=!<>".contains(*sign)) {
            self.at += 1;
        }
        self.at > before
    }

    fn operand(&mut self) -> Result<Vec<Selector>> {
        if self.takes('(') {
            let found = self.expression()?;
            self.expect(')')?;
            return Ok(found);
        }
        match self.peek().cloned() {
            Some(Token::Number | Token::Text) => {
                self.at += 1;
                Ok(Vec::new())
            }
            Some(Token::Word(word)) => {
                self.at += 1;
                if AGGREGATIONS.contains(&word.as_str()) {
                    let by = self.takes_word(&["by"]);
                    let labels = if by { self.labels()? } else { BTreeSet::new() };
                    let mut found = self.arguments()?;
                    add(&mut found, &labels);
                    let next = self.takes_word(&["by", "without"]);
                    ensure!(!next, "write `{word} by (labels) (...)`");
                    Ok(found)
                } else if self.peek() == Some(&Token::Sign('(')) {
                    self.arguments()
                } else {
                    Ok(vec![self.selector(word)?])
                }
            }
            other => bail!("no operand but {other:?}"),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Selector>> {
        self.expect('(')?;
        let mut found = Vec::new();
        while !self.takes(')') {
            found.extend(self.expression()?);
            self.takes(',');
        }
        Ok(found)
    }

    fn selector(&mut self, name: String) -> Result<Selector> {
        let mut labels = BTreeSet::new();
        if self.takes('{') {
            while !self.takes('}') {
                let Some(Token::Word(label)) = self.peek().cloned() else {
                    bail!("no label of {name} but {:?}", self.peek());
                };
                labels.insert(label);
                self.at += 1;
                ensure!(self.operator(), "no matcher of {name}");
                self.takes('~');
                ensure!(
                    self.peek() == Some(&Token::Text),
                    "no text to match {name} with"
                );
                self.at += 1;
                self.takes(',');
            }
        }
        if self.takes('[') {
            ensure!(self.peek() == Some(&Token::Number), "no range of {name}");
            self.at += 1;
            self.expect(']')?;
        }
        if self.takes_word(&["offset"]) {
            self.at += 1;
        }
        Ok(Selector { name, labels })
    }
}

fn add(selectors: &mut [Selector], labels: &BTreeSet<String>) {
    for selector in selectors {
        selector.labels.extend(labels.iter().cloned());
    }
}

/// Name and labels.
type Expected = (&'static str, &'static [&'static str]);

/// The reader reads what dashboards hold, and refuses what it does not understand.
pub(crate) async fn check() -> Result<()> {
    let cases: &[(&str, &[Expected])] = &[
        ("up", &[("up", &[])]),
        ("vector(0)", &[]),
        (
            "sum by (type, pod) (rate(a_total{namespace=~\"$n\", x!=\"by (y)\"}[5m])) * 2",
            &[("a_total", &["namespace", "pod", "type", "x"])],
        ),
        (
            "histogram_quantile(0.99, sum by (le) (rate(b_bucket[1h] offset 1d)))",
            &[("b_bucket", &["le"])],
        ),
        (
            "count(a == 0) or max(rate(b[1m]) and on (instance) c{d=~\"e\"})",
            &[("a", &[]), ("b", &["instance"]), ("c", &["d", "instance"])],
        ),
    ];
    for (text, expected) in cases {
        let found = selectors(text)?;
        let found: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|s| {
                (
                    s.name.as_str(),
                    s.labels.iter().map(String::as_str).collect(),
                )
            })
            .collect();
        let expected: Vec<_> = expected.iter().map(|(n, l)| (*n, l.to_vec())).collect();
        ensure!(found == expected, "{text}: {found:?}");
    }
    for wrong in ["sum(a) by (b)", "a b", "a{b}", "sum(", "rate(a[x])", "\"a"] {
        ensure!(selectors(wrong).is_err(), "{wrong} is understood");
    }
    Ok(())
}
