//! Addresses of clients that a route lets in.

use std::net::IpAddr;

use shared_proto::networking::v1alpha3::{HttpRoute, IpAccessControl, http_filter::Filter};

/// True when no list of the route keeps the client out.
pub(super) fn lets_in(http: &HttpRoute, client: IpAddr) -> bool {
    http.route_http_filters.iter().all(|filter| {
        let Some(Filter::IpAccessControl(list)) = &filter.filter else {
            return true;
        };
        let IpAccessControl {
            remote_ip_blocks,
            not_remote_ip_blocks,
        } = list;
        let is_in = |blocks: &[String]| blocks.iter().any(|block| contains(block, client));
        match not_remote_ip_blocks.is_empty() {
            true => is_in(remote_ip_blocks),
            false => !is_in(not_remote_ip_blocks),
        }
    })
}

/// True when an address or CIDR block contains the address.
fn contains(block: &str, client: IpAddr) -> bool {
    let (address, length) = match block.split_once('/') {
        Some((address, length)) => (address, length.parse::<u32>().ok()),
        None => (block, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return false;
    };
    let (address, client, width) = match (address, client) {
        (IpAddr::V4(a), IpAddr::V4(c)) => (u32::from(a).into(), u32::from(c).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(c)) => (u128::from(a), u128::from(c), 128),
        _ => return false,
    };
    let ignored = width - length.unwrap_or(width).min(width);
    // Shifting by the whole width is more than the type can do.
    address.checked_shr(ignored).unwrap_or(0) == client.checked_shr(ignored).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("10.0.0.0/8", "10.1.2.3", true)]
    #[case("10.0.0.0/8", "11.1.2.3", false)]
    #[case("0.0.0.0/0", "11.1.2.3", true)]
    #[case("0.0.0.0/0", "::1", false)]
    #[case("::/0", "::1", true)]
    #[case("::1", "::1", true)]
    #[case("1.1.1.1", "1.1.1.2", false)]
    fn blocks(#[case] block: &str, #[case] client: &str, #[case] expected: bool) {
        assert_eq!(contains(block, client.parse().unwrap()), expected);
    }
}
