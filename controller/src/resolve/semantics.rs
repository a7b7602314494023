//! What the annotations of an Ingress mean: the Ingress decides, else its class, else the flag.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{
    Diagnostic, Ingress, IngressClass, ObjectRef, Reason, SEMANTICS_ANNOTATION, Scope, Semantics,
};

/// The IngressClasses, by name.
#[derive(Debug, Default)]
pub(super) struct Classes(HashMap<Arc<str>, IngressClass>);

impl Classes {
    /// Takes in one version of a class (`None` = gone). True when it differs from the last one.
    pub(super) fn replace(&mut self, name: &Arc<str>, new: Option<IngressClass>) -> bool {
        if self.0.get(name) == new.as_ref() {
            return false;
        }
        match new {
            Some(class) => _ = self.0.insert(name.clone(), class),
            None => _ = self.0.remove(name),
        }
        true
    }

    /// What the annotations of an Ingress mean. A value that is none counts as absent.
    pub(super) fn semantics(&self, scope: &Scope, ingress: &Ingress) -> Semantics {
        let own = ingress.annotations.get(SEMANTICS_ANNOTATION);
        let of_class = || self.0.get(ingress.class())?.semantics.as_deref();
        own.and_then(|text| text.parse().ok())
            .or_else(|| of_class()?.parse().ok())
            .unwrap_or(scope.semantics)
    }
}

/// What is wrong with a class.
pub(super) fn check(reference: &ObjectRef, class: &IngressClass) -> Vec<Diagnostic> {
    let Some(text) = &class.semantics else {
        return Vec::new();
    };
    let Err(error) = text.parse::<Semantics>() else {
        return Vec::new();
    };
    vec![Diagnostic {
        object: Some(reference.clone()),
        place: None,
        field: format!("metadata.annotations[{SEMANTICS_ANNOTATION:?}]"),
        reason: Reason::InvalidAnnotation,
        message: format!("{:?} {error}", super::shorten(text)),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::nothing(None, None, "higress", Semantics::Higress)]
    #[case::flag(None, None, "ingress-nginx", Semantics::IngressNginx)]
    #[case::class(None, Some("ingress-nginx"), "higress", Semantics::IngressNginx)]
    #[case::ingress(
        Some("higress"),
        Some("ingress-nginx"),
        "ingress-nginx",
        Semantics::Higress
    )]
    #[case::unknown_on_ingress(
        Some("nginx"),
        Some("ingress-nginx"),
        "higress",
        Semantics::IngressNginx
    )]
    #[case::unknown_on_class(None, Some("x"), "ingress-nginx", Semantics::IngressNginx)]
    fn the_nearest_decides(
        #[case] ingress: Option<&str>,
        #[case] class: Option<&str>,
        #[case] flag: &str,
        #[case] expected: Semantics,
    ) {
        let scope = Scope {
            semantics: flag.parse().unwrap(),
            ..Scope::default()
        };
        let mut classes = Classes::default();
        let name: Arc<str> = Arc::from("c");
        let semantics = class.map(Arc::from);
        assert!(classes.replace(&name, Some(IngressClass { semantics })));
        let mut object = Ingress::new(Arc::from("n"), Arc::from("i"));
        object.class_name = Some(name);
        if let Some(text) = ingress {
            let key = Arc::from(SEMANTICS_ANNOTATION);
            object.annotations.insert(key, Arc::from(text));
        }
        assert_eq!(classes.semantics(&scope, &object), expected);
    }
}
