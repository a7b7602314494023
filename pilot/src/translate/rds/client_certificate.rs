//! Hosts whose clients have to show a certificate.
//!
//! The server with the host's name asks for it. A connection made for another name of the same port could carry requests
//! for the host as well: these are refused, as are those of clients without a certificate that was verified.

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::rbac::v3 as rules;
use envoy_types::pb::envoy::extensions::rbac::principals::mtls_authenticated::v3 as mtls;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use matcher::string_matcher::MatchPattern;
use rules::permission::Rule;
use rules::principal::Identifier;

use crate::translate::proto;

/// Whom a host denies, by name of the policy.
pub(super) fn denied(host: &str) -> Vec<(&'static str, rules::Policy)> {
    let mut policies = vec![("client-certificate", without_certificate())];
    policies.extend(for_other_name(host).map(|policy| ("server-name", policy)));
    policies
}

fn without_certificate() -> rules::Policy {
    let verified = mtls::Config {
        any_validated_client_certificate: true,
        ..Default::default()
    };
    let verified = principal(Identifier::Custom(core::TypedExtensionConfig {
        name: "envoy.rbac.principals.mtls_authenticated".to_owned(),
        typed_config: Some(proto::any(&verified)),
    }));
    rules::Policy {
        permissions: vec![permission(Rule::Any(true))],
        principals: vec![principal(Identifier::NotId(Box::new(verified)))],
        ..Default::default()
    }
}

/// `None` for the host that is every host.
fn for_other_name(host: &str) -> Option<rules::Policy> {
    let pattern = match host.strip_prefix('*') {
        None => MatchPattern::Exact(host.to_owned()),
        Some("") => return None,
        Some(domain) => MatchPattern::Suffix(domain.to_owned()),
    };
    let own = matcher::StringMatcher {
        ignore_case: true,
        ..proto::string_match(pattern)
    };
    let own = permission(Rule::RequestedServerName(own));
    Some(rules::Policy {
        permissions: vec![permission(Rule::NotRule(Box::new(own)))],
        principals: vec![principal(Identifier::Any(true))],
        ..Default::default()
    })
}

fn permission(rule: Rule) -> rules::Permission {
    rules::Permission { rule: Some(rule) }
}

fn principal(identifier: Identifier) -> rules::Principal {
    rules::Principal {
        identifier: Some(identifier),
    }
}
