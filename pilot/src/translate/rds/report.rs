//! Collects what is wrong, with the object and the route it belongs to.

use crate::translate::issue::{Issue, Origin, Reason};

/// Something that cannot be used, without the place it was found at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// Says what was done about it.
    pub(super) fn and(self, consequence: &str) -> Self {
        Self {
            message: format!("{}; {consequence}", self.message),
            ..self
        }
    }
}

/// Issues of one route.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) issues: &'a mut Vec<Issue>,
    pub(super) origin: &'a Origin,
    pub(super) at: &'a str,
}

impl Report<'_> {
    pub(super) fn add(&mut self, problem: Problem) {
        self.issues.push(Issue {
            origin: Some(self.origin.clone()),
            at: self.at.to_owned(),
            reason: problem.reason,
            message: problem.message,
        });
    }

    /// The value, or nothing and a line in the report.
    pub(super) fn optional<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(problem) => {
                self.add(problem.and("it is left out"));
                None
            }
        }
    }
}
