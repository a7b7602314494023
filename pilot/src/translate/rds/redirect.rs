//! Redirects.

use envoy_types::pb::envoy::config::route::v3 as route;
use route::redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier};
use shared_proto::networking::v1alpha3::HttpRedirect;
use shared_proto::networking::v1alpha3::http_redirect::{RedirectPort, RedirectPortSelection};

use super::report::Problem;
use super::route::Context;
use super::{header_value, wire};
use crate::translate::issue::Reason;

/// Marks a path that replaces the matched prefix only.
const PREFIX_MARK: &str = "%PREFIX()%";

/// True for a redirect that changes nothing but the scheme to https, and the port to this one. Where
/// TLS is terminated it would lead to itself for ever.
pub(super) fn is_https_only(redirect: &HttpRedirect, port: u16) -> bool {
    let here = RedirectPort::Port(port.into());
    redirect.scheme == "https"
        && redirect.uri.is_empty()
        && redirect.prefix_rewrite.is_empty()
        && redirect.authority.is_empty()
        && redirect.redirect_port.is_none_or(|port| port == here)
}

/// The redirect of a route.
pub(super) fn action(
    context: Context<'_>,
    redirect: &HttpRedirect,
) -> Result<wire::Action, Problem> {
    for text in [
        &redirect.uri,
        &redirect.authority,
        &redirect.scheme,
        &redirect.prefix_rewrite,
    ] {
        if !header_value::is_valid(text) {
            return Err(Problem::new(
                Reason::InvalidValue,
                format!("redirect to {text:?} is not possible"),
            ));
        }
    }
    let scheme = (!redirect.scheme.is_empty())
        .then(|| SchemeRewriteSpecifier::SchemeRedirect(redirect.scheme.clone()));
    Ok(wire::Action::Redirect(route::RedirectAction {
        host_redirect: redirect.authority.clone(),
        port_redirect: port(context, redirect)?,
        response_code: code(redirect.redirect_code)?.into(),
        scheme_rewrite_specifier: scheme,
        path_rewrite_specifier: path(context, redirect),
        ..Default::default()
    }))
}

fn code(code: u32) -> Result<RedirectResponseCode, Problem> {
    match code {
        0 | 301 => Ok(RedirectResponseCode::MovedPermanently),
        302 => Ok(RedirectResponseCode::Found),
        303 => Ok(RedirectResponseCode::SeeOther),
        307 => Ok(RedirectResponseCode::TemporaryRedirect),
        308 => Ok(RedirectResponseCode::PermanentRedirect),
        other => Err(Problem::new(
            Reason::InvalidValue,
            format!("redirect code {other} is none of 301, 302, 303, 307, 308"),
        )),
    }
}

/// 0 means the port of the request.
fn port(context: Context<'_>, redirect: &HttpRedirect) -> Result<u32, Problem> {
    match redirect.redirect_port {
        Some(RedirectPort::Port(port)) if port > u32::from(u16::MAX) => Err(Problem::new(
            Reason::InvalidValue,
            format!("redirect port {port} is above 65535"),
        )),
        Some(RedirectPort::Port(port)) => Ok(port),
        Some(RedirectPort::DerivePort(selection))
            if selection == i32::from(RedirectPortSelection::FromRequestPort) =>
        {
            let port = context.host.port;
            let default = match redirect.scheme.as_str() {
                "http" => port == 80,
                "https" => port == 443,
                _ => port == 80 || port == 443,
            };
            Ok(if default { 0 } else { port.into() })
        }
        Some(RedirectPort::DerivePort(_)) | None => Ok(0),
    }
}

fn path(context: Context<'_>, redirect: &HttpRedirect) -> Option<PathRewriteSpecifier> {
    if !redirect.prefix_rewrite.is_empty() {
        return Some(PathRewriteSpecifier::PrefixRewrite(
            redirect.prefix_rewrite.clone(),
        ));
    }
    if redirect.uri.is_empty() {
        return None;
    }
    let uri = match redirect.uri.strip_prefix(PREFIX_MARK) {
        Some(prefix) if context.vs.gateway_semantics => {
            return Some(PathRewriteSpecifier::PrefixRewrite(prefix.to_owned()));
        }
        _ => redirect.uri.clone(),
    };
    Some(PathRewriteSpecifier::PathRedirect(uri))
}
