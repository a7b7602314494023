//! SRDS: one scope per host and port, which points at the host's route configuration.

use envoy_types::pb::envoy::config::route::v3 as route;
use route::scoped_route_configuration::{Key, key};

use super::names;

/// The scope of a host. With `on_demand` Envoy asks for its routes at the first request only.
///
/// The key is the scope's name, port included: Envoy has one set of scopes for all its listeners.
#[must_use]
pub fn scoped_route(port: u16, host: &str, on_demand: bool) -> route::ScopedRouteConfiguration {
    let name = names::scope_name(port, host);
    let fragment = key::Fragment {
        r#type: Some(key::fragment::Type::StringKey(name.clone())),
    };
    route::ScopedRouteConfiguration {
        on_demand,
        name,
        route_configuration_name: names::route_name(port, host),
        key: Some(Key {
            fragments: vec![fragment],
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::scoped_route;

    #[test]
    fn a_scope_names_its_routes() {
        let scope = scoped_route(80, "*.example.com", true);
        assert_eq!(scope.name, "80.*.example.com");
        assert_eq!(
            scope.route_configuration_name,
            "higress-rds-80.*.example.com"
        );
        assert!(scope.on_demand);
        assert_eq!(scope.key.unwrap().fragments.len(), 1);
    }
}
