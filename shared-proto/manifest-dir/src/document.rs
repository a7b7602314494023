//! One document: text to objects, or to the reason why not.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::object::{ObjectKey, Reason};
use crate::split::Format;
use crate::table::{DecodeError, Decoded, KindTable, Row, Scope, Source, from_text};

/// Documents whose brackets go deeper are not parsed.
const MAX_NESTING: usize = 256;

/// One object of a document. `hash` identifies its content.
pub(crate) struct Item<T> {
    pub(crate) key: ObjectKey,
    pub(crate) hash: u64,
    pub(crate) value: T,
}

/// A document, or one item of a list, that was not usable.
pub(crate) struct Fault {
    /// Line inside the document, from 1.
    pub(crate) line: u32,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) object: Option<ObjectKey>,
}

/// What a document gave: objects, faults, both (a list) or nothing (a kind outside the table).
pub(crate) struct Parsed<T> {
    pub(crate) items: Vec<Item<T>>,
    pub(crate) faults: Vec<Fault>,
}

impl<T> Parsed<T> {
    fn nothing() -> Self {
        Self {
            items: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn fault(fault: Fault) -> Self {
        Self {
            items: Vec::new(),
            faults: vec![fault],
        }
    }
}

#[derive(Default, Deserialize)]
struct Head<'a> {
    #[serde(default, borrow, rename = "apiVersion")]
    api_version: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    kind: Option<Cow<'a, str>>,
}

/// Reads one document. `hash` is the content hash of `bytes`.
pub(crate) fn parse<T>(table: &KindTable<T>, format: Format, bytes: &[u8], hash: u64) -> Parsed<T> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or(bytes);
            return Parsed::fault(Fault {
                line: line_of(before),
                reason: Reason::InvalidEncoding,
                message: "the text is not UTF-8; save the file as UTF-8".to_owned(),
                object: guess_key(table, &String::from_utf8_lossy(bytes)),
            });
        }
    };
    let head = match scan_head(format, text) {
        Some(head) => head,
        None if is_too_deep(format, text) => return Parsed::fault(depth_fault(table, text)),
        None => match from_text::<Head<'_>>(format, text) {
            Ok(head) => head,
            Err(error) => return Parsed::fault(syntax_fault(table, text, error)),
        },
    };
    parse_headed(table, format, text, &head, hash)
}

fn parse_headed<T>(
    table: &KindTable<T>,
    format: Format,
    text: &str,
    head: &Head<'_>,
    hash: u64,
) -> Parsed<T> {
    let kind = head.kind.as_deref().unwrap_or_default();
    let version = head.api_version.as_deref().unwrap_or_default();
    if kind.ends_with("List") && table.of_kind(kind).next().is_none() {
        let item_kind = kind.trim_end_matches("List");
        if !item_kind.is_empty() && table.of_kind(item_kind).next().is_none() {
            return Parsed::nothing();
        }
        if is_too_deep(format, text) {
            return Parsed::fault(depth_fault(table, text));
        }
        return match from_text::<serde_json::Value>(format, text) {
            Ok(list) => parse_list(table, &list, item_kind, version),
            Err(error) => Parsed::fault(syntax_fault(table, text, error)),
        };
    }
    let row = match find_row(table, version, kind) {
        Ok(Some(row)) => row,
        Ok(None) => return Parsed::nothing(),
        Err((reason, message)) => {
            return Parsed::fault(Fault {
                line: 1,
                reason,
                message,
                object: guess_key(table, text),
            });
        }
    };
    if is_too_deep(format, text) {
        return Parsed::fault(depth_fault(table, text));
    }
    let decoded = match (row.decode)(Source::Text(format, text)) {
        Ok(decoded) => decoded,
        Err(error) => {
            // Wrong syntax and wrong shape come out of one decoder: tell them apart for the reader.
            let syntax = from_text::<serde::de::IgnoredAny>(format, text).is_err();
            return Parsed::fault(Fault {
                reason: if syntax {
                    Reason::InvalidSyntax
                } else {
                    Reason::InvalidObject
                },
                object: guess_key(table, text),
                line: error.line.unwrap_or(1),
                message: error.message,
            });
        }
    };
    match named(row, decoded) {
        Ok((key, value)) => Parsed {
            items: vec![Item { key, hash, value }],
            faults: Vec::new(),
        },
        Err(message) => Parsed::fault(Fault {
            line: 1,
            reason: Reason::InvalidName,
            message,
            object: None,
        }),
    }
}

