//! Header operations: set, add and remove.
//!
//! Pseudo headers and `host` are not headers here; a new `host` is a rewrite of the authority.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as core;
use shared_proto::networking::v1alpha3::{Headers, headers::HeaderOperations};

use super::report::{Problem, Report};
use super::{header_value, wire};
use crate::translate::issue::Reason;
use core::header_value_option::HeaderAppendAction;

/// Envoy takes 1,000 headers to add for a route, and a route may have those of its only destination too.
const MAX_HEADERS: usize = 500;

/// Headers that say how a message is framed (RFC 9110, 7.6.1; RFC 9112, 6): another value than the true one lets a
/// request be read as two.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Header operations in Envoy's form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Operations {
    pub(super) request_add: Vec<core::HeaderValueOption>,
    pub(super) request_remove: Vec<String>,
    pub(super) response_add: Vec<core::HeaderValueOption>,
    pub(super) response_remove: Vec<String>,
}

/// Reads operations; invalid ones are left out and reported.
pub(super) fn operations(headers: Option<&Headers>, report: &mut Report<'_>) -> Operations {
    let Some(headers) = headers else {
        return Operations::default();
    };
    let (request_add, request_remove) = direction(headers.request.as_ref(), report);
    let (response_add, response_remove) = direction(headers.response.as_ref(), report);
    Operations {
        request_add,
        request_remove,
        response_add,
        response_remove,
    }
}

/// Adds operations to a route.
pub(super) fn apply(headers: Option<&Headers>, row: &mut wire::Route, report: &mut Report<'_>) {
    let operations = operations(headers, report);
    row.request_headers_to_add.extend(operations.request_add);
    row.request_headers_to_remove
        .extend(operations.request_remove);
    row.response_headers_to_add.extend(operations.response_add);
    row.response_headers_to_remove
        .extend(operations.response_remove);
}

/// The authority that header operations set, if they do.
pub(super) fn authority(headers: Option<&Headers>) -> Option<&str> {
    let request = headers?.request.as_ref()?;
    [&request.set, &request.add]
        .into_iter()
        .flat_map(BTreeMap::iter)
        .find(|(name, value)| is_authority(name) && !value.is_empty())
        .map(|(_, value)| value.as_str())
}

fn is_authority(name: &str) -> bool {
    name == ":authority" || name.eq_ignore_ascii_case("host")
}

fn is_header(name: &str) -> bool {
    !name.starts_with(':') && !name.eq_ignore_ascii_case("host")
}

fn direction(
    operations: Option<&HeaderOperations>,
    report: &mut Report<'_>,
) -> (Vec<core::HeaderValueOption>, Vec<String>) {
    let Some(operations) = operations else {
        return (Vec::new(), Vec::new());
    };
    let kinds = [
        (&operations.set, HeaderAppendAction::OverwriteIfExistsOrAdd),
        (&operations.add, HeaderAppendAction::AppendIfExistsOrAdd),
    ];
    let mut add = Vec::new();
    for (map, action) in kinds {
        for (name, value) in map.iter().filter(|(name, _)| is_header(name)) {
            add.extend(report.optional(header(name, value, action)));
        }
    }
    if add.len() > MAX_HEADERS {
        let told = format!("{} headers to set or add", add.len());
        add.truncate(MAX_HEADERS);
        report.optional::<()>(Err(Problem::new(
            Reason::InvalidValue,
            format!("{told}; the first {MAX_HEADERS} are kept"),
        )));
    }
    let mut remove = Vec::new();
    for name in operations.remove.iter().filter(|name| is_header(name)) {
        let checked = check_name(name).map(|()| name.clone());
        remove.extend(report.optional(checked));
    }
    (add, remove)
}

fn header(
    name: &str,
    value: &str,
    action: HeaderAppendAction,
) -> Result<core::HeaderValueOption, Problem> {
    check_name(name)?;
    if HOP_BY_HOP.iter().any(|hop| name.eq_ignore_ascii_case(hop)) {
        return Err(Problem::new(
            Reason::InvalidHeader,
            format!("header {name:?} belongs to the connection and cannot be set"),
        ));
    }
    let value = header_value::escape(value);
    if !header_value::is_valid(&value) {
        return Err(Problem::new(
            Reason::InvalidHeader,
            format!("header {name:?}: value has control characters or is too long"),
        ));
    }
    let keep_empty_value = value.is_empty();
    Ok(core::HeaderValueOption {
        header: Some(core::HeaderValue {
            key: name.to_owned(),
            value,
            ..Default::default()
        }),
        append_action: action.into(),
        keep_empty_value,
        ..Default::default()
    })
}

fn check_name(name: &str) -> Result<(), Problem> {
    if header_value::is_name(name) {
        return Ok(());
    }
    Err(Problem::new(
        Reason::InvalidHeader,
        format!("{name:?} is no header name"),
    ))
}
