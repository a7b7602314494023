//! Which Ingresses are ours.

use crate::model::{Ingress, Scope};

/// The class that upstream takes for Ingresses that name none.
const DEFAULT_OF_NGINX: &str = "nginx";

/// Class and namespace rules. The annotation beats `spec.ingressClassName`; class `nginx` also takes Ingresses without class.
///
/// Whether an IngressClass object of that name exists makes no difference to the outcome: the object is found by the
/// same name that is compared when it is absent, and a name that is empty finds none.
pub fn is_served(ingress: &Ingress, scope: &Scope) -> bool {
    let class = ingress.class();
    let ours = match scope.ingress_class.as_str() {
        "" => true,
        DEFAULT_OF_NGINX => class.is_empty() || class == DEFAULT_OF_NGINX,
        wanted => class == wanted,
    };
    ours && scope.watches(&ingress.namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[rstest::rstest]
    #[case::any("", None, None, true)]
    #[case::any_other("", Some("x"), Some("y"), true)]
    #[case::nginx_absent("nginx", None, None, true)]
    #[case::nginx_empty("nginx", Some(""), Some("x"), true)]
    #[case::nginx("nginx", None, Some("nginx"), true)]
    #[case::nginx_other("nginx", None, Some("higress"), false)]
    #[case::ours("higress", None, Some("higress"), true)]
    #[case::ours_absent("higress", None, None, false)]
    #[case::ours_empty("higress", None, Some(""), false)]
    #[case::annotation("higress", Some("higress"), Some("nginx"), true)]
    #[case::annotation_beats_spec("higress", Some("nginx"), Some("higress"), false)]
    fn classes(
        #[case] option: &str,
        #[case] annotation: Option<&str>,
        #[case] name: Option<&str>,
        #[case] expected: bool,
    ) {
        let scope = Scope {
            ingress_class: option.to_owned(),
            ..Scope::default()
        };
        let mut ingress = Ingress::new(Arc::from("n"), Arc::from("i"));
        ingress.class_annotation = annotation.map(Arc::from);
        ingress.class_name = name.map(Arc::from);
        assert_eq!(is_served(&ingress, &scope), expected);
    }

    #[test]
    fn namespaces() {
        let scope = |namespace: &str| Scope {
            ingress_class: String::new(),
            watch_namespaces: namespace.split(',').map(str::to_owned).collect(),
            ..Scope::default()
        };
        let ingress = Ingress::new(Arc::from("n"), Arc::from("i"));
        assert!(is_served(&ingress, &scope("n")));
        assert!(is_served(&ingress, &scope("m,n")));
        assert!(!is_served(&ingress, &scope("m")));
    }
}
