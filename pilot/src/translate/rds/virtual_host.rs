//! The virtual host of a host: the routes of its VirtualServices, one after the other.

use envoy_types::pb::envoy::config::route::v3 as route;

use super::{HostRoutes, retry, route as routes, wire};
use crate::translate::issue::{Issue, Reason};
use crate::translate::{host, names};

/// `None` when nothing serves the host.
pub(super) fn virtual_host(
    input: &HostRoutes<'_>,
    issues: &mut Vec<Issue>,
) -> Option<wire::VirtualHost> {
    let domain = input.host.to_ascii_lowercase();
    if !host::is_valid(&domain) {
        issues.push(Issue {
            origin: None,
            at: domain,
            reason: Reason::InvalidHost,
            message: "is no host name; it is not served".to_owned(),
        });
        return None;
    }
    let mut rows = Vec::new();
    for vs in input.virtual_services {
        rows.extend(routes::routes(input, vs, issues));
    }
    if rows.is_empty() && !input.https_redirect {
        return None;
    }
    // Stable: everything else keeps its order.
    rows.sort_by_key(routes::is_catch_all);
    let retry_policy = rows
        .iter()
        .any(|row| matches!(row.action, Some(wire::Action::Route(_))))
        .then(retry::default_policy);
    Some(wire::VirtualHost {
        name: names::virtual_host_name(&domain, input.port),
        domains: vec![domain],
        routes: rows,
        require_tls: tls_requirement(input.https_redirect).into(),
        include_request_attempt_count: true,
        retry_policy,
        ..Default::default()
    })
}

/// Answers 404 to everything.
pub(super) fn black_hole(port: u16) -> wire::VirtualHost {
    wire::VirtualHost {
        name: names::black_hole_host_name(port),
        domains: vec!["*".to_owned()],
        ..Default::default()
    }
}

fn tls_requirement(https_redirect: bool) -> route::virtual_host::TlsRequirementType {
    if https_redirect {
        route::virtual_host::TlsRequirementType::All
    } else {
        route::virtual_host::TlsRequirementType::None
    }
}
