//! Injected faults: delays and aborts.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::extensions::filters::common::fault::v3 as common_fault;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3 as fault;
use envoy_types::pb::google::protobuf;
use shared_proto::networking::v1alpha3::http_fault_injection::{
    Abort, Delay, abort::ErrorType, delay::HttpDelayType,
};
use shared_proto::networking::v1alpha3::{HttpFaultInjection, Percent};

use super::report::{Problem, Report, duration};
use crate::translate::issue::Reason;
use crate::translate::lds::FAULT;
use crate::translate::proto;

/// Sets the faults of a route.
pub(super) fn apply(
    injection: &HttpFaultInjection,
    settings: &mut BTreeMap<String, protobuf::Any>,
    report: &mut Report<'_>,
) {
    let delay = injection
        .delay
        .as_ref()
        .and_then(|value| report.optional(delay(value)));
    let abort = injection
        .abort
        .as_ref()
        .and_then(|value| report.optional(abort(value)));
    if delay.is_none() && abort.is_none() {
        return;
    }
    let config = fault::HttpFault {
        delay,
        abort,
        ..Default::default()
    };
    settings.insert(FAULT.to_owned(), proto::any(&config));
}

fn delay(delay: &Delay) -> Result<common_fault::FaultDelay, Problem> {
    let value = match &delay.http_delay_type {
        Some(HttpDelayType::FixedDelay(value)) => duration("fixedDelay", value)?,
        Some(HttpDelayType::ExponentialDelay(_)) => {
            return Err(Problem::new(
                Reason::Unsupported,
                "fault: exponentialDelay is not served",
            ));
        }
        None => return Err(invalid("delay has no duration")),
    };
    if value.seconds == 0 && value.nanos == 0 {
        return Err(invalid("delay has no duration"));
    }
    let share = match &delay.percentage {
        Some(percentage) => percentage.value,
        None if delay.percent != 0 => f64::from(delay.percent),
        None => 100.0,
    };
    Ok(common_fault::FaultDelay {
        percentage: Some(percent(share)?),
        fault_delay_secifier: Some(common_fault::fault_delay::FaultDelaySecifier::FixedDelay(
            value,
        )),
    })
}

fn abort(abort: &Abort) -> Result<fault::FaultAbort, Problem> {
    let error_type = match &abort.error_type {
        Some(ErrorType::HttpStatus(status)) => match u32::try_from(*status) {
            Ok(status) if (200..600).contains(&status) => {
                fault::fault_abort::ErrorType::HttpStatus(status)
            }
            _ => return Err(invalid("abort status is not 200 to 599")),
        },
        Some(ErrorType::GrpcStatus(name)) => {
            fault::fault_abort::ErrorType::GrpcStatus(grpc_status(name)?)
        }
        Some(ErrorType::Http2Error(_)) | None => {
            return Err(invalid("abort has neither httpStatus nor grpcStatus"));
        }
    };
    let share = abort.percentage.as_ref().map_or(100.0, share);
    Ok(fault::FaultAbort {
        percentage: Some(percent(share)?),
        error_type: Some(error_type),
        ..Default::default()
    })
}

fn share(percentage: &Percent) -> f64 {
    percentage.value
}

fn percent(value: f64) -> Result<envoy_types::pb::envoy::r#type::v3::FractionalPercent, Problem> {
    if (0.0..=100.0).contains(&value) {
        Ok(proto::percent(value))
    } else {
        Err(invalid("percentage is not 0 to 100"))
    }
}

fn grpc_status(name: &str) -> Result<u32, Problem> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let code = name
        .parse::<usize>()
        .ok()
        .filter(|code| *code < NAMES.len())
        .or_else(|| NAMES.iter().position(|known| *known == name));
    code.and_then(|code| u32::try_from(code).ok())
        .ok_or_else(|| invalid("grpcStatus is not known"))
}

fn invalid(what: &str) -> Problem {
    Problem::new(Reason::InvalidValue, format!("fault: {what}"))
}
