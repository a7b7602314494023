//! Users and passwords, from a Secret of the Ingress's namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::auth::required;
use super::table::{AUTH_SECRET, AUTH_SECRET_TYPE, AUTH_TYPE};
use super::value::{self, NamespacedName, ValueError};
use super::{Annotations, Problems};
use crate::model::{Ingress, Secret};
use crate::translate::ingress::Context;
use crate::translate::ingress::filters::inline;

/// Field of a Secret that holds a whole password file.
const FILE: &str = "auth";
/// The one sort of hash that Envoy checks: SHA-1 in base64.
const SHA: &str = "{SHA}";
/// Digits of such a hash, without the padding.
const SHA_DIGITS: usize = 27;

/// Who may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BasicAuth {
    /// The full key of the Secret's name, for what shows later.
    pub(crate) key: &'static str,
    secret: Arc<str>,
    /// Its fields are users; else one field is a password file.
    map: bool,
}

/// Reads the family.
pub(super) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<BasicAuth> {
    required(annotations, &AUTH_TYPE, auth_type, problems)?;
    let ours = |text: &str| secret(text, annotations.namespace());
    let Some(secret) = required(annotations, &AUTH_SECRET, ours, problems) else {
        if !annotations.has(&AUTH_SECRET) {
            let key = AUTH_TYPE.full().next().unwrap_or(AUTH_TYPE.name);
            problems.deny(key, "no users are named; add auth-secret");
        }
        return None;
    };
    let map = required(annotations, &AUTH_SECRET_TYPE, secret_type, problems);
    Some(BasicAuth {
        key: secret.key,
        secret: secret.value,
        map: map.is_some_and(|found| found.value),
    })
}

fn auth_type(text: &str) -> value::Value<()> {
    match text.trim() {
        "basic" => Ok(()),
        _ => Err(ValueError::new(text, "is not supported; use basic")),
    }
}

fn secret_type(text: &str) -> value::Value<bool> {
    match text.trim() {
        "auth-file" => Ok(false),
        "auth-map" => Ok(true),
        _ => Err(ValueError::new(text, "is neither auth-file nor auth-map")),
    }
}

fn secret(text: &str, own: &str) -> value::Value<Arc<str>> {
    let NamespacedName { namespace, name } = value::namespaced_name(text)?;
    if namespace.is_some_and(|namespace| namespace != own) {
        let why = "is in another namespace; use a Secret of the Ingress's namespace";
        return Err(ValueError::new(text, why));
    }
    Ok(Arc::from(name))
}

impl BasicAuth {
    /// The Secret (namespace, name) that has to be looked up.
    pub(crate) fn secret(&self, ingress: &Ingress) -> (Arc<str>, Arc<str>) {
        (ingress.namespace.clone(), self.secret.clone())
    }

    /// The password file, and what is wrong with a part of it.
    ///
    /// # Errors
    /// There is no user who could come in.
    pub(in crate::translate::ingress) fn users(
        &self,
        context: Context<'_>,
        ingress: &Ingress,
    ) -> Result<(Value, Option<String>), String> {
        let (namespace, name) = self.secret(ingress);
        let secret = context.secrets.secret(&namespace, &name);
        let secret = secret.ok_or_else(|| format!("there is no Secret {namespace}/{name}"))?;
        let (file, left_out) = self.file(secret);
        let how = "only hashes made by `htpasswd -s` can be checked";
        if file.is_empty() {
            let field = if self.map {
                "a field for each user"
            } else {
                "users in its field `auth`"
            };
            return Err(format!(
                "Secret {namespace}/{name} has no user who could come in; give it {field}; {how}"
            ));
        }
        let warning = (left_out > 0).then(|| {
            format!("{left_out} users of Secret {namespace}/{name} cannot come in; {how}")
        });
        Ok((inline(&file), warning))
    }

    /// A password file in the form that Envoy takes, and how many users are left out.
    fn file(&self, secret: &Secret) -> (String, usize) {
        let (mut file, mut left_out) = (String::new(), 0);
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut add = |user: &'_ str, hash: &str| {
            if is_user(user) && is_checked(hash) {
                file.push_str(&format!("{user}:{hash}\n"));
            } else {
                left_out += 1;
            }
        };
        if self.map {
            for (user, hash) in secret.fields() {
                let hash = std::str::from_utf8(hash).unwrap_or_default();
                add(user, hash.trim());
            }
            return (file, left_out);
        }
        let text = std::str::from_utf8(secret.get(FILE).unwrap_or_default()).unwrap_or_default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, rest) = line.split_once(':').unwrap_or((line, ""));
            let hash = rest.split(':').next().unwrap_or_default();
            // Of several lines for a user the first one counts.
            if seen.insert(user) {
                add(user, hash);
            }
        }
        (file, left_out)
    }
}

fn is_user(name: &str) -> bool {
    !name.is_empty() && !name.contains(':') && !name.chars().any(char::is_control)
}

fn is_checked(hash: &str) -> bool {
    let digits = hash
        .strip_prefix(SHA)
        .and_then(|rest| rest.strip_suffix('='));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    digits.is_some_and(|digits| digits.len() == SHA_DIGITS && digits.bytes().all(plain))
}

/// `BasicAuth` or `BasicAuthPerRoute` with these users.
pub(super) fn message(users: &Value) -> Value {
    json!({"users": users})
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const ONE: &str = "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=";
    const TWO: &str = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";

    fn found(map: bool, fields: &[(&str, &str)]) -> (String, usize) {
        let fields = fields.iter();
        let fields = fields.map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
        let auth = BasicAuth {
            key: "",
            secret: Arc::from("s"),
            map,
        };
        auth.file(&Secret::new(fields))
    }

    #[rstest]
    #[case::users(format!("a:{ONE}\nb:{TWO}:comment\n"), format!("a:{ONE}\nb:{TWO}\n"), 0)]
    #[case::windows(format!("a:{ONE}\r\n\r\n# b:{TWO}\r\n"), format!("a:{ONE}\n"), 0)]
    #[case::first_line_counts(format!("a:{ONE}\na:{TWO}\n"), format!("a:{ONE}\n"), 0)]
    #[case::first_line_counts_even_so(format!("a:$apr1$x\na:{TWO}\n"), String::new(), 1)]
    #[case::others(format!("a:$2y$05$x\nb:{{PLAIN}}x\nc:{{SHA}}short=\nd\n:{ONE}\ne:{ONE}x\n"), String::new(), 6)]
    #[case::empty(String::new(), String::new(), 0)]
    fn files(#[case] content: String, #[case] expected: String, #[case] left_out: usize) {
        assert_eq!(found(false, &[("auth", &content)]), (expected, left_out));
        assert_eq!(found(false, &[("other", &content)]), (String::new(), 0));
    }

    #[test]
    fn maps() {
        let all = [("a", ONE), ("b", "$apr1$x"), ("c", &format!("{TWO}\n"))];
        assert_eq!(found(true, &all), (format!("a:{ONE}\nc:{TWO}\n"), 1));
    }
}
