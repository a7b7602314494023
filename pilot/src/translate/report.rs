//! Collects what is wrong, with the object and the route it belongs to.

use envoy_types::pb::google::protobuf;

use super::issue::{Issue, Origin, Reason};
use super::proto;

/// Something that cannot be used, without the place it was found at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// Says what was done about it.
    pub(crate) fn and(self, consequence: &str) -> Self {
        Self {
            message: format!("{}; {consequence}", self.message),
            ..self
        }
    }
}

/// Issues of one route.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) issues: &'a mut Vec<Issue>,
    pub(crate) origin: &'a Origin,
    pub(crate) at: &'a str,
}

impl Report<'_> {
    pub(crate) fn add(&mut self, problem: Problem) {
        self.issues.push(Issue {
            origin: Some(self.origin.clone()),
            at: self.at.to_owned(),
            reason: problem.reason,
            message: problem.message,
        });
    }

    /// The value, or nothing and a line in the report.
    pub(crate) fn optional<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(problem) => {
                self.add(problem.and("it is left out"));
                None
            }
        }
    }
}

/// A duration that is not negative; longer ones than Envoy can hold are cut.
pub(crate) fn duration(
    what: &str,
    value: &shared_proto::well_known::Duration,
) -> Result<protobuf::Duration, Problem> {
    let seconds = u64::try_from(value.seconds);
    let nanos = u32::try_from(value.nanos);
    match (seconds, nanos) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => {
            Ok(proto::duration(std::time::Duration::new(seconds, nanos)))
        }
        _ => Err(Problem::new(
            Reason::InvalidValue,
            format!("{what} is negative"),
        )),
    }
}

/// A duration above zero.
pub(crate) fn positive(
    what: &str,
    value: &shared_proto::well_known::Duration,
) -> Result<protobuf::Duration, Problem> {
    let duration = duration(what, value)?;
    if duration.seconds == 0 && duration.nanos == 0 {
        return Err(Problem::new(Reason::InvalidValue, format!("{what} is 0")));
    }
    Ok(duration)
}
