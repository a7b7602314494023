//! Client addresses that may come in, or may not.
//!
//! Fails closed: a list without an entry that can be read denies all. `*` and `0.0.0.0/0` stand for every address.

use std::net::IpAddr;

use serde_json::{Value, json};
use shared_proto::networking::v1alpha3::{
    HttpFilter, HttpRoute, IpAccessControl, http_filter::Filter,
};

use super::table::{ALLOWLIST_SOURCE_RANGE, DENYLIST_SOURCE_RANGE, Key, WHITELIST_SOURCE_RANGE};
use super::value::{self, ValueError};
use super::{Annotations, Problems};
use crate::model::{Reason, Semantics};
use crate::translate::ingress::filters::{message, typed_extension};

/// Names of the filters, part of the output. Filters of different names all have to let a request in.
const ALLOW_FILTER: &str = "ip-access-control";
const SECOND_ALLOW_FILTER: &str = "ip-access-control-allowlist";
const DENY_FILTER: &str = "ip-access-control-denylist";

/// Who may use a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceRange {
    /// Nobody may.
    nobody: bool,
    /// Lists of those who may; a client has to be on each.
    allowed: Vec<Vec<String>>,
    /// Those who may not.
    denied: Vec<String>,
}

enum List {
    Everybody,
    Blocks(Vec<String>),
}

/// Reads all lists.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<SourceRange> {
    if annotations.semantics() == Semantics::IngressNginx {
        return ingress_nginx(annotations, problems);
    }
    let mut range = SourceRange::default();
    for key in [&WHITELIST_SOURCE_RANGE, &ALLOWLIST_SOURCE_RANGE] {
        match list(annotations, key, problems) {
            Some(Ok(List::Everybody)) | None => {}
            Some(Ok(List::Blocks(blocks))) => range.allowed.push(blocks),
            Some(Err(Unusable)) => range.nobody = true,
        }
    }
    match list(annotations, &DENYLIST_SOURCE_RANGE, problems) {
        None => {}
        Some(Ok(List::Blocks(blocks))) => range.denied = blocks,
        Some(Ok(List::Everybody) | Err(Unusable)) => range.nobody = true,
    }
    range.allowed.dedup();
    (range != SourceRange::default()).then_some(range)
}

