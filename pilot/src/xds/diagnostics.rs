//! All mistakes that are in the pilot's input now, and which of them are new.
//!
//! Sources tell those of their own objects. What a Gateway names and is not there shows here only: it is looked at when the
//! Gateway or one of its Secrets changes, from the moment on when all sources have told everything once.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use shared_proto::Kind;

use super::class::asks_client_certificate;
use crate::model::change::{Change, NamespacedName, SecretState};
use crate::model::config::{Facts, GatewayFacts, ServerProtocol};
use crate::model::diagnostic::{Diagnostic, DiagnosticList, DiagnosticReason, ObjectRef, shorten};
use crate::push::context::Replaced;
use crate::push::world::World;
use crate::translate::names;

/// Hosts that a message names.
const HOSTS: usize = 3;

/// Mistakes by object. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    lists: OrdMap<ObjectRef, DiagnosticList>,
    /// Why the newest version of a Secret cannot be used.
    unusable: OrdMap<NamespacedName, Arc<str>>,
    /// Secrets and the Gateways that name them.
    users: OrdSet<(NamespacedName, NamespacedName)>,
    /// The sources have told everything once.
    complete: bool,
}

/// A mistake that was not there before.
pub(super) type Found = (ObjectRef, Diagnostic);

impl Diagnostics {
    /// Everything, by object.
    pub fn all(&self) -> impl Iterator<Item = (&ObjectRef, &Diagnostic)> {
        let lists = self.lists.iter();
        lists.flat_map(|(object, list)| list.iter().map(move |diagnostic| (object, diagnostic)))
    }

    /// Takes in what changes tell by themselves. Gives the Secrets that changed.
    pub(super) fn note(
        &mut self,
        changes: &[Change],
        found: &mut Vec<Found>,
    ) -> BTreeSet<NamespacedName> {
        let mut secrets = BTreeSet::new();
        for change in changes {
            match change {
                Change::Mistakes(object, list) => {
                    self.replace(object.clone(), list.clone(), found);
                }
                Change::Config(key, config) if key.kind == Kind::EnvoyFilter => {
                    let facts = config.as_ref().map(|config| &config.facts);
                    let list = match facts {
                        Some(Facts::EnvoyFilter(facts)) => patches(&facts.mistakes),
                        _ => Arc::default(),
                    };
                    let name = NamespacedName::new(key.namespace.clone(), key.name.clone());
                    let kind = key.kind.name();
                    self.replace(ObjectRef { kind, name }, list, found);
                }
                Change::Secret(name, state) => {
                    match state {
                        SecretState::Invalid(why) => {
                            self.unusable.insert(name.clone(), why.clone());
                        }
                        SecretState::Valid(_) | SecretState::Absent => {
                            self.unusable.remove(name);
                        }
                    }
                    secrets.insert(name.clone());
                }
                _ => {}
            }
        }
        secrets
    }

    /// Looks at Gateways that changed, and at those that name a Secret which did.
    pub(super) fn look(
        &mut self,
        world: &World,
        (gateways, secrets): (&[Replaced], &BTreeSet<NamespacedName>),
        found: &mut Vec<Found>,
    ) {
        let mut names: BTreeSet<NamespacedName> = BTreeSet::new();
        for (old, new) in gateways {
            for (gateway, add) in old
                .iter()
                .map(|g| (g, false))
                .chain(new.iter().map(|g| (g, true)))
            {
                let Some(name) = &gateway.name else { continue };
                for need in needs(gateway) {
                    for secret in need.secrets {
                        let user = (secret, name.clone());
                        if add {
                            self.users.insert(user);
                        } else {
                            self.users.remove(&user);
                        }
                    }
                }
                names.insert(name.clone());
            }
        }
        if !self.complete {
            return;
        }
        for secret in secrets {
            let none = NamespacedName::new("", "");
            let users = self.users.range((secret.clone(), none)..);
            let users = users.take_while(|(used, _)| used == secret);
            names.extend(users.map(|(_, gateway)| gateway.clone()));
        }
        for name in names {
            self.look_at(world, name, found);
        }
    }

    /// From now on what is not there is missing.
    pub(super) fn complete(&mut self, world: &World, found: &mut Vec<Found>) {
        if std::mem::replace(&mut self.complete, true) {
            return;
        }
        for name in world.context.gateways.keys().cloned().collect::<Vec<_>>() {
            self.look_at(world, name, found);
        }
    }

    fn look_at(&mut self, world: &World, name: NamespacedName, found: &mut Vec<Found>) {
        let gateway = world.context.gateways.get(&name);
        let needed = gateway.into_iter().flat_map(|gateway| needs(gateway));
        let list = needed
            .filter_map(|need| self.against(world, need))
            .collect();
        let kind = Kind::Gateway.name();
        self.replace(ObjectRef { kind, name }, list, found);
    }

