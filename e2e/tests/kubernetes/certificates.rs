//! HTTPS hosts: the private key comes to the gateways over the authenticated connection to the pilot, and a new one takes the old
//! one's place without a failed request.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::http::{Exchange, Target};
use e2e::kube::Client;
use e2e::load::Load;
use rcgen::CertifiedKey;

use crate::release::{self, Tenant, traffic};

/// Name of the tenant's Secret.
const SECRET: &str = "shop-tls";

/// A host's Secret is made, replaced twice, deleted and made again.
pub(crate) async fn rotated(client: Client) -> Result<()> {
    release::with(&client, &[]).await?;
    let plain = release::target(&client).await?;
    let tenant = Tenant::new(&client, "rotation", &plain).await?;
    let target = Target::tls(SocketAddr::new(plain.address.ip(), 443), &tenant.host);
    let host = Host {
        client: &client,
        tenant: &tenant,
        target: &target,
    };
    let first = host.new_certificate().await?;
    client.apply(&ingress(&tenant)).await?;
    host.shows(&first).await?;
    let load = Load::paced(&target, &tenant.host, 4, 25);
    for _ in 0..2 {
        let next = host.new_certificate().await?;
        host.shows(&next).await?;
        traffic(&load, Duration::from_secs(1)).await?;
    }
    load.finish().await.context("certificates were replaced")?;
    tenant.remove(&client).await
}

struct Host<'t> {
    client: &'t Client,
    tenant: &'t Tenant,
    target: &'t Target,
}

impl Host<'_> {
    /// Puts a new certificate into the Secret and returns it, DER.
    async fn new_certificate(&self) -> Result<Vec<u8>> {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed([self.tenant.host.clone()])?;
        let secret = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": { "name": SECRET, "namespace": self.tenant.namespace },
            "stringData": { "tls.crt": cert.pem(), "tls.key": signing_key.serialize_pem() },
        });
        self.client.apply(&secret.to_string()).await?;
        Ok(cert.der().to_vec())
    }

    /// Waits until every gateway shows a certificate: until it was seen a number of times in a row.
    async fn shows(&self, certificate: &[u8]) -> Result<()> {
        let mut seen = 0;
        let look = async || {
            let answer = Exchange::get(&self.tenant.host, "/")
                .send(self.target)
                .await;
            let fits = answer.is_ok_and(|answer| {
                answer.status == 200 && answer.certificate.as_deref() == Some(certificate)
            });
            seen = if fits { seen + 1 } else { 0 };
            (seen >= 8).then_some(())
        };
        let what = format!("{} shows its certificate", self.tenant.host);
        self.client.until(&what, look).await
    }
}

fn ingress(tenant: &Tenant) -> String {
    let Tenant { namespace, host } = tenant;
    let rules = release::ingress(namespace, "shop", host, "/");
    let tls = format!("spec:\n  tls: [{{ hosts: [{host}], secretName: {SECRET} }}]");
    rules.replacen("spec:", &tls, 1)
}
