//! The objects under one meaning: hosts that can be asked, and what was found wrong.

use std::collections::HashMap;
use std::sync::Arc;

use shared_proto::networking::v1alpha3::VirtualService;

use crate::app::pipeline::Pipeline;
use crate::ingest::Change;
use crate::model::{CATCH_ALL, Scope};
use crate::translate::explain::{Answer, Request, Routes};

/// Answer for what nothing serves.
const NOT_FOUND: u32 = 404;

/// Everything as it would be served.
#[derive(Debug)]
pub(super) struct World {
    pub(super) pipeline: Pipeline,
    specs: HashMap<Arc<str>, VirtualService>,
}

/// A world that can be asked.
#[derive(Debug)]
pub(super) struct Hosts<'a>(HashMap<&'a str, Routes<'a>>);

impl World {
    /// Translates the objects.
    pub(super) fn new(scope: Scope, change: Change) -> Self {
        let mut pipeline = Pipeline::new(Arc::new(scope));
        pipeline.apply(change);
        let spec = |host: &Arc<str>| {
            let config = pipeline.translate(host)?.virtual_service?;
            Some((host.clone(), config.spec.get::<VirtualService>()?.clone()))
        };
        let specs = pipeline.hosts().filter_map(spec).collect();
        Self { pipeline, specs }
    }

    /// All hosts, ready to be asked.
    pub(super) fn hosts(&self) -> Hosts<'_> {
        let routes = self.specs.iter();
        Hosts(
            routes
                .map(|(host, spec)| (&**host, Routes::new(spec)))
                .collect(),
        )
    }
}

impl Hosts<'_> {
    /// What a request comes to. What a host does not serve may be served by a wildcard host above it.
    pub(super) fn answer(&self, request: &Request) -> Answer {
        let own = std::iter::once(request.host.clone());
        let above = request
            .host
            .match_indices('.')
            .map(|(at, _)| format!("*{}", request.host.get(at..).unwrap_or_default()));
        let all = own.chain(above).chain([CATCH_ALL.to_owned()]);
        let mut routes = all.filter_map(|host| self.0.get(host.as_str()));
        let found = routes.find_map(|routes| routes.answer(request));
        found.unwrap_or_else(|| Answer::status(NOT_FOUND))
    }
}