    /// What is wrong with the Secrets of a server.
    fn against(&self, world: &World, need: Need) -> Option<Diagnostic> {
        let first = need.secrets.first()?;
        let usable = need.secrets.iter().any(|secret| {
            world
                .secrets
                .get(secret)
                .is_some_and(|secret| match need.trust {
                    true => secret.ca.as_ref().is_some_and(|ca| !ca.is_empty()),
                    false => !secret.cert_chain.is_empty(),
                })
        });
        let mut refused = need.secrets.iter();
        let refused = refused.find_map(|secret| self.unusable.get(secret));
        let what = match need.trust {
            true => "authority of client certificates",
            false => "certificate",
        };
        let hosts = need.hosts;
        let (reason, message) = match (usable, refused) {
            (true, None) => return None,
            (true, Some(why)) => (
                DiagnosticReason::OutdatedSecret,
                format!("{why}; its last usable version is served to {hosts}"),
            ),
            (false, Some(why)) => (
                DiagnosticReason::InvalidSecret,
                format!("{why}; until it is mended {hosts} has no HTTPS"),
            ),
            (false, None) => (
                DiagnosticReason::MissingSecret,
                format!(
                    "there is no Secret {first} with a {what}; until there is one {hosts} has no HTTPS"
                ),
            ),
        };
        let field = need.field;
        Some(Diagnostic {
            field,
            reason,
            message,
        })
    }

    fn replace(&mut self, object: ObjectRef, list: DiagnosticList, found: &mut Vec<Found>) {
        let old = match list.is_empty() {
            true => self.lists.remove(&object),
            false => self.lists.insert(object.clone(), list.clone()),
        };
        let known = |d: &&Diagnostic| old.as_ref().is_some_and(|old| old.contains(d));
        let new = list.iter().filter(|d| !known(d));
        found.extend(new.map(|d| (object.clone(), d.clone())));
    }
}

fn patches(mistakes: &[crate::model::envoy_filter::Mistake]) -> DiagnosticList {
    let one = |mistake: &crate::model::envoy_filter::Mistake| Diagnostic {
        field: mistake.at.clone(),
        reason: DiagnosticReason::InvalidPatch,
        message: mistake.message.clone(),
    };
    mistakes.iter().map(one).collect()
}

/// Something that a server cannot do without.
struct Need {
    field: String,
    /// Any of them will do.
    secrets: Vec<NamespacedName>,
    /// Trust anchors, not a certificate.
    trust: bool,
    /// The hosts, for messages.
    hosts: String,
}

