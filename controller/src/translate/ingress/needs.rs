//! What an Ingress depends on because of its annotations.

use crate::model::Ingress;
use crate::resolve::Needs;

/// Dependencies of an Ingress beyond its rules.
pub fn needs(ingress: &Ingress) -> Needs {
    let _ = ingress;
    Needs::default()
}
