//! References to Secrets in values: `${secret.[namespace/]name.key}`.
//!
//! Only Secrets of the Ingress's own namespace can be meant: who may write an Ingress need not be allowed to read others.

use std::sync::Arc;

use super::text;
use super::value::{self, ValueError};
use crate::model::Ingress;
use crate::resolve::Secrets;

const START: &str = "${secret.";

/// A piece of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// A field of a Secret.
    Field {
        name: &'a str,
        key: &'a str,
    },
}

fn pieces<'a>(value: &'a str, own: &str) -> value::Value<Vec<Piece<'a>>> {
    let mut pieces = Vec::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once(START) {
        let bad = |why: &str| ValueError::new(value, why);
        let shape = "has a reference to a Secret that cannot be read; write ${secret.name.key}";
        let (reference, after) = after.split_once('}').ok_or_else(|| bad(shape))?;
        let (namespace, reference) = match reference.split_once('/') {
            Some((namespace, reference)) => (Some(namespace), reference),
            None => (None, reference),
        };
        if namespace.is_some_and(|namespace| namespace != own) {
            return Err(bad(
                "refers to a Secret of another namespace; use one of the Ingress's",
            ));
        }
        let (name, key) = reference.split_once('.').ok_or_else(|| bad(shape))?;
        if name.is_empty() || key.is_empty() {
            return Err(bad(shape));
        }
        pieces.extend((!before.is_empty()).then_some(Piece::Text(before)));
        pieces.push(Piece::Field { name, key });
        rest = after;
    }
    pieces.extend((!rest.is_empty()).then_some(Piece::Text(rest)));
    Ok(pieces)
}

/// The Secrets that a value refers to.
pub(super) fn secrets(value: &str, own: &str) -> value::Value<Vec<Arc<str>>> {
    let names = pieces(value, own)?
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Field { name, .. } => Some(Arc::from(name)),
            Piece::Text(_) => None,
        });
    Ok(names.collect())
}

/// The value of a header with all references replaced. What a Secret holds is text: it has no format commands.
///
/// # Errors
/// A field cannot be found or cannot stand in a header; its content is not part of the message.
pub(super) fn resolve(
    value: &str,
    ingress: &Ingress,
    secrets: &dyn Secrets,
) -> Result<String, String> {
    let namespace = &*ingress.namespace;
    let mut resolved = String::new();
    for piece in pieces(value, namespace).map_err(|error| error.0)? {
        let (name, key) = match piece {
            Piece::Text(text) => {
                resolved.push_str(text);
                continue;
            }
            Piece::Field { name, key } => (name, key),
        };
        let secret = secrets.secret(namespace, name);
        let secret = secret.ok_or_else(|| format!("there is no Secret {namespace}/{name}"))?;
        let found = secret.get(key);
        let found =
            found.ok_or_else(|| format!("Secret {namespace}/{name} has no field {key:?}"))?;
        let content = std::str::from_utf8(found).ok().map(str::trim_end);
        let content = content.filter(|content| text::is_header_value(content));
        let content = content.ok_or_else(|| {
            format!("field {key:?} of Secret {namespace}/{name} cannot stand in a header")
        })?;
        resolved.push_str(&content.replace('%', "%%"));
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Secret;
    use rstest::rstest;

    struct One;

    impl Secrets for One {
        fn secret(&self, namespace: &str, name: &str) -> Option<&Secret> {
            static SECRET: std::sync::LazyLock<Secret> = std::sync::LazyLock::new(|| {
                Secret::new([
                    ("token".to_owned(), b"50%\n".to_vec()),
                    ("a.b".to_owned(), b"dotted".to_vec()),
                    ("bad".to_owned(), b"a\nb".to_vec()),
                ])
            });
            (namespace == "n" && name == "s").then(|| &*SECRET)
        }
    }

    #[rstest]
    #[case("plain ${x} %START_TIME%", Some("plain ${x} %START_TIME%"))]
    #[case("Bearer ${secret.s.token}!", Some("Bearer 50%%!"))]
    #[case("${secret.n/s.token}${secret.s.a.b}", Some("50%%dotted"))]
    #[case("${secret.m/s.token}", None)]
    #[case("${secret.s.none}", None)]
    #[case("${secret.t.token}", None)]
    #[case("${secret.s.bad}", None)]
    #[case("${secret.s", None)]
    #[case("${secret.s}", None)]
    #[case("${secret..token}", None)]
    fn values(#[case] value: &str, #[case] expected: Option<&str>) {
        let ingress = Ingress::new(Arc::from("n"), Arc::from("i"));
        let found = resolve(value, &ingress, &One);
        assert_eq!(found.as_deref().ok(), expected);
    }

    #[test]
    fn names() {
        let names = secrets("${secret.s.a} ${secret.t.b}", "n").unwrap();
        assert_eq!(names, [Arc::from("s"), Arc::from("t")]);
        assert!(secrets("${secret.m/s.a}", "n").is_err());
    }
}
