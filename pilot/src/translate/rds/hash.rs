//! What requests are hashed by, where a DestinationRule wants a consistent hash.

use envoy_types::pb::envoy::config::route::v3 as route;
use route::route_action::{HashPolicy, hash_policy};
use shared_proto::networking::v1alpha3::Destination;
use shared_proto::networking::v1alpha3::load_balancer_settings::ConsistentHashLb;
use shared_proto::networking::v1alpha3::load_balancer_settings::consistent_hash_lb::{
    HashKey, HttpCookie,
};

use super::destination::Target;
use super::report::{Problem, Report, duration};
use super::route::Context;
use super::{header_value, retry};
use crate::translate::issue::Reason;

/// Pseudo headers that a request has.
const PSEUDO_HEADERS: [&str; 4] = [":authority", ":method", ":path", ":scheme"];

/// Sets the hash policies of all destinations, and retries that fit them.
pub(super) fn apply<'a>(
    context: Context<'_>,
    destinations: impl Iterator<Item = &'a Destination>,
    action: &mut route::RouteAction,
    report: &mut Report<'_>,
) {
    let mut hashed = false;
    for destination in destinations {
        let target = Target::of(context, destination);
        let services = context.host.services;
        let hash = services.hash(&target.hostname, target.port, &target.subset);
        let Some(hash) = hash else { continue };
        hashed = true;
        let policy = report.optional(policy(&hash)).flatten();
        if let Some(policy) = policy
            && !action.hash_policy.contains(&policy)
        {
            action.hash_policy.push(policy);
        }
    }
    if hashed {
        retry::stay(
            action
                .retry_policy
                .get_or_insert_with(retry::default_policy),
        );
    }
}

fn policy(hash: &ConsistentHashLb) -> Result<Option<HashPolicy>, Problem> {
    use hash_policy::{ConnectionProperties, Header, PolicySpecifier, QueryParameter};
    let specifier = match &hash.hash_key {
        None | Some(HashKey::UseSourceIp(false)) => return Ok(None),
        Some(HashKey::UseSourceIp(true)) => {
            PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true })
        }
        Some(HashKey::HttpHeaderName(name)) => {
            if !header_value::is_name(name) && !PSEUDO_HEADERS.contains(&name.as_str()) {
                let message = format!("consistentHash: {name:?} is no header name");
                return Err(Problem::new(Reason::InvalidHeader, message));
            }
            PolicySpecifier::Header(Header {
                header_name: name.clone(),
                ..Default::default()
            })
        }
        Some(HashKey::HttpQueryParameterName(name)) => {
            if name.is_empty() {
                let message = "consistentHash: the query parameter has no name";
                return Err(Problem::new(Reason::InvalidValue, message));
            }
            PolicySpecifier::QueryParameter(QueryParameter { name: name.clone() })
        }
        Some(HashKey::HttpCookie(settings)) => PolicySpecifier::Cookie(cookie(settings)?),
    };
    Ok(Some(HashPolicy {
        policy_specifier: Some(specifier),
        ..Default::default()
    }))
}

/// With a time to live Envoy makes the cookie when the client has none; 0 makes it end with the session.
fn cookie(settings: &HttpCookie) -> Result<hash_policy::Cookie, Problem> {
    let plain = |text: &str| header_value::is_valid(text) && !text.contains(';');
    let attributes = settings.attributes.iter();
    let fine = header_value::is_name(&settings.name)
        && plain(&settings.path)
        && attributes
            .clone()
            .all(|attribute| header_value::is_name(&attribute.name) && plain(&attribute.value));
    if !fine {
        let message = format!("consistentHash: cookie {:?} is not possible", settings.name);
        return Err(Problem::new(Reason::InvalidValue, message));
    }
    let ttl = settings.ttl.as_ref();
    Ok(hash_policy::Cookie {
        name: settings.name.clone(),
        path: settings.path.clone(),
        ttl: ttl
            .map(|ttl| duration("consistentHash: ttl", ttl))
            .transpose()?,
        attributes: attributes
            .map(|attribute| hash_policy_attribute(&attribute.name, &attribute.value))
            .collect(),
    })
}

fn hash_policy_attribute(name: &str, value: &str) -> hash_policy::CookieAttribute {
    hash_policy::CookieAttribute {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}
