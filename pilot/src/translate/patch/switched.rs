//! HTTP filters that are off until a route switches them on (`disabled: true`), with scoped routes.
//!
//! Envoy chooses the filters of a request when it arrives, by the route that it has then. With scoped routes a request to
//! a wildcard host, or with capitals in its host, has none yet: the scope filter finds it. So a filter that is off would
//! stay off, and a check of who may enter would be left out. Here such a filter is always in the chain, inside of one that
//! asks the route at the moment when the request gets there: routes say which filters they switch on in their metadata.

use std::collections::BTreeSet;

use bytes::Bytes;
use envoy_types::pb::cel::expr as cel;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::common::matching::v3::ExtensionWithMatcher;
use envoy_types::pb::envoy::extensions::filters::common::matcher::action::v3::SkipFilter;
use envoy_types::pb::google::protobuf;
use envoy_types::pb::xds::core::v3 as xds_core;
use envoy_types::pb::xds::r#type::matcher::v3 as xds;
use envoy_types::pb::xds::r#type::v3::CelExpression;
use prost::Message;
use serde_json::{Map, Value, json};
use shared_proto::envoy::{self, UnknownFields};

use cel::expr::{Call, ExprKind, Ident, Select};
use xds::matcher::matcher_list::{FieldMatcher, Predicate, predicate};
use xds::matcher::{MatcherList, MatcherType, OnMatch, on_match};

use super::fields::Fields;
use super::merge::{self, Lists};
use super::types;
use crate::translate::names::SWITCHED_FILTERS;
use crate::translate::proto;

/// Fields of an HTTP filter.
const NAME: u32 = 1;
const TYPED_CONFIG: u32 = 4;
const DISABLED: u32 = 7;

/// `typed_per_filter_config` of a route.
pub(super) const OF_ROUTE: u32 = 13;
/// `typed_per_filter_config` of a virtual host.
pub(super) const OF_VIRTUAL_HOST: u32 = 15;
/// `typed_per_filter_config` of a route configuration.
pub(super) const OF_ROUTES: u32 = 16;

/// `xds.type.matcher.v3.CelMatcher`.
#[derive(Clone, PartialEq, prost::Message)]
struct CelMatcher {
    #[prost(message, optional, tag = "1")]
    expr_match: Option<CelExpression>,
}

/// The filter as it is put in the chain. `before` are the filters that were there without patches: they do nothing until a
/// route configures them, so that nothing has to be switched.
pub(super) fn filter(filter: &Bytes, before: &[Bytes]) -> Bytes {
    let Ok(mut fields) = Fields::parse(filter) else {
        return filter.clone();
    };
    if !fields.contains(DISABLED) {
        return filter.clone();
    }
    let generated = |other: &Bytes| {
        Fields::parse(other).is_ok_and(|other| {
            other.text(NAME) == fields.text(NAME)
                && other.message(TYPED_CONFIG) == fields.message(TYPED_CONFIG)
        })
    };
    if before.iter().any(generated) {
        fields.remove(DISABLED);
        return fields.encode();
    }
    let config = fields.message(TYPED_CONFIG);
    let config = config.and_then(|config| protobuf::Any::decode(config).ok());
    // Settings that are discovered cannot be put into something.
    let Some(config) = config else {
        return filter.clone();
    };
    let wrapped = proto::any(&inside(fields.text(NAME), config));
    fields.set_list(TYPED_CONFIG, vec![wrapped.encode_to_vec().into()]);
    fields.remove(DISABLED);
    fields.encode()
}

/// Whether a filter is off and its settings come from elsewhere: then it cannot be switched on for every request.
pub(super) fn is_stuck(filter: &Bytes) -> bool {
    Fields::parse(filter).is_ok_and(|f| f.contains(DISABLED) && !f.contains(TYPED_CONFIG))
}

fn inside(name: &str, config: protobuf::Any) -> ExtensionWithMatcher {
    ExtensionWithMatcher {
        xds_matcher: Some(skip_unless(is_switched_on(name))),
        extension_config: Some(core::TypedExtensionConfig {
            name: name.to_owned(),
            typed_config: Some(config),
        }),
        ..Default::default()
    }
}

