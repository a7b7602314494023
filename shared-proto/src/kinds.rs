//! The table of configuration kinds: one row per kind, everything else is derived from it.
//!
//! A kind travels under several type URLs (`networking.istio.io/v1alpha3/Gateway` to older peers,
//! `networking.istio.io/v1/Gateway` to newer ones) while the message inside is always the same.

use std::fmt;

use bytes::Bytes;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::istio::extensions::v1alpha1 as extensions;
use crate::istio::networking::{v1alpha3 as networking, v1beta1 as networking_v1beta1};
use crate::istio::security::v1beta1 as security;
use crate::istio::telemetry::v1alpha1 as telemetry;

/// A message that can be the spec of a config.
pub trait SpecMessage: Message + prost::Name + Serialize + DeserializeOwned + Default {
    /// The kind whose spec this is.
    const KIND: Kind;

    /// The message inside `spec`, if that is of this kind.
    fn from_spec(spec: &Spec) -> Option<&Self>;
}

/// Declares [`Kind`] and [`Spec`] from rows of
/// `Kind = message, group, plural, [version to print, other accepted versions]`.
macro_rules! kinds {
    ($($kind:ident = $message:ty, $group:literal, $plural:literal, [$first:literal $(, $other:literal)*];)*) => {
        /// A kind of configuration object. The order is alphabetical.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = concat!("`", $group, "` ", stringify!($kind), ".")] $kind,)*
        }

        impl Kind {
            /// All kinds, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            const fn row(self) -> Row {
                match self {
                    $(Self::$kind => Row {
                        name: stringify!($kind),
                        group: $group,
                        plural: $plural,
                        api_version: concat!($group, "/", $first),
                        versions: &[$first $(, $other)*],
                        type_urls: &[
                            concat!($group, "/", $first, "/", stringify!($kind)),
                            $(concat!($group, "/", $other, "/", stringify!($kind)),)*
                        ],
                    },)*
                }
            }

            /// Type URL of the message inside the envelope, for example
            /// `type.googleapis.com/istio.networking.v1alpha3.Gateway`.
            #[must_use]
            pub fn body_type_url(self) -> String {
                match self {
                    $(Self::$kind => <$message as prost::Name>::type_url(),)*
                }
            }

            /// The kind that is carried in a message with this type URL.
            #[must_use]
            pub fn from_body_type_url(type_url: &str) -> Option<Self> {
                let full_name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
                match full_name {
                    $(name if is_name_of::<$message>(name) => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }

        /// The content of a config: a message of one of the kinds.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Spec {
            $(#[doc = concat!("Spec of a ", stringify!($kind), ".")] $kind(Box<$message>),)*
        }

        impl Spec {
            /// The kind of this spec.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            /// The protobuf encoding of the message.
            #[must_use]
            pub fn encode(&self) -> Bytes {
                match self { $(Self::$kind(message) => message.encode_to_vec().into(),)* }
            }

            /// Reads the protobuf encoding of a message of `kind`; unknown fields are skipped.
            ///
            /// # Errors
            /// When the bytes are no such message.
            pub fn decode(kind: Kind, body: Bytes) -> Result<Self, prost::DecodeError> {
                Ok(match kind {
                    $(Kind::$kind => Self::$kind(Box::new(<$message>::decode(body)?)),)*
                })
            }

            pub(crate) fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$kind(message) => message.serialize(serializer),)* }
            }

            pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
                kind: Kind,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                Ok(match kind {
                    $(Kind::$kind => Self::$kind(Box::new(
                        <$message as serde::Deserialize>::deserialize(deserializer)?,
                    )),)*
                })
            }
        }

        $(
            impl SpecMessage for $message {
                const KIND: Kind = Kind::$kind;

                fn from_spec(spec: &Spec) -> Option<&Self> {
                    match spec {
                        Spec::$kind(message) => Some(message),
                        _ => None,
                    }
                }
            }

            impl From<$message> for Spec {
                fn from(message: $message) -> Self {
                    Self::$kind(Box::new(message))
                }
            }
        )*
    };
}

