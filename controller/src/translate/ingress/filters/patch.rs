//! Patches of an EnvoyFilter.

use serde_json::Value;
use shared_proto::networking::v1alpha3::EnvoyFilter;
use shared_proto::networking::v1alpha3::envoy_filter::{
    ApplyTo, EnvoyConfigObjectMatch, EnvoyConfigObjectPatch, ListenerMatch, Patch, PatchContext,
    RouteConfigurationMatch,
    envoy_config_object_match::ObjectTypes,
    listener_match::{FilterChainMatch, FilterMatch, SubFilterMatch},
    patch::Operation,
    route_configuration_match::{RouteMatch, VirtualHostMatch, route_match::Action},
};
use shared_proto::well_known::Struct;
use shared_proto::{Config, Meta};

use crate::model::Scope;

const CONNECTION_MANAGER: &str = "envoy.filters.network.http_connection_manager";
const ROUTER: &str = "envoy.filters.http.router";

/// An EnvoyFilter of the system namespace. Of those for one place, a lower priority comes first.
pub(super) fn config(
    scope: &Scope,
    name: String,
    priority: i32,
    patches: Vec<EnvoyConfigObjectPatch>,
) -> Config {
    let spec = EnvoyFilter {
        config_patches: patches,
        priority,
        ..EnvoyFilter::default()
    };
    Config::new(Meta::new(scope.system_namespace.clone(), name), spec)
}

/// Merges `value` into the routes of a virtual host that have this name and sort of action.
pub(super) fn route(
    host: &str,
    name: &str,
    action: Action,
    value: Value,
) -> EnvoyConfigObjectPatch {
    let route = RouteMatch {
        name: name.to_owned(),
        action: action.into(),
    };
    let place = virtual_host_match(host, Some(route));
    patch(ApplyTo::HttpRoute, Some(place), Operation::Merge, value)
}

/// Merges `value` into a virtual host.
pub(super) fn virtual_host(host: &str, value: Value) -> EnvoyConfigObjectPatch {
    let place = virtual_host_match(host, None);
    patch(ApplyTo::VirtualHost, Some(place), Operation::Merge, value)
}

/// Puts a filter at the end of the chain, just before the one that sends requests on.
pub(super) fn http_filter(value: Value) -> EnvoyConfigObjectPatch {
    let filter = FilterMatch {
        name: CONNECTION_MANAGER.to_owned(),
        sub_filter: Some(SubFilterMatch {
            name: ROUTER.to_owned(),
        }),
    };
    let place = ObjectTypes::Listener(ListenerMatch {
        filter_chain: Some(FilterChainMatch {
            filter: Some(filter),
            ..FilterChainMatch::default()
        }),
        ..ListenerMatch::default()
    });
    patch(
        ApplyTo::HttpFilter,
        Some(place),
        Operation::InsertBefore,
        value,
    )
}

/// Adds a cluster.
pub(super) fn cluster(value: Value) -> EnvoyConfigObjectPatch {
    patch(ApplyTo::Cluster, None, Operation::Add, value)
}

fn virtual_host_match(host: &str, route: Option<RouteMatch>) -> ObjectTypes {
    ObjectTypes::RouteConfiguration(RouteConfigurationMatch {
        vhost: Some(VirtualHostMatch {
            name: host.to_owned(),
            route,
            ..VirtualHostMatch::default()
        }),
        ..RouteConfigurationMatch::default()
    })
}

fn patch(
    apply_to: ApplyTo,
    object_types: Option<ObjectTypes>,
    operation: Operation,
    value: Value,
) -> EnvoyConfigObjectPatch {
    EnvoyConfigObjectPatch {
        apply_to: apply_to.into(),
        r#match: Some(EnvoyConfigObjectMatch {
            context: PatchContext::Gateway.into(),
            object_types,
            ..EnvoyConfigObjectMatch::default()
        }),
        patch: Some(Patch {
            operation: operation.into(),
            value: Struct::from_json(value),
            ..Patch::default()
        }),
    }
}
