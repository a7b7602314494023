//! ECDS: the scope filter, which finds the scope of a request that matched no route.
//!
//! A connection manager selects routes by the scope key `<port>.<host>`, taken from the request
//! header [`names::SCOPE_HEADER`] that Envoy itself overwrites at the start of every request. That
//! finds exact hosts in lower case. For the rest this filter runs a short script: it tries the
//! host in lower case, then the known wildcard hosts from the most specific to `*`, until a route
//! matches or as many were tried as [`runs`] allows. Known wildcard hosts are a table in the script, so a
//! new one changes this resource alone and no listener.

use std::fmt::Write as _;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3 as lua;

use super::{names, proto};

/// How often the filter has to run for one request. Each run tries two scopes, since Envoy looks a
/// route up anew once per run; or one when the scope header says that a fetch of its routes follows
/// ([`names::SCOPE_ON_DEMAND`]). When none of them has a route, the request has none.
#[must_use]
pub fn runs(on_demand: bool) -> usize {
    if on_demand { 4 } else { 2 }
}

/// The scope filter of a port. `wildcard_hosts` (`*` or `*.example.com`) may come in any order;
/// what does not begin with `*` is of no use to it and is left out.
#[must_use]
pub fn scope_filter<'a>(
    port: u16,
    wildcard_hosts: impl IntoIterator<Item = &'a str>,
) -> core::TypedExtensionConfig {
    let mut hosts: Vec<&str> = wildcard_hosts
        .into_iter()
        .filter(|host| host.starts_with('*'))
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    let filter = lua::Lua {
        default_source_code: Some(core::DataSource {
            specifier: Some(core::data_source::Specifier::InlineString(script(
                port, &hosts,
            ))),
            ..Default::default()
        }),
        ..Default::default()
    };
    core::TypedExtensionConfig {
        name: names::scope_filter_name(port),
        typed_config: Some(proto::any(&filter)),
    }
}

/// Type URL of the filter, for the listener that asks for it.
#[must_use]
pub fn scope_filter_type_url() -> String {
    <lua::Lua as prost::Name>::type_url()
}

fn script(port: u16, hosts: &[&str]) -> String {
    let mut table = String::new();
    for host in hosts {
        // Writing to a String does not fail.
        let _ = writeln!(table, "  [{}]=true,", quote(host));
    }
    SCRIPT
        .replace("@HEADER@", &quote(names::SCOPE_HEADER))
        .replace("@PREFIX@", &quote(&names::scope_name(port, "")))
        .replace("@ON_DEMAND@", &quote(names::SCOPE_ON_DEMAND))
        .replace("@HOSTS@", &table)
}

/// A Lua string literal; everything but plain host characters is written as a number.
fn quote(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"*.-_".contains(&byte) {
            literal.push(char::from(byte));
        } else {
            let _ = write!(literal, "\\{byte:03}");
        }
    }
    literal.push('"');
    literal
}

const SCRIPT: &str = include_str!("scope.lua");

#[cfg(test)]
mod tests {
    use super::*;

    fn code(filter: &core::TypedExtensionConfig) -> String {
        let any = filter.typed_config.as_ref().unwrap();
        let lua: lua::Lua = prost::Message::decode(any.value.as_slice()).unwrap();
        match lua.default_source_code.unwrap().specifier.unwrap() {
            core::data_source::Specifier::InlineString(code) => code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn order_and_duplicates_do_not_matter() {
        let one = scope_filter(80, ["*", "*.b.c", "*.a.b.c", "*", "exact.host"]);
        let two = scope_filter(80, ["*.a.b.c", "*", "*.b.c"]);
        assert_eq!(one, two);
        assert_eq!(one.name, "isthmus.scope.80");
    }

    #[test]
    fn hosts_cannot_break_out_of_the_table() {
        let text = code(&scope_filter(80, ["*\"] = os.exit() --[[\n"]));
        assert!(
            text.contains(r#"["*\034\093\032\061\032os.exit\040\041\032--\091\091\010"]=true"#)
        );
    }
}
