//! Braces that are plain characters.

/// RE2 reads a `{` that starts no repetition as a plain character, as in `/users/{id}`.
pub(crate) fn escape_literal(expression: &str) -> String {
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
