//! What the controller keeps of a Secret: what annotations may refer to. Never shown, not even in debug output.

use std::collections::BTreeMap;
use std::fmt;

/// A Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    data: BTreeMap<Box<str>, Box<[u8]>>,
}

impl Secret {
    /// A Secret with these fields.
    pub fn new(data: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let data = data.into_iter();
        Self {
            data: data
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        }
    }

    /// The value of a field.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).map(|value| &**value)
    }

    /// All fields, ordered by name.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.data.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.data.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let secret = Secret::new([("auth".to_owned(), b"hunter2".to_vec())]);
        assert_eq!(format!("{secret:?}"), r#"{"auth"}"#);
        assert_eq!(secret.get("auth"), Some(&b"hunter2"[..]));
        assert_eq!(secret.fields().count(), 1);
    }
}
