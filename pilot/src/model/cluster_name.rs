//! Names of the clusters of services, which users refer to in EnvoyFilters.

/// `outbound|<port>|<subset>|<hostname>`: cluster, and the service name of its endpoints.
#[must_use]
pub fn cluster_name(port: u16, subset: &str, hostname: &str) -> String {
    format!("outbound|{port}|{subset}|{hostname}")
}

/// Takes a cluster name apart into port, subset and hostname.
#[must_use]
pub fn parse_cluster_name(name: &str) -> Option<(u16, &str, &str)> {
    let mut parts = name.strip_prefix("outbound|")?.splitn(3, '|');
    let port = parts.next()?.parse().ok()?;
    let subset = parts.next()?;
    let hostname = parts.next().filter(|host| !host.is_empty())?;
    Some((port, subset, hostname))
}
