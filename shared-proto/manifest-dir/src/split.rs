//! Splits a file into documents, without parsing them: what follows a broken document is still found.
//!
//! A line that begins with `---` or `...` is a document marker everywhere in YAML, even inside scalars (YAML 1.2, 9.1), so
//! that looking at lines is exact.

use serde_json::value::RawValue;

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Yaml,
    Json,
}

/// One document: its text and the line (from 1) on which that text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    pub(crate) line: u32,
    pub(crate) bytes: &'a [u8],
}

/// Splits YAML text. Documents without content (blank lines, comments, directives) are left out.
pub(crate) fn split_yaml(content: &[u8]) -> Vec<Chunk<'_>> {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let mut chunks = Vec::new();
    let mut start: Option<(u32, usize)> = None;
    let mut offset = 0;
    for (number, line) in (1u32..).zip(content.split_inclusive(|b| *b == b'\n')) {
        let next = offset + line.len();
        match marker(line) {
            Some(rest) => {
                push(&mut chunks, content, start.take(), offset);
                if has_content(rest) {
                    start = Some((number, next - rest.len()));
                }
            }
            None if start.is_none() && has_content(line) && !line.starts_with(b"%") => {
                start = Some((number, offset));
            }
            None => {}
        }
        offset = next;
    }
    push(&mut chunks, content, start, offset);
    chunks
}

/// Splits a stream of JSON values. The error is the line and the reason from which on nothing could be read.
pub(crate) fn split_json(content: &[u8]) -> (Vec<Chunk<'_>>, Option<(u32, String)>) {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let mut chunks = Vec::new();
    let mut stream = serde_json::Deserializer::from_slice(content).into_iter::<&RawValue>();
    let (mut counted, mut line) = (0, 1u32);
    loop {
        match stream.next() {
            None => return (chunks, None),
            Some(Ok(value)) => {
                let bytes = value.get().as_bytes();
                let end = stream.byte_offset().min(content.len());
                let begin = end.saturating_sub(bytes.len());
                line = line.saturating_add(newlines(content.get(counted..begin).unwrap_or(&[])));
                chunks.push(Chunk { line, bytes });
                counted = begin;
            }
            Some(Err(error)) => {
                let at = u32::try_from(error.line()).unwrap_or(u32::MAX);
                return (chunks, Some((at, error.to_string())));
            }
        }
    }
}

fn newlines(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.iter().filter(|b| **b == b'\n').count()).unwrap_or(u32::MAX)
}

fn push<'a>(
    chunks: &mut Vec<Chunk<'a>>,
    content: &'a [u8],
    start: Option<(u32, usize)>,
    end: usize,
) {
    if let Some((line, from)) = start
        && let Some(bytes) = content.get(from..end)
    {
        chunks.push(Chunk { line, bytes });
    }
}

/// The rest of a marker line, or `None` when the line is none.
fn marker(line: &[u8]) -> Option<&[u8]> {
    let rest = line
        .strip_prefix(b"---")
        .or_else(|| line.strip_prefix(b"..."))?;
    match rest.first() {
        None | Some(b' ' | b'\t' | b'\r' | b'\n') => Some(rest),
        Some(_) => None,
    }
}

fn has_content(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    !text.is_empty() && !text.starts_with(b"#")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(content: &str) -> Vec<(u32, String)> {
        split_yaml(content.as_bytes())
            .into_iter()
            .map(|c| (c.line, String::from_utf8_lossy(c.bytes).trim().to_owned()))
            .collect()
    }

    #[rstest::rstest]
    #[case::empty("", &[])]
    #[case::comments("# a\n---\n\n# b\n---\n", &[])]
    #[case::one("a: 1\n", &[(1, "a: 1")])]
    #[case::no_newline("a: 1\n---\nb: 2", &[(1, "a: 1"), (3, "b: 2")])]
    #[case::windows("\u{feff}a: 1\r\n---\r\nb: 2\r\n", &[(1, "a: 1"), (3, "b: 2")])]
    #[case::directive("%YAML 1.2\n---\na: 1\n...\n%YAML 1.2\n---\nb: 2\n", &[(3, "a: 1"), (7, "b: 2")])]
    #[case::same_line("--- {a: 1}\n--- # note\nb: 2\n", &[(1, "{a: 1}"), (3, "b: 2")])]
    #[case::not_a_marker("a: |\n  ---\n----\n---x\n", &[(1, "a: |\n  ---\n----\n---x")])]
    fn splits(#[case] content: &str, #[case] expected: &[(u32, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(l, t)| (*l, (*t).to_owned()))
            .collect();
        assert_eq!(texts(content), expected);
    }

    #[test]
    fn json_values_follow_each_other() {
        let (chunks, error) = split_json(b"{\"a\":1}\n\n{\"b\":\n2} {");
        assert_eq!(chunks.iter().map(|c| c.line).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(error.unwrap().0, 4);
    }

    proptest! {
        #[test]
        fn any_bytes_are_split_without_loss_of_order(content in proptest::collection::vec(prop_oneof![
            Just(b"---".to_vec()), Just(b"\n".to_vec()), Just(b"...".to_vec()), Just(b"a: 1".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4)], 0..40)) {
            let content = content.concat();
            let lines: u32 = 1 + newlines(&content);
            let mut last = 0;
            for chunk in split_yaml(&content) {
                prop_assert!(chunk.line > last || last == 0);
                prop_assert!(chunk.line <= lines);
                prop_assert!(!chunk.bytes.is_empty());
                last = chunk.line;
            }
            let _ = split_json(&content);
        }

        #[test]
        fn documents_survive_their_neighbours(docs in proptest::collection::vec("[a-z]{1,5}: [a-z{\\[\"]{1,9}", 1..9)) {
            let joined = docs.join("\n---\n");
            let found: Vec<String> = texts(&joined).into_iter().map(|(_, t)| t).collect();
            prop_assert_eq!(found, docs.iter().map(|d| d.trim().to_owned()).collect::<Vec<_>>());
        }
    }
}
