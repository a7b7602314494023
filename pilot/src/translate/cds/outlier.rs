//! When endpoints that fail are left out for a while.

use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::r#type::v3 as envoy_type;
use envoy_types::pb::google::protobuf::UInt32Value;
use shared_proto::networking::v1alpha3::OutlierDetection;

use crate::translate::issue::Reason;
use crate::translate::proto;
use crate::translate::report::{Problem, Report, positive};

/// Sets the user's limits. Only failures in a row count, never success rates (Istio).
pub(super) fn apply(
    settings: &OutlierDetection,
    result: &mut cluster::Cluster,
    report: &mut Report<'_>,
) {
    let mut outlier = cluster::OutlierDetection {
        enforcing_success_rate: Some(proto::uint(0)),
        ..Default::default()
    };
    let limit = |value: Option<u32>| (value.map(proto::uint), value.map(enforced));
    let errors = settings.consecutive_5xx_errors.as_ref();
    (outlier.consecutive_5xx, outlier.enforcing_consecutive_5xx) =
        limit(errors.map(|value| value.value));
    let gateway = settings.consecutive_gateway_errors.as_ref();
    (
        outlier.consecutive_gateway_failure,
        outlier.enforcing_consecutive_gateway_failure,
    ) = limit(gateway.map(|value| value.value));
    if settings.split_external_local_origin_errors {
        outlier.split_external_local_origin_errors = true;
        outlier.enforcing_local_origin_success_rate = Some(proto::uint(0));
        let local = settings.consecutive_local_origin_failures.as_ref();
        (
            outlier.consecutive_local_origin_failure,
            outlier.enforcing_consecutive_local_origin_failure,
        ) = limit(local.map(|value| value.value).filter(|value| *value > 0));
    }
    let interval = settings.interval.as_ref();
    outlier.interval =
        interval.and_then(|value| report.optional(positive("outlierDetection.interval", value)));
    let ejection = settings.base_ejection_time.as_ref();
    outlier.base_ejection_time = ejection
        .and_then(|value| report.optional(positive("outlierDetection.baseEjectionTime", value)));
    outlier.max_ejection_percent =
        percent("maxEjectionPercent", settings.max_ejection_percent, report)
            .filter(|value| *value > 0)
            .map(proto::uint);
    if !settings.outlier_detection_http_error_codes.is_empty()
        || settings.failure_percentage_threshold.is_some()
    {
        report.add(Problem::new(
            Reason::Unsupported,
            "outlierDetection: httpErrorCodes and failurePercentageThreshold are not served; they are left out",
        ));
    }
    let healthy = percent("minHealthPercent", settings.min_health_percent, report).unwrap_or(0);
    let common = result.common_lb_config.get_or_insert_default();
    common.healthy_panic_threshold = Some(envoy_type::Percent {
        value: healthy.into(),
    });
    result.outlier_detection = Some(outlier);
}

/// 0 switches a limit off.
fn enforced(value: u32) -> UInt32Value {
    proto::uint(if value > 0 { 100 } else { 0 })
}

fn percent(what: &str, value: i32, report: &mut Report<'_>) -> Option<u32> {
    let percent = u32::try_from(value).ok().filter(|value| *value <= 100);
    if percent.is_none() {
        report.add(Problem::new(
            Reason::InvalidValue,
            format!("outlierDetection.{what} {value} is no percentage; it is left out"),
        ));
    }
    percent
}
