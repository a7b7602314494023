//! Error responses that are replaced by those of another route (Higress's `internalActiveRedirect`).
//!
//! When a backend answers with one of the status codes, the request is sent on its way again inside of Envoy, as a GET
//! with another path and more headers. Its new route answers instead.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::extensions::filters::http::custom_response::v3 as custom;
use envoy_types::pb::envoy::extensions::http::custom_response::redirect_policy::v3 as redirect_policy;
use envoy_types::pb::envoy::r#type::matcher::v3 as input;
use envoy_types::pb::google::protobuf;
use envoy_types::pb::xds::core::v3 as xds_core;
use envoy_types::pb::xds::r#type::matcher::v3 as xds;
use shared_proto::networking::v1alpha3 as istio;

use istio::http_internal_active_redirect as shape;
use istio::{Headers, HttpInternalActiveRedirect};
use redirect_policy::redirect_policy::RedirectActionSpecifier;
use route::redirect_action::{PathRewriteSpecifier, SchemeRewriteSpecifier};
use xds::matcher::matcher_list::{FieldMatcher, Predicate, predicate};
use xds::matcher::{MatcherList, MatcherType, OnMatch, on_match};

use super::report::{Problem, Report};
use super::route::Context;
use super::{header_value, headers};
use crate::translate::host;
use crate::translate::issue::Reason;
use crate::translate::lds::CUSTOM_RESPONSE;
use crate::translate::{names, proto};

/// Codes that are no errors: they are never replaced (Higress).
const NO_ERRORS: [u32; 7] = [200, 301, 302, 303, 304, 307, 308];
/// What is replaced when no code is left.
const DEFAULT_CODE: u32 = 503;

/// One policy, whichever of the two messages it was written in.
struct Policy<'a> {
    codes: &'a [u32],
    headers: Option<&'a Headers>,
    authority: &'a str,
    keep_host: bool,
    url: Option<&'a str>,
}

/// Sets what is done with error responses.
pub(super) fn apply(
    context: Context<'_>,
    redirect: &HttpInternalActiveRedirect,
    settings: &mut BTreeMap<String, protobuf::Any>,
    report: &mut Report<'_>,
) {
    let mut matchers = Vec::new();
    for policy in policies(redirect) {
        let action = action(context, &policy, report);
        matchers.extend(report.optional(action.map(|action| matcher(policy.codes, &action))));
    }
    if matchers.is_empty() {
        return;
    }
    let config = custom::CustomResponse {
        custom_response_matcher: Some(xds::Matcher {
            matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers })),
            ..Default::default()
        }),
    };
    settings.insert(CUSTOM_RESPONSE.to_owned(), proto::any(&config));
}

/// A list replaces the settings beside it.
fn policies(redirect: &HttpInternalActiveRedirect) -> Vec<Policy<'_>> {
    use shape::RedirectUrlRewriteSpecifier as Own;
    use shape::redirect_policy::RedirectUrlRewriteSpecifier as Listed;
    if redirect.policies.is_empty() {
        return vec![Policy {
            codes: &redirect.redirect_response_codes,
            headers: redirect.headers.as_ref(),
            authority: &redirect.authority,
            keep_host: redirect.forced_use_original_host,
            url: match &redirect.redirect_url_rewrite_specifier {
                Some(Own::RedirectUrl(url)) => Some(url),
                _ => None,
            },
        }];
    }
    let listed = redirect.policies.iter().map(|policy| Policy {
        codes: &policy.redirect_response_codes,
        headers: policy.headers.as_ref(),
        authority: &policy.authority,
        keep_host: policy.forced_use_original_host,
        url: match &policy.redirect_url_rewrite_specifier {
            Some(Listed::RedirectUrl(url)) => Some(url),
            _ => None,
        },
    });
    listed.collect()
}

/// Scheme, host and path of an absolute URL.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    let fine = matches!(scheme, "http" | "https")
        && host::is_valid(&host.split(':').next()?.to_ascii_lowercase())
        && header_value::is_valid(path)
        && !path.contains(' ');
    fine.then_some((scheme, host, if path.is_empty() { "/" } else { path }))
}

