//! Regular expressions of users: what Envoy's engine (RE2) takes.
//!
//! One expression that RE2 refuses makes Envoy refuse the whole resource, so it is refused here, where its author is told.
//! The pilot applies the same rules to whatever source it has. When in doubt the answer is no.

use regex_syntax::ast::{self, Ast};

/// RE2's bound on one repetition, and on nested ones multiplied.
const MAX_REPEAT: u64 = 1000;
/// Bound on the estimated size of the compiled program, below what gateways are set to refuse.
const MAX_COST: u64 = 20_000;
/// Bound on the nesting of groups.
const MAX_DEPTH: u32 = 100;

/// An expression that Envoy takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The text to send: braces that are no repetition are escaped.
    pub(crate) text: String,
    /// Number of capture groups.
    pub(crate) groups: usize,
}

/// Reads an expression; the error says why Envoy would refuse it.
pub(crate) fn parse(expression: &str) -> Result<Pattern, String> {
    if expression.is_empty() {
        return Err("is empty".to_owned());
    }
    let text = escape_literal_braces(expression);
    let tree = ast::parse::ParserBuilder::new()
        .nest_limit(MAX_DEPTH)
        .build()
        .parse(&text)
        .map_err(|error| error.kind().to_string())?;
    regex_syntax::hir::translate::Translator::new()
        .translate(&text, &tree)
        .map_err(|error| error.kind().to_string())?;
    let mut walk = Walk {
        groups: 0,
        repeat: 1,
    };
    if walk.cost(&tree)? > MAX_COST {
        return Err("is too large".to_owned());
    }
    Ok(Pattern {
        text,
        groups: walk.groups,
    })
}

struct Walk {
    groups: usize,
    /// Product of the bounded repetitions around the current place.
    repeat: u64,
}

impl Walk {
    /// Estimated number of instructions; an error for what RE2 does not know.
    fn cost(&mut self, tree: &Ast) -> Result<u64, String> {
        match tree {
            Ast::Empty(_) => Ok(1),
            Ast::Flags(set) => flags(&set.flags).map(|()| 1),
            Ast::Literal(literal) => literal_cost(literal),
            Ast::Dot(_) => Ok(10),
            Ast::Assertion(assertion) => assertion_cost(assertion),
            Ast::ClassUnicode(class) => unicode_cost(class),
            Ast::ClassPerl(_) => Ok(5),
            Ast::ClassBracketed(class) => set_cost(&class.kind),
            Ast::Repetition(repetition) => self.repetition(repetition),
            Ast::Group(group) => self.group(group),
            Ast::Alternation(list) => self.sum(&list.asts),
            Ast::Concat(list) => self.sum(&list.asts),
        }
    }

    fn sum(&mut self, list: &[Ast]) -> Result<u64, String> {
        list.iter().try_fold(1, |total: u64, tree| {
            Ok(total.saturating_add(self.cost(tree)?))
        })
    }

    fn group(&mut self, group: &ast::Group) -> Result<u64, String> {
        match &group.kind {
            ast::GroupKind::CaptureIndex(_) => self.groups += 1,
            ast::GroupKind::CaptureName { name, .. } => {
                if !name
                    .name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_')
                {
                    return Err(format!("has the group name {:?}", name.name));
                }
                self.groups += 1;
            }
            ast::GroupKind::NonCapturing(set) => flags(set)?,
        }
        Ok(self.cost(&group.ast)?.saturating_add(2))
    }

    fn repetition(&mut self, repetition: &ast::Repetition) -> Result<u64, String> {
        if matches!(
            *repetition.ast,
            Ast::Repetition(_) | Ast::Assertion(_) | Ast::Flags(_) | Ast::Empty(_)
        ) {
            return Err("repeats a repetition or something without width".to_owned());
        }
        let times = match &repetition.op.kind {
            ast::RepetitionKind::Range(range) => u64::from(match range {
                ast::RepetitionRange::Exactly(n) | ast::RepetitionRange::AtLeast(n) => *n,
                ast::RepetitionRange::Bounded(_, most) => *most,
            }),
            _ => 1,
        };
        let outer = self.repeat;
        self.repeat = outer.saturating_mul(times.max(1));
        if self.repeat > MAX_REPEAT {
            return Err(format!("repeats more than {MAX_REPEAT} times"));
        }
        let cost = self.cost(&repetition.ast)?;
        self.repeat = outer;
        Ok(cost.saturating_mul(times.max(1)).saturating_add(2))
    }
}

fn flags(flags: &ast::Flags) -> Result<(), String> {
    use ast::{Flag, FlagsItemKind};
    let known = |kind: &FlagsItemKind| match kind {
        FlagsItemKind::Negation => true,
        FlagsItemKind::Flag(flag) => matches!(
            flag,
            Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed
        ),
    };
    if flags.items.iter().all(|item| known(&item.kind)) {
        Ok(())
    } else {
        Err("has a flag other than i, m, s and U".to_owned())
    }
}

