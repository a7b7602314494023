//! What annotations mean: Higress took the keys of ingress-nginx over and gave some of them another meaning.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The annotation that chooses the meaning of the others, on an Ingress or on an IngressClass.
pub const SEMANTICS_ANNOTATION: &str = "higress.io/annotation-semantics";

/// Whose meaning paths and annotations of an Ingress have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Semantics {
    /// Higress's.
    #[default]
    Higress,
    /// That of ingress-nginx, as far as Envoy can do it.
    IngressNginx,
}

impl Semantics {
    /// The name by which users choose it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Higress => "higress",
            Self::IngressNginx => "ingress-nginx",
        }
    }
}

impl fmt::Display for Semantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that stands for no semantics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not known; write higress or ingress-nginx")]
pub struct UnknownSemantics;

impl FromStr for Semantics {
    type Err = UnknownSemantics;

    /// # Errors
    /// The text is none of the names.
    fn from_str(text: &str) -> Result<Self, UnknownSemantics> {
        let all = [Self::Higress, Self::IngressNginx];
        let found = all.into_iter().find(|one| one.as_str() == text);
        found.ok_or(UnknownSemantics)
    }
}

/// What the controller knows of an IngressClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngressClass {
    /// The value of [`SEMANTICS_ANNOTATION`], as written.
    pub semantics: Option<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for one in [Semantics::Higress, Semantics::IngressNginx] {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        for text in ["", "nginx", "Higress", " higress"] {
            assert_eq!(text.parse::<Semantics>(), Err(UnknownSemantics));
        }
    }
}
