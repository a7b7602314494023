//! What the status of an Ingress should be: a pure function.

use std::collections::BTreeSet;

use super::address::Address;
use super::facts::Present;

/// What is to be done about the status of one Ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It is right, or none of our business.
    Nothing,
    /// It has to name the gateway.
    Write,
    /// It names the gateway, which does not serve it any more.
    Clear,
}

/// Decides. Without any address nothing is written: a gateway whose Service is away for a moment has not moved. What
/// others wrote is never cleared.
pub(super) fn wanted(present: &Present, served: bool, gateway: &BTreeSet<Address>) -> Wanted {
    if served {
        if gateway.is_empty() || present.addresses == *gateway {
            Wanted::Nothing
        } else {
            Wanted::Write
        }
    } else if present.ours && !present.addresses.is_empty() {
        Wanted::Clear
    } else {
        Wanted::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn addresses(list: &[&str]) -> BTreeSet<Address> {
        let address = |ip: &&str| Address {
            ip: Some((*ip).to_owned()),
            hostname: None,
        };
        list.iter().map(address).collect()
    }

    #[rstest::rstest]
    #[case::new(&[], false, true, &["1"], Wanted::Write)]
    #[case::right(&["1"], true, true, &["1"], Wanted::Nothing)]
    #[case::right_by_others(&["1"], false, true, &["1"], Wanted::Nothing)]
    #[case::moved(&["1"], true, true, &["2"], Wanted::Write)]
    #[case::no_gateway(&["1"], true, true, &[], Wanted::Nothing)]
    #[case::left(&["1"], true, false, &["1"], Wanted::Clear)]
    #[case::left_without_gateway(&["1"], true, false, &[], Wanted::Clear)]
    #[case::others(&["1"], false, false, &["1"], Wanted::Nothing)]
    #[case::cleared(&[], true, false, &["1"], Wanted::Nothing)]
    fn decisions(
        #[case] now: &[&str],
        #[case] ours: bool,
        #[case] served: bool,
        #[case] gateway: &[&str],
        #[case] expected: Wanted,
    ) {
        let present = Present {
            uid: Arc::from("u"),
            version: String::new(),
            addresses: addresses(now),
            ours,
        };
        assert_eq!(wanted(&present, served, &addresses(gateway)), expected);
    }
}
