//! Which operation does what to what, and what a patch needs for it.

use super::{ApplyTo, Operation};

/// Full name of the message that a patch brings.
pub(super) fn message(apply_to: ApplyTo) -> Option<&'static str> {
    Some(match apply_to {
        ApplyTo::Listener => "envoy.config.listener.v3.Listener",
        ApplyTo::ListenerFilter => "envoy.config.listener.v3.ListenerFilter",
        ApplyTo::FilterChain => "envoy.config.listener.v3.FilterChain",
        ApplyTo::NetworkFilter => "envoy.config.listener.v3.Filter",
        ApplyTo::HttpFilter => {
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"
        }
        ApplyTo::RouteConfiguration => "envoy.config.route.v3.RouteConfiguration",
        ApplyTo::VirtualHost => "envoy.config.route.v3.VirtualHost",
        ApplyTo::HttpRoute => "envoy.config.route.v3.Route",
        ApplyTo::Cluster => "envoy.config.cluster.v3.Cluster",
        ApplyTo::ExtensionConfig => "envoy.config.core.v3.TypedExtensionConfig",
        ApplyTo::Invalid | ApplyTo::Bootstrap => return None,
    })
}

/// The operation as it is carried out: an insertion where the order has no meaning is an addition. `None` when there is
/// no such operation.
pub(super) fn operation(apply_to: ApplyTo, operation: Operation) -> Option<Operation> {
    use ApplyTo as A;
    use Operation as O;
    let merges = matches!(operation, O::Merge | O::MergeAndReplaceList);
    let inserts = matches!(operation, O::InsertBefore | O::InsertAfter | O::InsertFirst);
    let places = inserts || matches!(operation, O::Add | O::Remove);
    let allowed = match apply_to {
        A::RouteConfiguration => merges,
        A::ExtensionConfig => operation == O::Add,
        A::Listener | A::FilterChain | A::Cluster => merges || places,
        A::VirtualHost | A::NetworkFilter | A::HttpFilter => {
            merges || places || operation == O::Replace
        }
        A::HttpRoute => merges || places,
        A::ListenerFilter => places || operation == O::Replace,
        A::Invalid | A::Bootstrap => false,
    };
    let ordered = matches!(
        apply_to,
        A::ListenerFilter | A::NetworkFilter | A::HttpFilter | A::HttpRoute
    );
    let operation = if inserts && !ordered {
        O::Add
    } else {
        operation
    };
    allowed.then_some(operation)
}

/// Members that a value that becomes part of the configuration on its own must have.
pub(super) fn required(apply_to: ApplyTo) -> &'static [&'static str] {
    match apply_to {
        ApplyTo::Listener => &["name", "address"],
        ApplyTo::FilterChain => &["filters"],
        ApplyTo::VirtualHost => &["name", "domains"],
        ApplyTo::HttpRoute => &["match"],
        ApplyTo::ExtensionConfig => &["name", "typed_config"],
        _ => &["name"],
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(ApplyTo::VirtualHost, Operation::InsertFirst, Some(Operation::Add))]
    #[case(ApplyTo::Cluster, Operation::InsertBefore, Some(Operation::Add))]
    #[case(
        ApplyTo::HttpRoute,
        Operation::InsertBefore,
        Some(Operation::InsertBefore)
    )]
    #[case(ApplyTo::HttpRoute, Operation::Replace, None)]
    #[case(ApplyTo::ListenerFilter, Operation::Merge, None)]
    #[case(ApplyTo::RouteConfiguration, Operation::Add, None)]
    #[case(ApplyTo::ExtensionConfig, Operation::Merge, None)]
    #[case(ApplyTo::HttpFilter, Operation::Invalid, None)]
    fn operations(
        #[case] apply_to: ApplyTo,
        #[case] given: Operation,
        #[case] expected: Option<Operation>,
    ) {
        assert_eq!(operation(apply_to, given), expected);
    }

    #[test]
    fn every_message_is_described() {
        for apply_to in (0..12).filter_map(|n| ApplyTo::try_from(n).ok()) {
            if let Some(name) = message(apply_to) {
                assert!(shared_proto::envoy::descriptor(name).is_ok(), "{name}");
            }
        }
    }
}
