//! Small constructors for the protobuf shapes that Envoy messages repeat.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use envoy_types::pb::envoy::r#type::v3 as envoy_type;
use envoy_types::pb::google::protobuf;

/// Packs a message with its type URL.
pub(crate) fn any<M: prost::Message + prost::Name>(message: &M) -> protobuf::Any {
    protobuf::Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

/// A duration; cut to a hundred years: Envoy refuses what it cannot count in nanoseconds.
pub(crate) fn duration(value: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(value.as_secs()).map_or(MAX_SECONDS, |s| s.min(MAX_SECONDS)),
        nanos: i32::try_from(value.subsec_nanos()).unwrap_or(0),
    }
}

const MAX_SECONDS: i64 = 3_155_760_000;

/// A duration of whole seconds.
pub(crate) fn seconds(value: u64) -> protobuf::Duration {
    duration(Duration::from_secs(value))
}

/// Wrapped boolean.
pub(crate) fn boolean(value: bool) -> protobuf::BoolValue {
    protobuf::BoolValue { value }
}

/// Wrapped unsigned number.
pub(crate) fn uint(value: u32) -> protobuf::UInt32Value {
    protobuf::UInt32Value { value }
}

/// Wrapped large unsigned number.
pub(crate) fn uint64(value: u64) -> protobuf::UInt64Value {
    protobuf::UInt64Value { value }
}

/// "Ask the stream this came over", without giving up after a time.
pub(crate) fn ads() -> core::ConfigSource {
    core::ConfigSource {
        initial_fetch_timeout: Some(seconds(0)),
        ..ads_with_timeout()
    }
}

/// "Ask the stream this came over", going on without an answer after Envoy's default of 15 s.
pub(crate) fn ads_with_timeout() -> core::ConfigSource {
    core::ConfigSource {
        resource_api_version: core::ApiVersion::V3.into(),
        config_source_specifier: Some(core::config_source::ConfigSourceSpecifier::Ads(
            core::AggregatedConfigSource {},
        )),
        ..Default::default()
    }
}

/// TCP address and port.
pub(crate) fn socket_address(address: &str, port: u16) -> core::Address {
    core::Address {
        address: Some(core::address::Address::SocketAddress(core::SocketAddress {
            address: address.to_owned(),
            port_specifier: Some(core::socket_address::PortSpecifier::PortValue(port.into())),
            ..Default::default()
        })),
    }
}

/// Whole-string match by an expression that was checked before.
pub(crate) fn regex(expression: &str) -> matcher::RegexMatcher {
    matcher::RegexMatcher {
        regex: expression.to_owned(),
        ..Default::default()
    }
}

/// String matcher of one pattern.
pub(crate) fn string_match(
    pattern: matcher::string_matcher::MatchPattern,
) -> matcher::StringMatcher {
    matcher::StringMatcher {
        match_pattern: Some(pattern),
        ..Default::default()
    }
}

/// A percentage (0 to 100, finite) as parts of a million; out of range is cut.
pub(crate) fn percent(value: f64) -> envoy_type::FractionalPercent {
    let millionths = (value * 10_000.0).round().clamp(0.0, 1_000_000.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let numerator = millionths as u32;
    envoy_type::FractionalPercent {
        numerator,
        denominator: envoy_type::fractional_percent::DenominatorType::Million.into(),
    }
}

/// Every request.
pub(crate) fn hundred_percent() -> envoy_type::FractionalPercent {
    envoy_type::FractionalPercent {
        numerator: 100,
        denominator: envoy_type::fractional_percent::DenominatorType::Hundred.into(),
    }
}

/// Metadata `istio: {config: <path>}`: the object that something was generated from.
pub(crate) fn origin_metadata(path: String) -> core::Metadata {
    let text = protobuf::Value {
        kind: Some(protobuf::value::Kind::StringValue(path)),
    };
    let fields = protobuf::Struct {
        fields: [("config".to_owned(), text)].into(),
    };
    core::Metadata {
        filter_metadata: [("istio".to_owned(), fields)].into(),
        ..Default::default()
    }
}
