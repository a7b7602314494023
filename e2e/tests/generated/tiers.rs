//! Both tiers as libraries: Ingresses in, the resources of an Envoy out, without a socket.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use controller::app::Pipeline;
use controller::ingest;
use controller::model::Scope;
use pilot::model::change::{Change, NamespacedName, SecretState};
use pilot::model::config::StoredConfig;
use pilot::model::endpoint::{Endpoint, Endpoints};
use pilot::model::proxy::ProxyClass;
use pilot::model::secret::TlsSecret;
use pilot::model::service::{Protocol, Resolution, Service, ServicePort};
use pilot::push::world::World;
use pilot::xds::class::{ClassSnapshot, PushOptions, Resources};
use shared_proto::mcp;

use crate::ingress::{NAMESPACES, SECRETS, SERVICES};

const DOMAIN: &str = "cluster.local";

/// A certificate that signs itself, in PEM.
pub(crate) struct SelfSigned {
    certificate: String,
    key: String,
}

impl SelfSigned {
    /// One for `a.test`.
    pub(crate) fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()])?;
        Ok(Self {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        })
    }
}

/// What the controller makes of manifests.
pub(crate) fn translate(manifest: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Arc::new(Scope::default()));
    pipeline.apply(ingest::parse("generated.yaml", manifest.as_bytes()));
    pipeline
}

/// The configs of a pipeline as the pilot gets them.
///
/// # Errors
/// One does not survive the wire, or the pilot does not take it.
pub(crate) fn received(pipeline: &Pipeline) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for config in pipeline.snapshot().decode() {
        let (_, bytes) = mcp::encode(&config);
        let resource = mcp::decode(bytes).with_context(|| format!("{:?}", config.meta))?;
        ensure!(
            resource.to_config()? == config,
            "{:?} is another one after the wire",
            config.meta
        );
        let stored = StoredConfig::from_mcp(resource, DOMAIN)
            .with_context(|| format!("{:?}", config.meta))?;
        changes.push(Change::Config(stored.key.clone(), Some(Arc::new(stored))));
    }
    Ok(changes)
}

/// Services, endpoints and Secrets that Ingresses may name.
pub(crate) fn registry(certificate: &SelfSigned) -> Vec<Change> {
    let mut changes = Vec::new();
    for namespace in NAMESPACES {
        for name in SERVICES {
            let hostname: Arc<str> = format!("{name}.{namespace}.svc.{DOMAIN}").into();
            let port = ServicePort {
                name: "web".into(),
                number: 80,
                protocol: Protocol::Http,
            };
            let service = Service {
                hostname: hostname.clone(),
                namespace: namespace.into(),
                name: name.into(),
                ports: vec![port],
                resolution: Resolution::Eds,
                created: 0,
            };
            changes.push(Change::Service(hostname.clone(), Some(Arc::new(service))));
            let endpoint = ("web".into(), Endpoint::new([127, 0, 0, 1].into(), 8080));
            changes.push(Change::Endpoints(
                hostname,
                Arc::new(Endpoints::new([endpoint])),
            ));
        }
        for name in SECRETS {
            let secret = TlsSecret {
                cert_chain: certificate.certificate.clone().into(),
                private_key: certificate.key.clone().into(),
                ca: Some(certificate.certificate.clone().into()),
            };
            let state = SecretState::Valid(Arc::new(secret));
            changes.push(Change::Secret(NamespacedName::new(namespace, name), state));
        }
    }
    changes
}

/// What an Envoy of the default gateway is sent, all routes of a listener in one resource.
pub(crate) fn generate(changes: Vec<Change>) -> Resources {
    let scope = Scope::default();
    let class = ProxyClass {
        namespace: scope.system_namespace.clone(),
        labels: scope.gateway_selector.into_iter().collect(),
        secrets: true,
        metadata: std::collections::BTreeMap::new(),
    };
    let options = PushOptions {
        domain: DOMAIN.into(),
        root_namespace: scope.system_namespace,
        ..PushOptions::default()
    };
    let (world, _) = World::default().next(changes);
    ClassSnapshot::build(class, &world, &options)
        .snapshot
        .generated()
        .clone()
}
