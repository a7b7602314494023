//! A text that a regular expression matches: something to ask for.

use regex_syntax::hir::{Class, Hir, HirKind};

/// A short text that the expression matches; `None` when it cannot be read. What may be left out is there once, as it is more
/// telling.
pub fn sample(expression: &str) -> Option<String> {
    let hir = regex_syntax::parse(expression).ok()?;
    let mut text = String::new();
    extend(&mut text, &hir);
    Some(text)
}

fn extend(text: &mut String, hir: &Hir) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(member(class)),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.max(1).min(most).min(100) {
                extend(text, &repetition.sub);
            }
        }
        HirKind::Capture(capture) => extend(text, &capture.sub),
        HirKind::Concat(all) => all.iter().for_each(|part| extend(text, part)),
        HirKind::Alternation(all) => {
            if let Some(first) = all.first() {
                extend(text, first);
            }
        }
    }
}

/// A letter if there is one in the class, else its first character.
fn member(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else {
        return None;
    };
    let has = |wanted: char| {
        class
            .ranges()
            .iter()
            .any(|r| (r.start()..=r.end()).contains(&wanted))
    };
    let telling = ['x', 'X', '1'].into_iter().find(|c| has(*c));
    telling.or_else(|| class.ranges().first().map(|range| range.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("/a")]
    #[case("/svc(/|$)(.*)")]
    #[case("/v[0-9]+/x?")]
    #[case("/(a|b){3}")]
    #[case("/[[:upper:]]{2,}")]
    fn a_sample_matches(#[case] expression: &str) {
        let text = sample(expression).unwrap();
        let whole = regex::Regex::new(&format!("^(?:{expression})$")).unwrap();
        assert!(whole.is_match(&text), "{text}");
    }

    #[test]
    fn no_expression_no_sample() {
        assert_eq!(sample("/a("), None);
    }
}
