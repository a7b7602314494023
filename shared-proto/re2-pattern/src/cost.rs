//! A walk over the parsed expression: its estimated cost, its groups, and what RE2 does not know.

use regex_syntax::ast::{self, Ast};

use crate::Refusal;

/// RE2's bound on one repetition, and on nested ones multiplied.
const MAX_REPEAT: u64 = 1000;

/// Estimated number of instructions of the compiled program, and number of capture groups.
pub(crate) fn measure(tree: &Ast) -> Result<(u64, usize), Refusal> {
    let mut walk = Walk {
        groups: 0,
        repeat: 1,
    };
    let cost = walk.cost(tree)?;
    Ok((cost, walk.groups))
}

struct Walk {
    groups: usize,
    /// Product of the bounded repetitions around the current place.
    repeat: u64,
}

impl Walk {
    /// Estimated number of instructions; an error for what RE2 does not know.
    fn cost(&mut self, tree: &Ast) -> Result<u64, Refusal> {
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

    fn sum(&mut self, list: &[Ast]) -> Result<u64, Refusal> {
        list.iter().try_fold(1, |total: u64, tree| {
            Ok(total.saturating_add(self.cost(tree)?))
        })
    }

    fn group(&mut self, group: &ast::Group) -> Result<u64, Refusal> {
        match &group.kind {
            ast::GroupKind::CaptureIndex(_) => self.groups += 1,
            ast::GroupKind::CaptureName { name, .. } => {
                if !name
                    .name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_')
                {
                    return Err(Refusal::GroupName(name.name.clone()));
                }
                self.groups += 1;
            }
            ast::GroupKind::NonCapturing(set) => flags(set)?,
        }
        Ok(self.cost(&group.ast)?.saturating_add(2))
    }

    fn repetition(&mut self, repetition: &ast::Repetition) -> Result<u64, Refusal> {
        if matches!(
            *repetition.ast,
            Ast::Repetition(_) | Ast::Assertion(_) | Ast::Flags(_) | Ast::Empty(_)
        ) {
            return Err(Refusal::Construct(
                "repeats a repetition or something without width",
            ));
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
            return Err(Refusal::Repeats(MAX_REPEAT));
        }
        let cost = self.cost(&repetition.ast)?;
        self.repeat = outer;
        Ok(cost.saturating_mul(times.max(1)).saturating_add(2))
    }
}

fn flags(flags: &ast::Flags) -> Result<(), Refusal> {
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
        Err(Refusal::Construct("has a flag other than i, m, s and U"))
    }
}

fn literal_cost(literal: &ast::Literal) -> Result<u64, Refusal> {
    use ast::{HexLiteralKind, LiteralKind, SpecialLiteralKind};
    match &literal.kind {
        LiteralKind::HexFixed(HexLiteralKind::X) | LiteralKind::HexBrace(HexLiteralKind::X) => {}
        LiteralKind::HexFixed(_) | LiteralKind::HexBrace(_) | LiteralKind::Octal => {
            return Err(Refusal::Construct(
                "has an escape other than \\x for a character code",
            ));
        }
        LiteralKind::Special(SpecialLiteralKind::Space) => {
            return Err(Refusal::Construct("has an escaped space"));
        }
        _ => {}
    }
    Ok(literal.c.len_utf8() as u64)
}

fn assertion_cost(assertion: &ast::Assertion) -> Result<u64, Refusal> {
    use ast::AssertionKind;
    match assertion.kind {
        AssertionKind::StartLine
        | AssertionKind::EndLine
        | AssertionKind::StartText
        | AssertionKind::EndText
        | AssertionKind::WordBoundary
        | AssertionKind::NotWordBoundary => Ok(1),
        _ => Err(Refusal::Construct("has a special word boundary")),
    }
}

/// General categories by their short names, and the larger scripts.
fn unicode_cost(class: &ast::ClassUnicode) -> Result<u64, Refusal> {
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
        Err(Refusal::Construct("has an unknown character class"))
    }
}

fn set_cost(set: &ast::ClassSet) -> Result<u64, Refusal> {
    match set {
        ast::ClassSet::Item(item) => item_cost(item),
        ast::ClassSet::BinaryOp(_) => Err(Refusal::Construct(
            "has a set operation in a character class",
        )),
    }
}

fn item_cost(item: &ast::ClassSetItem) -> Result<u64, Refusal> {
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
        ClassSetItem::Bracketed(_) => Err(Refusal::Construct(
            "has a character class in a character class",
        )),
        ClassSetItem::Union(union) => union.items.iter().try_fold(1, |total: u64, item| {
            Ok(total.saturating_add(item_cost(item)?))
        }),
    }
}
