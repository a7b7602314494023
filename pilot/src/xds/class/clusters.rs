//! Clusters of services, their endpoints, and the Secrets that they need.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds_engine::Resource;
use xds_engine::types::{CLUSTER, ENDPOINT};

use super::generate::Generator;
use super::lookup::RuleSecrets;
use super::servers::Credential;
use crate::model::endpoint::Endpoints;
use crate::model::service::Resolution;
use crate::translate::{cds, eds, names};

/// A name and what it stands for now.
pub(super) type Named = (String, Arc<Resource>);

/// A name and what it stands for now, if anything.
pub(super) type MaybeNamed = (String, Option<Arc<Resource>>);

impl Generator<'_> {
    /// All clusters of a service, except those that a patch removes, and the credentials that they have to follow.
    pub(super) fn clusters(&mut self, hostname: &str) -> (Vec<MaybeNamed>, BTreeSet<Credential>) {
        let (mut clusters, mut credentials) = (Vec::new(), BTreeSet::new());
        let Some(service) = self.lookup.service(hostname) else {
            return (clusters, credentials);
        };
        let rule = self.lookup.rule(service);
        let namespace = rule.origin.as_ref();
        let namespace = namespace.map_or("", |origin| origin.namespace.as_str());
        let secrets = RuleSecrets {
            lookup: self.lookup,
            namespace,
        };
        for part in self.lookup.parts(hostname) {
            let policy = rule.policy(part.port.number, &part.subset);
            let needed = policy.tls.and_then(cds::credentials);
            credentials.extend(needed.iter().flat_map(|needed| secrets.credentials(needed)));
            let generated = cds::cluster_with_rule(cds::ClusterInput {
                service,
                port: &part.port,
                subset: &part.subset,
                rule: &rule,
                options: &self.options.cluster,
                secrets: &secrets,
            });
            let cluster = self.keep(generated);
            self.counts.cds += 1;
            let name = part.cluster_name(hostname);
            let cluster = self.patched_cluster((&name, hostname), &part, &cluster);
            clusters.push((name, cluster));
        }
        (clusters, credentials)
    }

    /// The endpoints of all clusters of a service that the pilot knows them for.
    pub(super) fn endpoints(&mut self, hostname: &str) -> Vec<Named> {
        let service = self.lookup.service(hostname);
        if service.is_none_or(|service| service.resolution != Resolution::Eds) {
            return Vec::new();
        }
        let none = Endpoints::default();
        let endpoints = self.world.endpoints.get(hostname);
        let endpoints = endpoints.map_or(&none, |endpoints| endpoints);
        let mut result = Vec::new();
        for part in self.lookup.parts(hostname) {
            // Such a cluster is closed, and asks for none.
            if part.labelled {
                continue;
            }
            let name = part.cluster_name(hostname);
            let assignment = eds::cluster_load_assignment(&name, &part.port, endpoints);
            self.counts.eds += 1;
            result.push((name, Resource::encode(ENDPOINT, &assignment)));
        }
        result
    }

    /// The cluster that falls back from each member to the next.
    pub(super) fn fallback_cluster(&mut self, name: &str) -> Option<Arc<Resource>> {
        let members = names::parse_fallback_cluster_name(name)?;
        let cluster = cds::fallback_cluster(&members, &self.options.cluster);
        self.counts.cds += 1;
        Some(Resource::encode(CLUSTER, &cluster))
    }
}