fn action(
    context: Context<'_>,
    policy: &Policy<'_>,
    report: &mut Report<'_>,
) -> Result<redirect_policy::RedirectPolicy, Problem> {
    let problem = |message: &str| {
        Problem::new(
            Reason::InvalidValue,
            format!("internalActiveRedirect: {message}"),
        )
    };
    let url = policy
        .url
        .ok_or_else(|| problem("only redirectUrl is served"))?;
    let (scheme, url_host, path) = parts(url).ok_or_else(|| problem("redirectUrl is no URL"))?;
    let target = if policy.authority.is_empty() {
        url_host
    } else {
        policy.authority
    };
    let mut action = route::RedirectAction {
        path_rewrite_specifier: Some(PathRewriteSpecifier::PathRedirect(path.to_owned())),
        ..Default::default()
    };
    // The scope is chosen again by this header; what it was is gone by now.
    let scope = if policy.keep_host {
        action.host_redirect = original_host(context);
        names::scope_name(context.host.port, context.host.host)
    } else {
        target.clone_into(&mut action.host_redirect);
        action.scheme_rewrite_specifier =
            Some(SchemeRewriteSpecifier::SchemeRedirect(scheme.to_owned()));
        names::scope_name(context.host.port, target)
    };
    let mut request_headers = headers::operations(policy.headers, report).request_add;
    request_headers.push(core::HeaderValueOption {
        header: Some(core::HeaderValue {
            key: names::SCOPE_HEADER.to_owned(),
            value: scope,
            ..Default::default()
        }),
        append_action: core::header_value_option::HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..Default::default()
    });
    Ok(redirect_policy::RedirectPolicy {
        // Of a good answer; otherwise the client would see the code that was replaced. Another error stays as it is.
        status_code: Some(proto::uint(200)),
        request_headers_to_add: request_headers,
        redirect_action_specifier: Some(RedirectActionSpecifier::RedirectAction(action)),
        ..Default::default()
    })
}

/// The host that leads to the same virtual host again; empty for that of the request. A rewrite of the host has
/// replaced the one that the client sent.
fn original_host(context: Context<'_>) -> String {
    let route = context.route;
    let rewritten = headers::authority(route.headers.as_ref()).is_some()
        || route
            .rewrite
            .as_ref()
            .is_some_and(|rewrite| !rewrite.authority.is_empty())
        || route
            .route
            .iter()
            .any(|to| headers::authority(to.headers.as_ref()).is_some());
    let host = context.host.host;
    match host.strip_prefix('*') {
        _ if !rewritten => String::new(),
        None => host.to_owned(),
        // Any name below will do.
        Some("") => "fallback.invalid".to_owned(),
        Some(domain) => format!("fallback{domain}"),
    }
}

fn matcher(codes: &[u32], action: &redirect_policy::RedirectPolicy) -> FieldMatcher {
    let mut errors: Vec<u32> = codes
        .iter()
        .copied()
        .filter(|code| (100..600).contains(code) && !NO_ERRORS.contains(code))
        .collect();
    errors.sort_unstable();
    errors.dedup();
    if errors.is_empty() {
        errors.push(DEFAULT_CODE);
    }
    let mut predicates: Vec<Predicate> = errors.into_iter().map(status).collect();
    let predicate = match predicates.len() {
        1 => predicates.swap_remove(0),
        _ => Predicate {
            match_type: Some(predicate::MatchType::OrMatcher(predicate::PredicateList {
                predicate: predicates,
            })),
        },
    };
    FieldMatcher {
        predicate: Some(predicate),
        on_match: Some(OnMatch {
            on_match: Some(on_match::OnMatch::Action(extension("redirect", action))),
            ..Default::default()
        }),
    }
}

fn status(code: u32) -> Predicate {
    use predicate::{MatchType, SinglePredicate, single_predicate::Matcher};
    let value = xds::StringMatcher {
        match_pattern: Some(xds::string_matcher::MatchPattern::Exact(code.to_string())),
        ..Default::default()
    };
    Predicate {
        match_type: Some(MatchType::SinglePredicate(SinglePredicate {
            input: Some(extension(
                "status",
                &input::HttpResponseStatusCodeMatchInput {},
            )),
            matcher: Some(Matcher::ValueMatch(value)),
        })),
    }
}

fn extension<M: prost::Message + prost::Name>(
    name: &str,
    config: &M,
) -> xds_core::TypedExtensionConfig {
    xds_core::TypedExtensionConfig {
        name: name.to_owned(),
        typed_config: Some(proto::any(config)),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::parts;

    #[rstest]
    #[case("http://example.com/", Some(("http", "example.com", "/")))]
    #[case("https://example.com:8080", Some(("https", "example.com:8080", "/")))]
    #[case("http://a.b/c?d=e", Some(("http", "a.b", "/c?d=e")))]
    #[case("/only/path", None)]
    #[case("ftp://a.b/", None)]
    #[case("http://a b/", None)]
    #[case("http://a.b/\n", None)]
    fn urls(#[case] url: &str, #[case] expected: Option<(&str, &str, &str)>) {
        assert_eq!(parts(url), expected);
    }
}