fn skip_unless(condition: cel::Expr) -> xds::Matcher {
    use predicate::{MatchType, SinglePredicate, single_predicate::Matcher};
    let condition = CelMatcher {
        expr_match: Some(CelExpression {
            cel_expr_parsed: Some(cel::ParsedExpr {
                expr: Some(condition),
                source_info: None,
            }),
            ..Default::default()
        }),
    };
    let holds = SinglePredicate {
        input: Some(extension(
            "attributes",
            "xds.type.matcher.v3.HttpAttributesCelMatchInput",
            Vec::new(),
        )),
        matcher: Some(Matcher::CustomMatch(extension(
            "envoy.matching.matchers.cel_matcher",
            "xds.type.matcher.v3.CelMatcher",
            condition.encode_to_vec(),
        ))),
    };
    let holds = Predicate {
        match_type: Some(MatchType::SinglePredicate(holds)),
    };
    let skip = extension(
        "skip",
        "envoy.extensions.filters.common.matcher.action.v3.SkipFilter",
        SkipFilter {}.encode_to_vec(),
    );
    let rule = FieldMatcher {
        predicate: Some(Predicate {
            match_type: Some(MatchType::NotMatcher(Box::new(holds))),
        }),
        on_match: Some(OnMatch {
            on_match: Some(on_match::OnMatch::Action(skip)),
            ..Default::default()
        }),
    };
    xds::Matcher {
        matcher_type: Some(MatcherType::MatcherList(MatcherList {
            matchers: vec![rule],
        })),
        ..Default::default()
    }
}

/// `xds.route_metadata.filter_metadata["isthmus.filters"]["<name>"]`. Where there is no such member it is an error, which
/// counts as false.
fn is_switched_on(name: &str) -> cel::Expr {
    let mut last = 0;
    let mut expression = |kind: ExprKind| {
        last += 1;
        cel::Expr {
            id: last,
            expr_kind: Some(kind),
        }
    };
    let mut path = expression(ExprKind::IdentExpr(Ident {
        name: "xds".to_owned(),
    }));
    for field in ["route_metadata", "filter_metadata"] {
        path = expression(ExprKind::SelectExpr(Box::new(Select {
            operand: Some(Box::new(path)),
            field: field.to_owned(),
            test_only: false,
        })));
    }
    for key in [SWITCHED_FILTERS, name] {
        let key = cel::constant::ConstantKind::StringValue(key.to_owned());
        let key = expression(ExprKind::ConstExpr(cel::Constant {
            constant_kind: Some(key),
        }));
        path = expression(ExprKind::CallExpr(Box::new(Call {
            target: None,
            function: "_[_]".to_owned(),
            args: vec![path, key],
        })));
    }
    path
}

fn extension(name: &str, message: &str, value: Vec<u8>) -> xds_core::TypedExtensionConfig {
    xds_core::TypedExtensionConfig {
        name: name.to_owned(),
        typed_config: Some(protobuf::Any {
            type_url: format!("type.googleapis.com/{message}"),
            value,
        }),
    }
}

/// Names of the filters that settings of a route, virtual host or route configuration switch on, beside those that are on
/// already, and without those that they switch off.
pub(super) fn switched_on(
    message: &Bytes,
    field: u32,
    outer: &BTreeSet<String>,
) -> BTreeSet<String> {
    const KEY: u32 = 1;
    const VALUE: u32 = 2;
    let mut on = outer.clone();
    let settings = Fields::parse(message).map(|fields| fields.list(field));
    for entry in settings.unwrap_or_default() {
        let Ok(entry) = Fields::parse(&entry) else {
            continue;
        };
        let name = entry.text(KEY).to_owned();
        let value = entry.message(VALUE).unwrap_or_default();
        if is_off(value) {
            on.remove(&name);
        } else {
            on.insert(name);
        }
    }
    on
}

/// Whether settings of a filter say no more than that it is off.
fn is_off(settings: Bytes) -> bool {
    use envoy_types::pb::envoy::config::route::v3::FilterConfig;
    let any = protobuf::Any::decode(settings).unwrap_or_default();
    any.type_url == <FilterConfig as prost::Name>::type_url()
        && FilterConfig::decode(any.value.as_slice()).is_ok_and(|config| config.disabled)
}

/// The route with the filters that are on for it in its metadata.
pub(super) fn with_metadata(route: Bytes, on: &BTreeSet<String>) -> Bytes {
    if on.is_empty() {
        return route;
    }
    let filters: Map<String, Value> = on.iter().map(|name| (name.clone(), true.into())).collect();
    let patch = json!({ "metadata": { "filter_metadata": { SWITCHED_FILTERS: filters } } });
    let marked = envoy::descriptor(types::ROUTE).and_then(|message| {
        let patch = envoy::json_to_message(types::ROUTE, &patch, UnknownFields::Deny)?;
        Ok(merge::merge(&message, &route, &patch.into(), Lists::Append))
    });
    match marked {
        Ok(Ok(marked)) => marked,
        // The patch is well-formed and so is the route: it was merged into or made by us.
        _ => route,
    }
}
