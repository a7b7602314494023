//! How the endpoint for a request is chosen.

use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::r#type::v3 as envoy_type;
use shared_proto::networking::v1alpha3 as istio;

use cluster::cluster::{LbConfig, LbPolicy, MaglevLbConfig, RingHashLbConfig, SlowStartConfig};
use istio::LoadBalancerSettings;
use istio::load_balancer_settings::{
    ConsistentHashLb, LbPolicy as Setting, SimpleLb, consistent_hash_lb::HashAlgorithm,
};

use crate::translate::issue::Reason;
use crate::translate::proto;
use crate::translate::report::{Problem, Report, positive};

/// Smallest ring when none is given.
const RING_SIZE: u64 = 1024;
/// Largest ring that Envoy takes.
const MAX_RING_SIZE: u64 = 8 * 1024 * 1024;
/// Largest Maglev table that Envoy takes.
const MAX_TABLE_SIZE: u64 = 5_000_011;

/// Sets what the user chose; anything that cannot be served leaves the default.
pub(super) fn apply(
    settings: &LoadBalancerSettings,
    result: &mut cluster::Cluster,
    report: &mut Report<'_>,
) {
    let slow_start = slow_start(settings, report);
    match &settings.lb_policy {
        None => least_request(slow_start, result),
        Some(Setting::Simple(simple)) => match SimpleLb::try_from(*simple) {
            Ok(SimpleLb::RoundRobin) => round_robin(slow_start, result),
            Ok(SimpleLb::Random) => result.lb_policy = LbPolicy::Random.into(),
            Ok(SimpleLb::Unspecified | SimpleLb::LeastConn | SimpleLb::LeastRequest) => {
                least_request(slow_start, result);
            }
            Ok(SimpleLb::Passthrough) => report.add(left_out("loadBalancer PASSTHROUGH")),
            Err(_) => report.add(left_out(&format!("loadBalancer {simple}"))),
        },
        Some(Setting::ConsistentHash(hash)) => consistent_hash(hash, result, report),
        Some(Setting::BackendUtilization(_)) => {
            report.add(left_out("loadBalancer backendUtilization"));
        }
    }
    let locality = settings.locality_lb_setting.as_ref();
    if locality.is_some_and(|set| {
        !set.distribute.is_empty() || !set.failover.is_empty() || !set.failover_priority.is_empty()
    }) {
        report.add(left_out("localityLbSetting"));
    }
    if settings.zone_aware_lb_setting.is_some() {
        report.add(left_out("zoneAwareLbSetting"));
    }
}

fn left_out(what: &str) -> Problem {
    Problem::new(
        Reason::Unsupported,
        format!("{what} is not served; it is left out"),
    )
}

fn least_request(slow_start: Option<SlowStartConfig>, result: &mut cluster::Cluster) {
    result.lb_policy = LbPolicy::LeastRequest.into();
    result.lb_config = slow_start.map(|slow_start| {
        LbConfig::LeastRequestLbConfig(cluster::cluster::LeastRequestLbConfig {
            slow_start_config: Some(slow_start),
            ..Default::default()
        })
    });
}

fn round_robin(slow_start: Option<SlowStartConfig>, result: &mut cluster::Cluster) {
    result.lb_policy = LbPolicy::RoundRobin.into();
    result.lb_config = slow_start.map(|slow_start| {
        LbConfig::RoundRobinLbConfig(cluster::cluster::RoundRobinLbConfig {
            slow_start_config: Some(slow_start),
        })
    });
}

/// New endpoints get their share little by little.
fn slow_start(settings: &LoadBalancerSettings, report: &mut Report<'_>) -> Option<SlowStartConfig> {
    let warmup = settings.warmup.as_ref();
    let window = warmup
        .and_then(|warmup| warmup.duration.as_ref())
        .or(settings.warmup_duration_secs.as_ref())?;
    let window = report.optional(positive("warmup", window))?;
    let minimum = warmup.and_then(|warmup| warmup.minimum_percent.as_ref());
    let minimum = minimum.filter(|percent| (0.0..=100.0).contains(&percent.value));
    let aggression = warmup.and_then(|warmup| warmup.aggression.as_ref());
    let aggression = aggression.filter(|value| value.value >= 1.0 && value.value.is_finite());
    Some(SlowStartConfig {
        slow_start_window: Some(window),
        aggression: aggression.map(|value| core::RuntimeDouble {
            default_value: value.value,
            // A runtime key has to be there; nobody sets it.
            runtime_key: "isthmus.slow_start.aggression".to_owned(),
        }),
        min_weight_percent: minimum.map(|percent| envoy_type::Percent {
            value: percent.value,
        }),
    })
}

/// What is hashed is a matter of routes.
fn consistent_hash(
    hash: &ConsistentHashLb,
    result: &mut cluster::Cluster,
    report: &mut Report<'_>,
) {
    if let Some(HashAlgorithm::Maglev(maglev)) = &hash.hash_algorithm {
        result.lb_policy = LbPolicy::Maglev.into();
        let size = (maglev.table_size != 0).then_some(maglev.table_size);
        let usable = size.filter(|size| *size <= MAX_TABLE_SIZE && is_prime(*size));
        if size != usable {
            report.add(Problem::new(
                Reason::InvalidValue,
                "maglev.tableSize is no prime number up to 5000011; it is left out",
            ));
        }
        result.lb_config = usable.map(|size| {
            LbConfig::MaglevLbConfig(MaglevLbConfig {
                table_size: Some(proto::uint64(size)),
            })
        });
        return;
    }
    let size = match &hash.hash_algorithm {
        Some(HashAlgorithm::RingHash(ring)) => ring.minimum_ring_size,
        _ => hash.minimum_ring_size,
    };
    if size > MAX_RING_SIZE {
        report.add(Problem::new(
            Reason::InvalidValue,
            format!("minimumRingSize {size} is too large; {MAX_RING_SIZE} is used"),
        ));
    }
    let size = if size == 0 { RING_SIZE } else { size };
    result.lb_policy = LbPolicy::RingHash.into();
    result.lb_config = Some(LbConfig::RingHashLbConfig(RingHashLbConfig {
        minimum_ring_size: Some(proto::uint64(size.min(MAX_RING_SIZE))),
        ..Default::default()
    }));
}

fn is_prime(number: u64) -> bool {
    let mut factors = (2..).take_while(|factor: &u64| factor * factor <= number);
    number > 1 && factors.all(|factor| !number.is_multiple_of(factor))
}

#[cfg(test)]
mod tests {
    use super::is_prime;

    #[test]
    fn primes() {
        let primes: Vec<u64> = (0..20).filter(|n| is_prime(*n)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19]);
        assert!(is_prime(65537) && is_prime(super::MAX_TABLE_SIZE));
    }
}
