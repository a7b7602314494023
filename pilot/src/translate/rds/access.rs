//! Access control: by address, with a list of who may come in or of who may not, and by client certificate.
//!
//! Fails closed: a list in which no entry can be read lets nobody in.

use std::collections::BTreeMap;
use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::rbac::v3 as rules;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3 as rbac;
use envoy_types::pb::google::protobuf;
use prost::{Message, Name};
use rules::principal::Identifier;
use shared_proto::networking::v1alpha3::{IpAccessControl, http_filter::Filter};

use super::client_certificate;
use super::report::{Problem, Report};
use super::route::Context;
use crate::translate::issue::Reason;
use crate::translate::lds::RBAC;
use crate::translate::proto;

/// `envoy.extensions.filters.http.rbac.v3.RBACPerRoute` with ordered policies: equal input gives equal bytes.
#[derive(Clone, PartialEq, prost::Message)]
struct PerRoute {
    #[prost(message, optional, tag = "2")]
    rbac: Option<FilterConfig>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FilterConfig {
    #[prost(message, optional, tag = "1")]
    rules: Option<Rules>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Rules {
    #[prost(enumeration = "rules::rbac::Action", tag = "1")]
    action: i32,
    #[prost(btree_map = "string, message", tag = "2")]
    policies: BTreeMap<String, rules::Policy>,
}

/// Sets who is denied.
pub(super) fn apply(
    context: Context<'_>,
    settings: &mut BTreeMap<String, protobuf::Any>,
    report: &mut Report<'_>,
) {
    let mut policies = BTreeMap::new();
    if let Some(policy) = by_address(context, report) {
        policies.insert("ip-access-control".to_owned(), policy);
    }
    if context.host.client_certificate {
        let denied = client_certificate::denied(context.host.host);
        policies.extend(
            denied
                .into_iter()
                .map(|(name, policy)| (name.to_owned(), policy)),
        );
    }
    if policies.is_empty() {
        return;
    }
    let rules = Rules {
        action: rules::rbac::Action::Deny.into(),
        policies,
    };
    let config = PerRoute {
        rbac: Some(FilterConfig { rules: Some(rules) }),
    };
    let config = protobuf::Any {
        type_url: rbac::RbacPerRoute::type_url(),
        value: config.encode_to_vec(),
    };
    settings.insert(RBAC.to_owned(), config);
}

/// Filters of the route replace filters of the host that have the same name.
fn by_address(context: Context<'_>, report: &mut Report<'_>) -> Option<rules::Policy> {
    let host = &context.vs.spec.host_http_filters;
    let route = &context.route.route_http_filters;
    let mut lists: BTreeMap<&str, Option<&IpAccessControl>> = BTreeMap::new();
    for filter in host.iter().chain(route) {
        if let Some(Filter::IpAccessControl(list)) = &filter.filter {
            lists.insert(&filter.name, (!filter.disable).then_some(list));
        }
    }
    let denied: Vec<rules::Principal> = lists
        .values()
        .flatten()
        .map(|list| denied(list, report))
        .collect();
    (!denied.is_empty()).then(|| rules::Policy {
        permissions: vec![rules::Permission {
            rule: Some(rules::permission::Rule::Any(true)),
        }],
        principals: denied,
        ..Default::default()
    })
}

/// Whom a list denies. A list of the unwanted has precedence over one of the wanted.
fn denied(list: &IpAccessControl, report: &mut Report<'_>) -> rules::Principal {
    let unwanted = !list.not_remote_ip_blocks.is_empty();
    let texts = if unwanted {
        &list.not_remote_ip_blocks
    } else {
        &list.remote_ip_blocks
    };
    let mut blocks = Vec::new();
    for text in texts {
        blocks.extend(report.optional(block(text)));
    }
    let principal = |identifier| rules::Principal {
        identifier: Some(identifier),
    };
    if blocks.is_empty() {
        report.add(Problem::new(
            Reason::InvalidAddress,
            "access control has no address that can be read; nobody is let in",
        ));
        return principal(Identifier::Any(true));
    }
    let ids = blocks
        .into_iter()
        .map(|block| principal(Identifier::RemoteIp(block)))
        .collect();
    let listed = principal(Identifier::OrIds(rules::principal::Set { ids }));
    if unwanted {
        listed
    } else {
        principal(Identifier::NotId(Box::new(listed)))
    }
}

/// An address, or a block in CIDR form.
fn block(text: &str) -> Result<core::CidrRange, Problem> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let parsed: Option<(IpAddr, u32)> = address.trim().parse().ok().and_then(|ip: IpAddr| {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), |text| text.trim().parse()).ok()?;
        (length <= most).then_some((ip, length))
    });
    let Some((ip, length)) = parsed else {
        return Err(Problem::new(
            Reason::InvalidAddress,
            format!("access control: {text:?} is no address or block"),
        ));
    };
    Ok(core::CidrRange {
        address_prefix: ip.to_string(),
        prefix_len: Some(proto::uint(length)),
    })
}