kinds! {
    AuthorizationPolicy = security::AuthorizationPolicy,
        "security.istio.io", "authorizationpolicies", ["v1beta1", "v1"];
    DestinationRule = networking::DestinationRule,
        "networking.istio.io", "destinationrules", ["v1alpha3", "v1beta1", "v1"];
    EnvoyFilter = networking::EnvoyFilter,
        "networking.istio.io", "envoyfilters", ["v1alpha3"];
    Gateway = networking::Gateway,
        "networking.istio.io", "gateways", ["v1alpha3", "v1beta1", "v1"];
    PeerAuthentication = security::PeerAuthentication,
        "security.istio.io", "peerauthentications", ["v1beta1", "v1"];
    ProxyConfig = networking_v1beta1::ProxyConfig,
        "networking.istio.io", "proxyconfigs", ["v1beta1"];
    RequestAuthentication = security::RequestAuthentication,
        "security.istio.io", "requestauthentications", ["v1beta1", "v1"];
    ServiceEntry = networking::ServiceEntry,
        "networking.istio.io", "serviceentries", ["v1alpha3", "v1beta1", "v1"];
    Sidecar = networking::Sidecar,
        "networking.istio.io", "sidecars", ["v1alpha3", "v1beta1", "v1"];
    Telemetry = telemetry::Telemetry,
        "telemetry.istio.io", "telemetries", ["v1alpha1", "v1"];
    TrafficExtension = extensions::TrafficExtension,
        "extensions.istio.io", "trafficextensions", ["v1alpha1"];
    VirtualService = networking::VirtualService,
        "networking.istio.io", "virtualservices", ["v1alpha3", "v1beta1", "v1"];
    WasmPlugin = extensions::WasmPlugin,
        "extensions.istio.io", "wasmplugins", ["v1alpha1"];
    WorkloadEntry = networking::WorkloadEntry,
        "networking.istio.io", "workloadentries", ["v1alpha3", "v1beta1", "v1"];
    WorkloadGroup = networking::WorkloadGroup,
        "networking.istio.io", "workloadgroups", ["v1alpha3", "v1beta1", "v1"];
}

/// Facts of one kind.
struct Row {
    name: &'static str,
    group: &'static str,
    plural: &'static str,
    api_version: &'static str,
    versions: &'static [&'static str],
    type_urls: &'static [&'static str],
}

impl Kind {
    /// Name as in `kind:` of a manifest, for example `VirtualService`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// API group, for example `networking.istio.io`.
    #[must_use]
    pub const fn group(self) -> &'static str {
        self.row().group
    }

    /// Plural resource name, for example `virtualservices`.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        self.row().plural
    }

    /// `apiVersion:` to print in a manifest, for example `networking.istio.io/v1alpha3`.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        self.row().api_version
    }

    /// MCP type URL that Higress uses, for example `networking.istio.io/v1alpha3/VirtualService`.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        self.row().type_urls[0]
    }

    /// All accepted MCP type URLs, the one of [`Kind::type_url`] first.
    #[must_use]
    pub const fn type_urls(self) -> &'static [&'static str] {
        self.row().type_urls
    }

    /// The kind that an MCP type URL asks for, in any accepted version.
    #[must_use]
    pub fn from_type_url(type_url: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.type_urls().contains(&type_url))
    }

    /// The kind of a manifest, in any accepted version.
    #[must_use]
    pub fn from_gvk(group: &str, version: &str, name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| {
            let row = kind.row();
            row.name == name && row.group == group && row.versions.contains(&version)
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Spec {
    /// The message, if it is a `T`.
    #[must_use]
    pub fn get<T: SpecMessage>(&self) -> Option<&T> {
        T::from_spec(self)
    }
}

/// Compares without building the full name.
fn is_name_of<M: prost::Name>(name: &str) -> bool {
    name.strip_prefix(M::PACKAGE)
        .and_then(|rest| rest.strip_prefix('.'))
        == Some(M::NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_type_url_finds_its_kind() {
        for &kind in Kind::ALL {
            for url in kind.type_urls() {
                assert_eq!(Kind::from_type_url(url), Some(kind));
                let (group_version, name) = url.rsplit_once('/').unwrap();
                let (group, version) = group_version.split_once('/').unwrap();
                assert_eq!(Kind::from_gvk(group, version, name), Some(kind));
            }
            assert_eq!(Kind::from_body_type_url(&kind.body_type_url()), Some(kind));
        }
    }

    #[test]
    fn known_spellings() {
        for (url, kind) in [
            (
                "networking.istio.io/v1alpha3/VirtualService",
                Kind::VirtualService,
            ),
            (
                "networking.istio.io/v1/VirtualService",
                Kind::VirtualService,
            ),
            ("networking.istio.io/v1beta1/ProxyConfig", Kind::ProxyConfig),
            (
                "security.istio.io/v1/AuthorizationPolicy",
                Kind::AuthorizationPolicy,
            ),
            ("telemetry.istio.io/v1alpha1/Telemetry", Kind::Telemetry),
            ("extensions.istio.io/v1alpha1/WasmPlugin", Kind::WasmPlugin),
        ] {
            assert_eq!(Kind::from_type_url(url), Some(kind));
        }
        for url in [
            "core/v1alpha1/MeshConfig",
            "networking.istio.io/v1/EnvoyFilter",
            "",
        ] {
            assert_eq!(Kind::from_type_url(url), None);
        }
        assert_eq!(
            Kind::Gateway.body_type_url(),
            "type.googleapis.com/istio.networking.v1alpha3.Gateway"
        );
    }

    #[test]
    fn names_are_sorted_and_unique() {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert!(names.is_sorted_by(|a, b| a < b));
    }
}