/// ingress-nginx: the newer key of the two for those who may come in counts alone, and one entry that cannot be read denies all.
fn ingress_nginx(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<SourceRange> {
    let mut range = SourceRange::default();
    let keys = [&ALLOWLIST_SOURCE_RANGE, &WHITELIST_SOURCE_RANGE];
    let mut present = keys.into_iter().filter(|key| annotations.has(key));
    if let Some(key) = present.next() {
        range.allowed.extend(all_blocks(annotations, key, problems));
    }
    if let Some(key) = present.next() {
        let message = format!(
            "{} takes precedence; remove one",
            ALLOWLIST_SOURCE_RANGE.name
        );
        problems.add(
            first_key(annotations, key),
            Reason::IneffectiveAnnotation,
            message,
        );
    }
    if annotations.has(&DENYLIST_SOURCE_RANGE) {
        let blocks = all_blocks(annotations, &DENYLIST_SOURCE_RANGE, problems);
        range.denied = blocks.unwrap_or_default();
    }
    (range != SourceRange::default()).then_some(range)
}

/// The entries of a list, when all can be read; else everybody is denied.
fn all_blocks(
    annotations: &Annotations<'_>,
    key: &Key,
    problems: &mut Problems,
) -> Option<Vec<String>> {
    let blocks = |raw: &str| {
        let text = value::line(raw)?;
        let items: Vec<String> = text.split(',').map(|item| item.trim().to_owned()).collect();
        match items.iter().find(|item| !is_block(item)) {
            None => Ok(items),
            Some(item) => {
                let why = "is neither an address nor a CIDR block; write 10.0.0.0/8 or 2001:db8::1";
                Err(ValueError::new(item, why))
            }
        }
    };
    let found = annotations.get(key, blocks, problems);
    if found.is_none() {
        let message = "the list has an entry that cannot be read";
        problems.deny(first_key(annotations, key), message);
    }
    found
}

/// The full key that is present.
fn first_key(annotations: &Annotations<'_>, key: &Key) -> &'static str {
    let present = |full: &&'static str| annotations.all().any(|(found, _)| found == *full);
    key.full().find(present).unwrap_or(key.higress)
}

/// Envoy's predicate for the addresses of a list.
fn is_in(list: &[String]) -> Value {
    let input = message(
        "envoy.extensions.matching.common_inputs.network.v3.SourceIPInput",
        json!({}),
    );
    let matcher = message(
        "envoy.extensions.matching.input_matchers.ip.v3.Ip",
        json!({"cidr_ranges": cidr_ranges(list), "stat_prefix": "source_range"}),
    );
    json!({"single_predicate": {
        "input": typed_extension("address", input),
        "custom_match": typed_extension("blocks", matcher),
    }})
}

/// No entry of the list can be used.
struct Unusable;

/// One list; `None` when the key is absent.
fn list(
    annotations: &Annotations<'_>,
    key: &Key,
    problems: &mut Problems,
) -> Option<Result<List, Unusable>> {
    if !annotations.has(key) {
        return None;
    }
    let Some(found) = annotations.find(key, value::list_or_star, problems) else {
        let message =
            "nobody is let in because the list is empty; write addresses, CIDR blocks or `*`";
        problems.add(
            key.full().next().unwrap_or(key.name),
            Reason::AccessDenied,
            message,
        );
        return Some(Err(Unusable));
    };
    let mut blocks = Vec::new();
    for entry in found.value {
        if entry == "*" || entry == "0.0.0.0/0" {
            return Some(Ok(List::Everybody));
        }
        if is_block(&entry) {
            blocks.push(entry);
        } else if !entry.is_empty() {
            let why = "is neither an address nor a CIDR block and is left out; write 10.0.0.0/8 or 2001:db8::1";
            problems.invalid(found.key, &ValueError::new(&entry, why));
        }
    }
    if blocks.is_empty() {
        let message =
            "nobody is let in because no entry can be read; write addresses, CIDR blocks or `*`";
        problems.add(found.key, Reason::AccessDenied, message);
        return Some(Err(Unusable));
    }
    Some(Ok(List::Blocks(blocks)))
}

pub(super) fn is_block(text: &str) -> bool {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return false;
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    length.is_none_or(|length| {
        let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
        digits && length.parse::<u8>().is_ok_and(|bits| bits <= most)
    })
}

/// Envoy's form of addresses and CIDR blocks.
pub(in crate::translate::ingress) fn cidr_ranges(blocks: &[String]) -> Value {
    let range = |block: &String| {
        let (address, length) = block.split_once('/').unwrap_or((block, ""));
        let whole = if address.contains(':') { 128 } else { 32 };
        json!({"address_prefix": address, "prefix_len": length.parse().unwrap_or(whole)})
    };
    blocks.iter().map(range).collect()
}

impl SourceRange {
    /// Envoy's predicate for clients that may use the route for their address alone; `None` when there are none.
    pub(super) fn inside(&self) -> Option<Value> {
        if self.nobody || self.allowed.is_empty() {
            return None;
        }
        let mut all: Vec<Value> = self.allowed.iter().map(|list| is_in(list)).collect();
        if !self.denied.is_empty() {
            all.push(json!({"not_matcher": is_in(&self.denied)}));
        }
        match all.as_slice() {
            [one] => Some(one.clone()),
            _ => Some(json!({"and_matcher": {"predicate": all}})),
        }
    }

    /// Adds the filters, or answers all requests when nobody may come in.
    pub(crate) fn apply(&self, http: &mut HttpRoute) {
        if self.nobody {
            super::traffic::forbid(http);
            return;
        }
        let mut add = |name: &str, control| {
            http.route_http_filters.push(HttpFilter {
                name: name.to_owned(),
                filter: Some(Filter::IpAccessControl(control)),
                ..HttpFilter::default()
            });
        };
        for (list, name) in self.allowed.iter().zip([ALLOW_FILTER, SECOND_ALLOW_FILTER]) {
            let control = IpAccessControl {
                remote_ip_blocks: list.clone(),
                ..IpAccessControl::default()
            };
            add(name, control);
        }
        if !self.denied.is_empty() {
            let control = IpAccessControl {
                not_remote_ip_blocks: self.denied.clone(),
                ..IpAccessControl::default()
            };
            add(DENY_FILTER, control);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{parsed, parsed_as};
    use super::*;
    use rstest::rstest;

    const WHITE: &str = "nginx.ingress.kubernetes.io/whitelist-source-range";
    const WHITE_HIGRESS: &str = "higress.io/whitelist-source-range";
    const ALLOW: &str = "nginx.ingress.kubernetes.io/allowlist-source-range";
    const DENY: &str = "nginx.ingress.kubernetes.io/denylist-source-range";

    /// `403`, or the filters as `name: +allowed -denied`.
    fn shown(range: Option<SourceRange>) -> String {
        let mut http = HttpRoute::default();
        if let Some(range) = range {
            range.apply(&mut http);
        }
        if let Some(answer) = http.direct_response {
            return answer.status.to_string();
        }
        let filters = http.route_http_filters.iter().map(|filter| {
            let Some(Filter::IpAccessControl(list)) = &filter.filter else {
                panic!("{filter:?}");
            };
            let (wanted, unwanted) = (&list.remote_ip_blocks, &list.not_remote_ip_blocks);
            format!("+{} -{}", wanted.join(" "), unwanted.join(" "))
        });
        filters.collect::<Vec<_>>().join(", ")
    }

    #[rstest]
    #[case(&[], "", 0)]
    #[case(&[(WHITE, "10.0.0.0/8, 1.1.1.1")], "+10.0.0.0/8 1.1.1.1 -", 0)]
    #[case(&[(WHITE_HIGRESS, "::1, 2001:db8::/32")], "+::1 2001:db8::/32 -", 0)]
    #[case::star(&[(WHITE, "*")], "", 0)]
    #[case::star_takes_all(&[(WHITE, "10.0.0.0/8, *")], "", 0)]
    #[case::all_addresses(&[(WHITE, "0.0.0.0/0,::/0")], "", 0)]
    #[case::some_invalid(&[(WHITE, "10.0.0.0/8,x,10.0.0.0/33")], "+10.0.0.0/8 -", 2)]
    #[case::none_valid(&[(WHITE, "x")], "403", 2)]
    #[case::commas(&[(WHITE, ",,")], "403", 1)]
    #[case::empty(&[(WHITE, "")], "403", 2)]
    #[case::higress_after_empty(&[(WHITE, " "), (WHITE_HIGRESS, "1.1.1.1")], "+1.1.1.1 -", 1)]
    #[case::signed_length(&[(WHITE, "10.0.0.0/+8")], "403", 2)]
    #[case::both_lists(&[(WHITE, "1.1.1.1"), (ALLOW, "2.2.2.2")], "+1.1.1.1 -, +2.2.2.2 -", 0)]
    #[case::equal_lists(&[(WHITE, "1.1.1.1"), (ALLOW, "1.1.1.1")], "+1.1.1.1 -", 0)]
    #[case::denied(&[(DENY, "1.1.1.1,2.2.2.0/24")], "+ -1.1.1.1 2.2.2.0/24", 0)]
    #[case::denied_and_allowed(&[(DENY, "1.1.1.1"), (WHITE, "1.1.1.0/24")], "+1.1.1.0/24 -, + -1.1.1.1", 0)]
    #[case::all_denied(&[(DENY, "*")], "403", 0)]
    #[case::denied_unreadable(&[(DENY, "somebody")], "403", 2)]
    fn lists(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &str,
        #[case] problems: usize,
    ) {
        let (range, found) = parsed(annotations, parse);
        assert_eq!(shown(range), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }

    #[rstest]
    #[case(&[(WHITE, "10.0.0.0/8, 1.1.1.1")], "+10.0.0.0/8 1.1.1.1 -", 0)]
    #[case::all_of_version_4(&[(WHITE, "0.0.0.0/0")], "+0.0.0.0/0 -", 0)]
    #[case::newer_key(&[(WHITE, "1.1.1.1"), (ALLOW, "2.2.2.2")], "+2.2.2.2 -", 1)]
    #[case::both_sorts(&[(DENY, "1.1.1.1"), (ALLOW, "1.1.1.0/24")], "+1.1.1.0/24 -, + -1.1.1.1", 0)]
    #[case::one_invalid(&[(WHITE, "10.0.0.0/8,x")], "", 2)]
    #[case::star(&[(WHITE, "*")], "", 2)]
    #[case::empty(&[(DENY, "")], "", 2)]
    fn lists_of_ingress_nginx(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &str,
        #[case] problems: usize,
    ) {
        let (range, found) = parsed_as(Semantics::IngressNginx, annotations, parse);
        assert_eq!(shown(range), expected);
        assert_eq!(found.len(), problems, "{found:?}");
        let closed = found.iter().any(|p| p.reason == Reason::AccessDenied);
        assert_eq!(closed, problems == 2);
    }
}