fn parse_list<T>(
    table: &KindTable<T>,
    list: &serde_json::Value,
    item_kind: &str,
    list_version: &str,
) -> Parsed<T> {
    let mut parsed = Parsed::nothing();
    let items = list.get("items").and_then(|i| i.as_array());
    for (index, item) in items.into_iter().flatten().enumerate() {
        let field = |name: &str| item.get(name).and_then(|v| v.as_str());
        let kind = field("kind").unwrap_or(item_kind);
        let version = field("apiVersion").unwrap_or(list_version);
        let fault = |reason, message| Fault {
            line: 1,
            reason,
            message: format!("items[{index}]: {message}"),
            object: key_of_value(table, kind, item),
        };
        let row = match find_row(table, version, kind) {
            Ok(Some(row)) => row,
            Ok(None) => continue,
            Err((reason, message)) => {
                parsed.faults.push(fault(reason, message));
                continue;
            }
        };
        let hash = xxh3_64(item.to_string().as_bytes());
        match (row.decode)(Source::Value(item.clone())) {
            Err(error) => parsed
                .faults
                .push(fault(Reason::InvalidObject, error.message)),
            Ok(decoded) => match named(row, decoded) {
                Ok((key, value)) => parsed.items.push(Item { key, hash, value }),
                Err(message) => parsed.faults.push(fault(Reason::InvalidName, message)),
            },
        }
    }
    parsed
}

fn find_row<'t, T>(
    table: &'t KindTable<T>,
    version: &str,
    kind: &str,
) -> Result<Option<&'t Row<T>>, (Reason, String)> {
    if kind.is_empty() {
        return Err((
            Reason::MissingKind,
            "the document has no kind; add apiVersion and kind, or remove it".to_owned(),
        ));
    }
    if let Some(row) = table.row(version, kind) {
        return Ok(Some(row));
    }
    let group = |v: &str| {
        v.rsplit_once('/')
            .map_or(String::new(), |(g, _)| g.to_owned())
    };
    for (known, _) in table.of_kind(kind) {
        if version.is_empty() {
            let message = format!("{kind} has no apiVersion; add `apiVersion: {known}`");
            return Err((Reason::MissingKind, message));
        }
        if group(known) == group(version) {
            let message = format!("{kind} of version {version} is not read; write it as {known}");
            return Err((Reason::UnsupportedVersion, message));
        }
    }
    Ok(None)
}

/// Identity and value of a decoded document, or what is wrong with its name.
pub(crate) fn named<T>(row: &Row<T>, decoded: Decoded<T>) -> Result<(ObjectKey, T), String> {
    let name = decoded.name.unwrap_or_default();
    if !is_name(&name, 253, true) {
        return Err(format!(
            "{}: metadata.name {name:?} is not a name: use lower-case letters, digits, `-` and `.`",
            row.kind
        ));
    }
    let namespace = match row.scope {
        Scope::Cluster => String::new(),
        Scope::Namespaced => decoded
            .namespace
            .filter(|n| !n.is_empty())
            .unwrap_or_else(|| "default".to_owned()),
    };
    if row.scope == Scope::Namespaced && !is_name(&namespace, 63, false) {
        return Err(format!(
            "{} {name}: metadata.namespace {namespace:?} is not a name: use lower-case letters, digits and `-`",
            row.kind
        ));
    }
    Ok((key(row.kind, &namespace, &name), decoded.value))
}

fn key(kind: &'static str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        kind,
        namespace: Arc::from(namespace),
        name: Arc::from(name),
    }
}