fn literal_cost(literal: &ast::Literal) -> Result<u64, String> {
    use ast::{HexLiteralKind, LiteralKind, SpecialLiteralKind};
    match &literal.kind {
        LiteralKind::HexFixed(HexLiteralKind::X) | LiteralKind::HexBrace(HexLiteralKind::X) => {}
        LiteralKind::HexFixed(_) | LiteralKind::HexBrace(_) | LiteralKind::Octal => {
            return Err("has an escape other than \\x for a character code".to_owned());
        }
        LiteralKind::Special(SpecialLiteralKind::Space) => {
            return Err("has an escaped space".to_owned());
        }
        _ => {}
    }
    Ok(literal.c.len_utf8() as u64)
}

fn assertion_cost(assertion: &ast::Assertion) -> Result<u64, String> {
    use ast::AssertionKind;
    match assertion.kind {
        AssertionKind::StartLine
        | AssertionKind::EndLine
        | AssertionKind::StartText
        | AssertionKind::EndText
        | AssertionKind::WordBoundary
        | AssertionKind::NotWordBoundary => Ok(1),
        _ => Err("has a special word boundary".to_owned()),
    }
}

/// General categories by their short names, and the larger scripts.
fn unicode_cost(class: &ast::ClassUnicode) -> Result<u64, String> {
    const SCRIPTS: [&str; 10] = [
        "Arabic", "Cyrillic", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Latin",
        "Thai",
    ];
    const CATEGORIES: [&str; 37] = [
        "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N",
        "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm",
        "So", "Z", "Zl", "Zp", "Zs", "Any",
    ];
    let known = match &class.kind {
        ast::ClassUnicodeKind::OneLetter(letter) => "CLMNPSZ".contains(*letter),
        ast::ClassUnicodeKind::Named(name) => {
            SCRIPTS.contains(&name.as_str()) || CATEGORIES.contains(&name.as_str())
        }
        ast::ClassUnicodeKind::NamedValue { .. } => false,
    };
    if known {
        Ok(1000)
    } else {
        Err("has an unknown character class".to_owned())
    }
}

fn set_cost(set: &ast::ClassSet) -> Result<u64, String> {
    match set {
        ast::ClassSet::Item(item) => item_cost(item),
        ast::ClassSet::BinaryOp(_) => Err("has a set operation in a character class".to_owned()),
    }
}

fn item_cost(item: &ast::ClassSetItem) -> Result<u64, String> {
    use ast::ClassSetItem;
    match item {
        ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) | ClassSetItem::Perl(_) => Ok(5),
        ClassSetItem::Literal(literal) => literal_cost(literal),
        ClassSetItem::Range(range) => {
            literal_cost(&range.start)?;
            literal_cost(&range.end)?;
            Ok(8)
        }
        ClassSetItem::Unicode(class) => unicode_cost(class),
        ClassSetItem::Bracketed(_) => Err("has a character class in a character class".to_owned()),
        ClassSetItem::Union(union) => union.items.iter().try_fold(1, |total: u64, item| {
            Ok(total.saturating_add(item_cost(item)?))
        }),
    }
}

/// RE2 reads a `{` that starts no repetition as a plain character, as in `/users/{id}`.
fn escape_literal_braces(expression: &str) -> String {
    let mut result = String::with_capacity(expression.len());
    let mut in_class = false;
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '\\' => escape_len(rest),
            '{' if !in_class => match repetition_len(rest) {
                Some(len) => len,
                None => {
                    result.push('\\');
                    1
                }
            },
            '}' if !in_class => {
                result.push('\\');
                1
            }
            _ => first.len_utf8(),
        };
        match first {
            '[' if !in_class => in_class = true,
            ']' if in_class => in_class = false,
            _ => {}
        }
        let (taken, remaining) = rest.split_at(len);
        result.push_str(taken);
        rest = remaining;
    }
    result
}

/// Length of an escape at the start, with the braces of `\x{..}` and `\p{..}`.
fn escape_len(text: &str) -> usize {
    let mut chars = text.chars();
    chars.next();
    let Some(letter) = chars.next() else {
        return text.len();
    };
    let short = 1 + letter.len_utf8();
    if !matches!(letter, 'x' | 'p' | 'P') || chars.next() != Some('{') {
        return short;
    }
    text.find('}').map_or(short, |end| end + 1)
}

/// Length of `{n}`, `{n,}` or `{n,m}` at the start.
fn repetition_len(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let inner = text.get(1..end)?;
    let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!least.is_empty() && digits(least) && digits(most)).then_some(end + 1)
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
