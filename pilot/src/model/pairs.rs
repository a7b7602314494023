//! A few names with values, as labels and annotations are.

/// Names with values, sorted by name. A map of one entry takes twenty times as much, and there is one for every config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(Box<[(Box<str>, Box<str>)]>);

impl Pairs {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        let (_, value) = self.0.get(at.ok()?)?;
        Some(value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of two values of one name the last one stays.
impl FromIterator<(String, String)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let sorted: std::collections::BTreeMap<String, String> = pairs.into_iter().collect();
        let boxed = sorted
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self(boxed.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_whatever_the_order() {
        let pairs = [("b", "2"), ("a", "0"), ("a", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let pairs: Pairs = pairs.into_iter().collect();
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        assert_eq!((pairs.get("a"), pairs.get("c")), (Some("1"), None));
        assert!(Pairs::default().is_empty());
    }
}