/// RFC 1123 label, or subdomain when dots are allowed, as the Kubernetes API server requires of names.
fn is_name(name: &str, longest: usize, dots: bool) -> bool {
    let part = |p: &str| {
        !p.is_empty()
            && !p.starts_with('-')
            && !p.ends_with('-')
            && p.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= longest
        && if dots {
            name.split('.').all(part)
        } else {
            part(name)
        }
}

fn syntax_fault<T>(table: &KindTable<T>, text: &str, error: DecodeError) -> Fault {
    Fault {
        line: error.line.unwrap_or(1),
        reason: Reason::InvalidSyntax,
        message: error.message,
        object: guess_key(table, text),
    }
}

fn depth_fault<T>(table: &KindTable<T>, text: &str) -> Fault {
    Fault {
        line: 1,
        reason: Reason::InvalidSyntax,
        message: format!("brackets are nested more than {MAX_NESTING} deep"),
        object: guess_key(table, text),
    }
}

/// The YAML scanner needs time proportional to the depth for every token, so that a few bytes could keep it busy for
/// minutes. Brackets inside of strings count too, which the limit leaves room for: no decoder goes deeper than 128.
fn is_too_deep(format: Format, text: &str) -> bool {
    let mut depth = 0usize;
    format == Format::Yaml
        && text.bytes().any(|byte| {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > MAX_NESTING
        })
}

fn line_of(before: &[u8]) -> u32 {
    let newlines = before.iter().filter(|b| **b == b'\n').count();
    u32::try_from(newlines)
        .unwrap_or(u32::MAX)
        .saturating_add(1)
}

/// `apiVersion` and `kind` of a plain block-style document, found without parsing it. `None` when in doubt: top-level keys
/// of a block mapping stand in the first column, and nothing else of such a document does.
fn scan_head(format: Format, text: &str) -> Option<Head<'_>> {
    if format != Format::Yaml
        || text
            .trim_start()
            .starts_with(['{', '-', '"', '\'', '&', '!', '?', '|', '>'])
    {
        return None;
    }
    let mut head = Head::default();
    for line in text.lines() {
        let (field, rest) = match (line.strip_prefix("kind:"), line.strip_prefix("apiVersion:")) {
            (Some(rest), _) => (&mut head.kind, rest),
            (None, Some(rest)) => (&mut head.api_version, rest),
            (None, None) => continue,
        };
        let value = plain_scalar(rest)?;
        if field.replace(Cow::Borrowed(value)).is_some() {
            return None;
        }
    }
    (head.kind.is_some() && head.api_version.is_some()).then_some(head)
}

fn plain_scalar(rest: &str) -> Option<&str> {
    let value = rest.split(" #").next().unwrap_or(rest).trim();
    let value = value
        .strip_prefix('"')
        .and_then(|v| v.strip_suffix('"'))
        .unwrap_or(value);
    let plain = !value.is_empty()
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/' | b'-'));
    plain.then_some(value)
}

/// Identity of a document that cannot be decoded, by looking at its lines. Only used to keep its last good version and
/// to name it in the report.
fn guess_key<T>(table: &KindTable<T>, text: &str) -> Option<ObjectKey> {
    if !is_too_deep(Format::Yaml, text)
        && let Ok(value) = serde_yaml::from_str::<serde_json::Value>(text)
    {
        let kind = value.get("kind").and_then(|k| k.as_str())?;
        return key_of_value(table, kind, &value);
    }
    let kind = text
        .lines()
        .find_map(|l| plain_scalar(l.strip_prefix("kind:")?))?;
    let (_, row) = table.of_kind(kind).next()?;
    let metadata = text
        .lines()
        .skip_while(|l| !l.starts_with("metadata:"))
        .enumerate()
        .take_while(|(i, l)| *i == 0 || l.starts_with([' ', '#', '\r']) || l.is_empty())
        .map(|(_, l)| l.trim_start_matches("metadata:"));
    let (mut name, mut namespace) = (None, None);
    for field in metadata.flat_map(|l| l.split(['{', ',', '}'])) {
        let field = field.trim();
        if let Some(rest) = field.strip_prefix("name:") {
            name = name.or(plain_scalar(rest));
        } else if let Some(rest) = field.strip_prefix("namespace:") {
            namespace = namespace.or(plain_scalar(rest));
        }
    }
    row_key(row, namespace, name)
}

fn key_of_value<T>(
    table: &KindTable<T>,
    kind: &str,
    value: &serde_json::Value,
) -> Option<ObjectKey> {
    let (_, row) = table.of_kind(kind).next()?;
    let field = |name: &str| {
        value
            .get("metadata")
            .and_then(|m| m.get(name))
            .and_then(|v| v.as_str())
    };
    row_key(row, field("namespace"), field("name"))
}

fn row_key<T>(row: &Row<T>, namespace: Option<&str>, name: Option<&str>) -> Option<ObjectKey> {
    let namespace = match row.scope {
        Scope::Cluster => "",
        Scope::Namespaced => namespace.unwrap_or("default"),
    };
    Some(key(row.kind, namespace, name?))
}

#[cfg(test)]
mod tests;