/// What the servers of a Gateway need. Secrets of the proxy's own namespace, which differ by proxy, are left out.
fn needs(gateway: &GatewayFacts) -> Vec<Need> {
    let secret = |name: &str| {
        let parsed = names::parse_secret_name(name)?;
        Some(NamespacedName::new(parsed.namespace?, parsed.name))
    };
    let mut all = Vec::new();
    let servers = gateway.servers.iter().enumerate();
    for (at, server) in servers.filter(|(_, s)| s.protocol == ServerProtocol::Https) {
        let Some(tls) = &server.tls else { continue };
        let mut hosts: Vec<String> = server
            .hosts
            .iter()
            .take(HOSTS)
            .map(|h| shorten(h, 100))
            .collect();
        if server.hosts.len() > HOSTS {
            hosts.push("...".to_owned());
        }
        let mut add = |names: &[&str], trust| {
            all.push(Need {
                field: format!("spec.servers[{at}].tls.credentialName"),
                secrets: names.iter().filter_map(|name| secret(name)).collect(),
                trust,
                hosts: hosts.join(", "),
            });
        };
        add(&[&tls.credential], false);
        if asks_client_certificate(tls) {
            add(
                &[&names::ca_secret_name(&tls.credential), &tls.credential],
                true,
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::StoredConfig;
    use crate::model::secret::TlsSecret;
    use shared_proto::config::{Config, Meta};
    use shared_proto::{Spec, mcp, networking::v1alpha3 as istio};

    fn gateway(mode: &str) -> Change {
        let server = |port: &str, tls: &str| {
            format!("{{hosts: [a.test], port: {{number: 80, name: x, protocol: {port}}}{tls}}}")
        };
        let tls = format!(
            ", tls: {{mode: {mode}, credentialName: 'kubernetes-ingress://Kubernetes/n/cert'}}"
        );
        let text = format!(
            "servers: [{}, {}]",
            server("HTTP", ""),
            server("HTTPS", &tls)
        );
        let spec: istio::Gateway = serde_yaml::from_str(&text).unwrap();
        let (_, bytes) = mcp::encode(&Config::new(Meta::new("sys", "g"), Spec::from(spec)));
        let stored = StoredConfig::from_mcp(mcp::decode(bytes).unwrap(), "cluster.local").unwrap();
        Change::Config(stored.key.clone(), Some(Arc::new(stored)))
    }

    fn secret(name: &str, state: SecretState) -> Change {
        Change::Secret(NamespacedName::new("n", name), state)
    }

    fn usable(ca: bool) -> SecretState {
        SecretState::Valid(Arc::new(TlsSecret {
            cert_chain: "c".into(),
            private_key: "k".into(),
            ca: ca.then(|| "ca".into()),
        }))
    }

    #[derive(Default)]
    struct State {
        world: World,
        diagnostics: Diagnostics,
    }

    impl State {
        /// Reasons of the mistakes that are new, and of all.
        fn change(&mut self, change: Change) -> (Vec<&'static str>, Vec<&'static str>) {
            let changes = vec![change];
            let mut found = Vec::new();
            let secrets = self.diagnostics.note(&changes, &mut found);
            let (world, changed) = self.world.next(changes);
            self.world = world;
            let gateways = changed.context.map(|impact| impact.gateways);
            let touched = (&*gateways.unwrap_or_default(), &secrets);
            self.diagnostics.look(&self.world, touched, &mut found);
            self.reasons(&found)
        }

        fn reasons(&self, found: &[Found]) -> (Vec<&'static str>, Vec<&'static str>) {
            let new = found.iter().map(|(_, d)| d.reason.as_str()).collect();
            (
                new,
                self.diagnostics
                    .all()
                    .map(|(_, d)| d.reason.as_str())
                    .collect(),
            )
        }
    }

    #[test]
    fn secrets_of_gateways_are_followed() {
        let mut state = State::default();
        assert_eq!(
            state.change(gateway("SIMPLE")),
            (vec![], vec![]),
            "sources are not complete"
        );
        let mut found = Vec::new();
        state.diagnostics.complete(&state.world, &mut found);
        assert_eq!(state.reasons(&found).0, ["MissingSecret"]);
        let (object, diagnostic) = &found[0];
        assert_eq!(object.to_string(), "Gateway sys/g");
        assert_eq!(diagnostic.field, "spec.servers[1].tls.credentialName");
        assert!(diagnostic.message.contains("n/cert") && diagnostic.message.contains("a.test"));
        // Another Secret does not matter; an unusable one is another mistake, a usable one none.
        assert_eq!(
            state.change(secret("other", usable(false))),
            (vec![], vec!["MissingSecret"])
        );
        let bad = || secret("cert", SecretState::Invalid("key does not fit".into()));
        assert_eq!(
            state.change(bad()),
            (vec!["InvalidSecret"], vec!["InvalidSecret"])
        );
        assert_eq!(
            state.change(secret("cert", usable(false))),
            (vec![], vec![])
        );
        assert_eq!(
            state.change(bad()),
            (vec!["OutdatedSecret"], vec!["OutdatedSecret"])
        );
        assert_eq!(
            state.change(secret("cert", usable(false))),
            (vec![], vec![])
        );
        // Trust anchors are in a Secret of their own, or beside the certificate.
        assert_eq!(
            state.change(gateway("MUTUAL")),
            (vec!["MissingSecret"], vec!["MissingSecret"])
        );
        assert_eq!(
            state.change(secret("cert-cacert", usable(true))),
            (vec![], vec![])
        );
        state.change(secret("cert-cacert", SecretState::Absent));
        assert_eq!(state.change(secret("cert", usable(true))), (vec![], vec![]));
        // What is gone has no mistakes.
        state.change(secret("cert", SecretState::Absent));
        let Change::Config(key, _) = gateway("SIMPLE") else {
            unreachable!()
        };
        assert_eq!(state.change(Change::Config(key, None)), (vec![], vec![]));
        assert_eq!(state.diagnostics.users.len(), 0);
    }

    #[test]
    fn mistakes_of_sources_are_told_once() {
        let mut state = State::default();
        let slice = |fields: &[&str]| {
            let one = |field: &&str| Diagnostic {
                field: (*field).to_owned(),
                reason: DiagnosticReason::InvalidEndpoint,
                message: String::new(),
            };
            let name = NamespacedName::new("n", "s");
            let kind = "EndpointSlice";
            Change::Mistakes(ObjectRef { kind, name }, fields.iter().map(one).collect())
        };
        assert_eq!(state.change(slice(&["a"])).0, ["InvalidEndpoint"]);
        let (new, all) = state.change(slice(&["a", "b"]));
        assert_eq!((new.len(), all.len()), (1, 2));
        assert_eq!(state.change(slice(&[])), (vec![], vec![]));
    }
}
