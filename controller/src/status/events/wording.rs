//! A mistake in the words of an Event.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use xxhash_rust::xxh3::Xxh3;

use crate::model::{Diagnostic, ObjectRef};
use crate::status::REPORTER;

/// Longest text that the API allows.
const LONGEST_NOTE: usize = 1024;

/// The Event about a mistake in an object.
pub(super) fn event(
    diagnostic: &Diagnostic,
    object: &ObjectRef,
    uid: &str,
    identity: &str,
) -> Event {
    let reason = diagnostic.reason.as_str();
    let note = match diagnostic.field.as_str() {
        "" => diagnostic.message.clone(),
        field => format!("{field}: {}", diagnostic.message),
    };
    Event {
        metadata: ObjectMeta {
            name: Some(name_of(object, &[uid, reason, &note])),
            namespace: Some(object.namespace.to_string()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(Timestamp::now())),
        action: Some("Translate".to_owned()),
        reason: Some(reason.to_owned()),
        note: Some(shortened(note)),
        regarding: Some(ObjectReference {
            api_version: Some("networking.k8s.io/v1".to_owned()),
            kind: Some(object.kind.as_str().to_owned()),
            name: Some(object.name.to_string()),
            namespace: Some(object.namespace.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(identity.chars().take(128).collect()),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}

/// The object's name and a hash of what is said, within the limit of names.
fn name_of(object: &ObjectRef, parts: &[&str]) -> String {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    let name: String = object.name.chars().take(230).collect();
    let name = name.trim_end_matches(['.', '-']);
    format!("{name}.{:016x}", hash.digest())
}

fn shortened(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE - 3)
            .rev()
            .find(|at| note.is_char_boundary(*at));
        note.truncate(end.unwrap_or(0));
        note.push_str("...");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::model::{ObjectKind, Reason};

    fn diagnostic(message: &str) -> Diagnostic {
        Diagnostic {
            object: Some(ObjectRef {
                kind: ObjectKind::Ingress,
                namespace: Arc::from("shop"),
                name: Arc::from("web"),
            }),
            place: None,
            field: "spec.rules[0].host".to_owned(),
            reason: Reason::InvalidHost,
            message: message.to_owned(),
        }
    }

    fn made(message: &str, uid: &str) -> Event {
        let diagnostic = diagnostic(message);
        let object = diagnostic.object.clone().unwrap();
        event(&diagnostic, &object, uid, "me")
    }

    #[test]
    fn the_name_says_what_the_event_says() {
        let name = |message, uid| made(message, uid).metadata.name;
        assert_eq!(name("a", "1"), name("a", "1"));
        assert_ne!(name("a", "1"), name("b", "1"));
        assert_ne!(name("a", "1"), name("a", "2"));
        assert_eq!(made("a", "1").note.unwrap(), "spec.rules[0].host: a");
    }

    #[test]
    fn a_long_note_is_cut_at_a_letter() {
        let note = made(&"é".repeat(2000), "1").note.unwrap();
        assert!(note.len() <= LONGEST_NOTE && note.ends_with("..."));
    }
}
