//! Help for the tests of families.

use std::sync::Arc;

use super::table::{HIGRESS, NGINX};
use super::{Annotations, Problem, Problems};
use crate::model::{Ingress, Reason, Semantics};

/// What a family makes of annotations, and the problems that it finds.
pub(super) fn parsed<T>(
    annotations: &[(&str, &str)],
    parse: impl Fn(&Annotations<'_>, &mut Problems) -> Option<T>,
) -> (Option<T>, Vec<Problem>) {
    parsed_as(Semantics::Higress, annotations, parse)
}

/// As [`parsed`], with these semantics.
pub(super) fn parsed_as<T>(
    semantics: Semantics,
    annotations: &[(&str, &str)],
    parse: impl Fn(&Annotations<'_>, &mut Problems) -> Option<T>,
) -> (Option<T>, Vec<Problem>) {
    let mut ingress = Ingress::new(Arc::from("n"), Arc::from("i"));
    ingress.semantics = semantics;
    for (key, value) in annotations {
        ingress
            .annotations
            .insert(Arc::from(*key), Arc::from(*value));
    }
    let mut problems = Problems::default();
    let value = parse(&Annotations::new(&ingress), &mut problems);
    (value, problems.list)
}

/// An Ingress with these annotations; `nginx/` and `higress/` stand for the prefixes.
pub(super) fn ingress(annotations: &[(&str, &str)]) -> Ingress {
    let mut ingress = Ingress::new(Arc::from("n"), Arc::from("i"));
    for (key, value) in annotations {
        let full = match key.split_once('/') {
            Some(("nginx", name)) => format!("{NGINX}{name}"),
            Some(("higress", name)) => format!("{HIGRESS}{name}"),
            _ => panic!("{key} has no prefix"),
        };
        ingress
            .annotations
            .insert(Arc::from(full), Arc::from(*value));
    }
    ingress
}

/// As [`parsed`], with short prefixes and the reasons of the problems only.
pub(super) fn problems_of<T>(
    annotations: &[(&str, &str)],
    parse: impl Fn(&Annotations<'_>, &mut Problems) -> Option<T>,
) -> (Option<T>, Vec<Reason>) {
    let ingress = ingress(annotations);
    let mut problems = Problems::default();
    let value = parse(&Annotations::new(&ingress), &mut problems);
    (value, problems.list.iter().map(|p| p.reason).collect())
}
