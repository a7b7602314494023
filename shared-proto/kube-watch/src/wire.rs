//! Pages of a list as the API server sends them, and its errors in words.

use kube::Error;
use serde::Deserialize;
use serde_json::Value;

/// One page; items are read one by one later, so that a bad one does not spoil the others.
#[derive(Deserialize)]
pub(crate) struct List {
    pub(crate) metadata: ListMeta,
    #[serde(default)]
    pub(crate) items: Option<Vec<Value>>,
}

/// What it says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    #[serde(default)]
    pub(crate) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(crate) next: Option<String>,
}

/// An error in one line, with what to do where that is known.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::Api(status) if status.code == 403 => format!(
            "{}; allow it to get, list and watch this kind (RBAC)",
            status.message
        ),
        Error::Api(status) if status.code == 401 => {
            "the API server does not accept the credentials".to_owned()
        }
        Error::Api(status) => format!("{} ({})", status.message, status.code),
        error => chain(error),
    }
}

/// An error with its causes, as far as it does not name them itself.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    text
}
