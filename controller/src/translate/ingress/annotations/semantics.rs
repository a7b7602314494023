//! What the other annotations mean.
//!
//! It is decided before they are read, with the class of the Ingress and the flag in view, and is part of the Ingress. Each family
//! that has two meanings branches on it once.

use super::table::ANNOTATION_SEMANTICS;
use super::value::ValueError;
use super::{Annotations, Problems};
use crate::model::Semantics;

/// What the annotations mean. A value that is none is reported; the class or the flag decides then.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Semantics {
    let read = |text: &str| {
        let parsed = text.parse::<Semantics>();
        parsed.map_err(|error| ValueError::new(text, &error.to_string()))
    };
    annotations.get(&ANNOTATION_SEMANTICS, read, problems);
    annotations.semantics()
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;
    use crate::model::Reason;

    #[test]
    fn an_unknown_name_is_reported() {
        let parse = |annotations: &Annotations<'_>, problems: &mut Problems| {
            Some(parse(annotations, problems))
        };
        let key = "higress/annotation-semantics";
        let found = problems_of(&[(key, "nginx")], parse);
        assert_eq!(
            found,
            (Some(Semantics::Higress), vec![Reason::InvalidAnnotation])
        );
        assert_eq!(problems_of(&[(key, "ingress-nginx")], parse).1, []);
    }
}
