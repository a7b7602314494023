//! What the routes of a host do with a request: a VirtualService and a request in, the answer out. Pure.
//!
//! Evaluates what the controller generates, as the gateway does: the first route with a condition that holds decides.

mod answer;
mod condition;
mod request;
mod sample;
mod source;

pub use answer::{Action, Answer};
pub use request::Request;
pub use sample::sample;

use shared_proto::networking::v1alpha3::{HttpRoute, VirtualService};

use condition::{Condition, Pattern};

/// Routes of a host, ready to be asked.
#[derive(Debug)]
pub struct Routes<'a> {
    routes: Vec<Route<'a>>,
}

/// A route with its expressions compiled.
#[derive(Debug)]
struct Route<'a> {
    http: &'a HttpRoute,
    conditions: Vec<Condition>,
    rewrite: Option<(regex::Regex, String)>,
    origins: Vec<Pattern>,
}

impl<'a> Routes<'a> {
    /// The routes of a VirtualService.
    pub fn new(spec: &'a VirtualService) -> Self {
        Self {
            routes: spec.http.iter().map(Route::new).collect(),
        }
    }

    /// What happens to a request; `None` when no route takes it.
    pub fn answer(&self, request: &Request) -> Option<Answer> {
        self.routes.iter().find_map(|route| {
            let mut conditions = route.conditions.iter();
            let held = conditions.find(|condition| condition.holds(request))?;
            Some(route.answer(held, request))
        })
    }
}

impl<'a> Route<'a> {
    fn new(http: &'a HttpRoute) -> Self {
        let rewrite = http.rewrite.as_ref();
        let regex = rewrite.and_then(|rewrite| rewrite.uri_regex_rewrite.as_ref());
        let rewrite = regex.and_then(|regex| {
            // The gateway searches for the expression, it need not be the whole path.
            let compiled = regex::Regex::new(&regex.r#match).ok()?;
            Some((compiled, answer::replacement(&regex.rewrite)))
        });
        let origins = http.cors_policy.iter().flat_map(|cors| &cors.allow_origins);
        Self {
            http,
            conditions: http.r#match.iter().map(Condition::new).collect(),
            rewrite,
            origins: origins.map(Pattern::new).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
