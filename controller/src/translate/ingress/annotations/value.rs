//! Grammars of annotation values. They are Higress's: booleans and integers as Go reads them, without trimming.

/// Why a value cannot be used: words that follow the quoted value, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueError(pub(crate) String);

impl ValueError {
    /// An error that says what is wrong with `value`.
    pub(crate) fn new(value: &str, why: &str) -> Self {
        Self(format!("{:?} {why}", shorten(value)))
    }
}

/// The result of a grammar.
pub(crate) type Value<T> = Result<T, ValueError>;

/// `1 t T TRUE true True 0 f F FALSE false False`, nothing around it.
pub(crate) fn boolean(value: &str) -> Value<bool> {
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(ValueError::new(
            value,
            "is not a boolean; write true or false",
        )),
    }
}

/// Decimal digits with an optional sign, nothing around them and no unit.
pub(crate) fn integer(value: &str) -> Value<i64> {
    decimal(value, "is not a whole number; write digits only")
}

/// An integer of 32 bits.
pub(crate) fn integer32(value: &str) -> Value<i32> {
    decimal(value, "is not a whole number of 32 bits; write digits only")
}

/// An integer from `least` to `most`.
pub(crate) fn integer_within(value: &str, least: i64, most: i64) -> Value<i64> {
    let number = integer(value)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let why = format!("is out of range; use {least} to {most}");
    Err(ValueError::new(value, &why))
}

fn decimal<T: std::str::FromStr>(value: &str, why: &str) -> Value<T> {
    // Rust's parser takes the same digits and signs as Go's.
    value.parse().map_err(|_| ValueError::new(value, why))
}

/// A text: every line trimmed, not empty as a whole.
pub(crate) fn text(value: &str) -> Value<String> {
    let lines: Vec<&str> = value.split('\n').map(str::trim).collect();
    let text = lines.join("\n");
    if text.trim_matches('\n').is_empty() {
        return Err(ValueError(
            "is empty; give a value or remove the annotation".to_owned(),
        ));
    }
    Ok(text)
}

/// A text of one line without control characters.
pub(crate) fn line(value: &str) -> Value<String> {
    let text = text(value)?;
    let line = text.trim_matches('\n');
    if line.chars().any(char::is_control) {
        return Err(ValueError::new(
            line,
            "has a line break or another control character; remove it",
        ));
    }
    Ok(line.to_owned())
}

/// Items between commas, trimmed, empty ones kept; an item `*` takes the place of the whole list.
pub(crate) fn list_or_star(value: &str) -> Value<Vec<String>> {
    let text = text(value)?;
    let items: Vec<String> = text.split(',').map(|i| i.trim().to_owned()).collect();
    if items.iter().any(|item| item == "*") {
        return Ok(vec!["*".to_owned()]);
    }
    Ok(items)
}

/// Items between commas, trimmed, without empty ones.
pub(crate) fn list(value: &str) -> Value<Vec<String>> {
    let text = text(value)?;
    let items = text.split(',').map(str::trim).filter(|i| !i.is_empty());
    Ok(items.map(str::to_owned).collect())
}

/// Exactly `on` or `off`.
pub(crate) fn on_off(value: &str) -> Value<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(ValueError::new(
            value,
            "is not a switch; write on or off in lower case",
        )),
    }
}

/// An object by name, with or without its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamespacedName {
    /// The namespace; `None` = that of the Ingress.
    pub(crate) namespace: Option<String>,
    /// The name, not empty.
    pub(crate) name: String,
}

/// `[namespace/]name`.
pub(crate) fn namespaced_name(value: &str) -> Value<NamespacedName> {
    let line = line(value)?;
    let (namespace, name) = match line.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
        None => (None, line.clone()),
    };
    let empty = name.is_empty() || namespace.as_ref().is_some_and(String::is_empty);
    if empty || name.contains('/') {
        return Err(ValueError::new(
            &line,
            "is not a name; write name or namespace/name",
        ));
    }
    Ok(NamespacedName { namespace, name })
}

/// The start of a text, for messages.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("1", Some(true))]
    #[case("t", Some(true))]
    #[case("T", Some(true))]
    #[case("TRUE", Some(true))]
    #[case("True", Some(true))]
    #[case("0", Some(false))]
    #[case("f", Some(false))]
    #[case("F", Some(false))]
    #[case("FALSE", Some(false))]
    #[case("False", Some(false))]
    #[case("yes", None)]
    #[case("on", None)]
    #[case(" true", None)]
    #[case("tRue", None)]
    #[case("", None)]
    fn booleans(#[case] value: &str, #[case] expected: Option<bool>) {
        assert_eq!(boolean(value).ok(), expected);
    }

    #[rstest]
    #[case("5", Some(5))]
    #[case("+5", Some(5))]
    #[case("-5", Some(-5))]
    #[case("005", Some(5))]
    #[case("5s", None)]
    #[case(" 5", None)]
    #[case("1_000", None)]
    #[case("0x1", None)]
    #[case("-", None)]
    #[case("", None)]
    #[case("9223372036854775808", None)]
    fn integers(#[case] value: &str, #[case] expected: Option<i64>) {
        assert_eq!(integer(value).ok(), expected);
    }

    #[rstest]
    #[case("2147483647", Some(i32::MAX))]
    #[case("2147483648", None)]
    fn integers_of_32_bits(#[case] value: &str, #[case] expected: Option<i32>) {
        assert_eq!(integer32(value).ok(), expected);
    }

    #[rstest]
    #[case(" a ", Some("a"))]
    #[case("a \n  b", Some("a\nb"))]
    #[case("", None)]
    #[case(" \n \n", None)]
    fn texts(#[case] value: &str, #[case] expected: Option<&str>) {
        assert_eq!(text(value).ok().as_deref(), expected);
    }

    #[rstest]
    #[case("a, b", &["a", "b"])]
    #[case("a,,b,", &["a", "", "b", ""])]
    #[case("a, *", &["*"])]
    #[case("a*", &["a*"])]
    fn lists_with_star(#[case] value: &str, #[case] expected: &[&str]) {
        assert_eq!(list_or_star(value).unwrap(), expected);
    }

    #[rstest]
    #[case(" a ,, b,", &["a", "b"])]
    #[case(",", &[])]
    #[case("a, *", &["a", "*"])]
    fn lists(#[case] value: &str, #[case] expected: &[&str]) {
        assert_eq!(list(value).unwrap(), expected);
    }

    #[rstest]
    #[case("a", Some((None, "a")))]
    #[case(" n/a ", Some((Some("n"), "a")))]
    #[case("a/b/c", None)]
    #[case("/a", None)]
    #[case("n/", None)]
    #[case("", None)]
    fn names(#[case] value: &str, #[case] expected: Option<(Option<&str>, &str)>) {
        let parsed = namespaced_name(value).ok();
        let parsed = parsed.as_ref();
        assert_eq!(
            parsed.map(|n| (n.namespace.as_deref(), n.name.as_str())),
            expected
        );
    }

    #[test]
    fn lines_and_switches() {
        assert_eq!(line(" a b ").unwrap(), "a b");
        assert!(line("a\nb").is_err());
        assert!(line("a\u{7}b").is_err());
        assert_eq!(on_off("on"), Ok(true));
        assert_eq!(on_off("off"), Ok(false));
        assert!(on_off("On").is_err());
        assert_eq!(integer_within("300", 300, 308), Ok(300));
        assert!(integer_within("309", 300, 308).is_err());
    }
}
