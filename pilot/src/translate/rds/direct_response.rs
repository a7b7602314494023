//! Answers that the gateway gives by itself.

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::route::v3 as route;
use shared_proto::networking::v1alpha3::{HttpDirectResponse, http_body};

use super::report::Problem;
use super::{MAX_DIRECT_RESPONSE, wire};
use crate::translate::issue::Reason;

/// A status without body.
pub(super) fn status(status: u32) -> wire::Action {
    wire::Action::DirectResponse(route::DirectResponseAction {
        status,
        ..Default::default()
    })
}

/// The answer of a route.
pub(super) fn action(response: &HttpDirectResponse) -> Result<wire::Action, Problem> {
    if !(200..600).contains(&response.status) {
        return Err(Problem::new(
            Reason::InvalidValue,
            format!(
                "direct response status {} is not 200 to 599",
                response.status
            ),
        ));
    }
    let body = response
        .body
        .as_ref()
        .and_then(|body| body.specifier.as_ref());
    let (specifier, len) = match body {
        None => return Ok(status(response.status)),
        Some(http_body::Specifier::String(text)) => (
            core::data_source::Specifier::InlineString(text.clone()),
            text.len(),
        ),
        Some(http_body::Specifier::Bytes(bytes)) => (
            core::data_source::Specifier::InlineBytes(bytes.to_vec()),
            bytes.len(),
        ),
    };
    if len == 0 {
        return Ok(status(response.status));
    }
    if len > MAX_DIRECT_RESPONSE as usize {
        return Err(Problem::new(
            Reason::InvalidValue,
            "direct response body is larger than 1 MiB",
        ));
    }
    Ok(wire::Action::DirectResponse(route::DirectResponseAction {
        status: response.status,
        body: Some(core::DataSource {
            specifier: Some(specifier),
            ..Default::default()
        }),
        ..Default::default()
    }))
}
