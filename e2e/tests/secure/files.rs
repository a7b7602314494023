//! Certificates from files, and gateways with client certificates.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::process::wait_until;
use e2e::stack::{Options, Port, Stack};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::{LIMIT, PILOT, Site, count, counted, pilots_certificate, says, serves_nothing};

/// An authority of the trial.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "authority of the trial");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { pem, issuer })
    }

    /// Certificate and key for a name, and the certificate as DER.
    fn pair(&self, name: &str) -> Result<(String, String, Vec<u8>)> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new([name.to_owned()].as_slice())?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let der = certificate.der().to_vec();
        Ok((certificate.pem(), key.serialize_pem(), der))
    }
}

/// Writes a pair as the kubelet does: the folder that both names lead to is replaced in one step.
fn mount(dir: &Path, version: &str, certificate: &str, key: &str) -> Result<()> {
    let folder = dir.join(version);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("tls.crt"), certificate)?;
    std::fs::write(folder.join("tls.key"), key)?;
    let next = dir.join("..next");
    std::os::unix::fs::symlink(version, &next)?;
    std::fs::rename(next, dir.join("..data"))?;
    for name in ["tls.crt", "tls.key"] {
        let link = dir.join(name);
        if !link.is_symlink() {
            std::os::unix::fs::symlink(Path::new("..data").join(name), link)?;
        }
    }
    Ok(())
}

/// Waits until the pilot shows exactly this certificate.
async fn shown(stack: &Stack, authority: &Authority, der: &[u8]) -> Result<()> {
    let shown = wait_until("the pilot shows the certificate", LIMIT, async || {
        let shown = pilots_certificate(stack, Some(&authority.pem)).await?;
        (shown == der).then_some(())
    });
    shown.await.with_context(|| stack.logs())
}

pub(crate) async fn files() -> Result<()> {
    let (site, authority) = (Site::new()?, Authority::new()?);
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("ca.pem"), &authority.pem)?;
    let (gateway, gateway_key, _) = authority.pair("gateway.test")?;
    std::fs::write(path("gateway.pem"), gateway)?;
    std::fs::write(path("gateway.key"), gateway_key)?;
    std::fs::write(path("token"), "a.b.c")?;
    let mut stack = Stack::new(Options {
        manifests: site.manifests.clone(),
        secure: true,
        pilot_args: [
            ("--tls-cert-file", path("tls.crt")),
            ("--tls-key-file", path("tls.key")),
            ("--tls-client-ca-file", path("ca.pem")),
            ("--keepalive-max-server-connection-age", "5s".to_owned()),
        ]
        .map(|(flag, file)| format!("{flag}={file}"))
        .into(),
        ..Options::default()
    })?;
    stack.start_control_plane().await?;
    // The files may come later.
    says(&stack, "pilot", "cannot read").await?;
    let (first, first_key, first_der) = authority.pair(PILOT)?;
    mount(dir.path(), "first", &first, &first_key)?;
    stack.wait_for(Port::Secure).await?;
    shown(&stack, &authority, &first_der).await?;

    // Another one replaces it; one that does not fit its key is told of, and changes nothing.
    let (second, second_key, second_der) = authority.pair(PILOT)?;
    mount(dir.path(), "broken", &second, &first_key)?;
    says(&stack, "pilot", "the old one stays").await?;
    shown(&stack, &authority, &first_der).await?;
    mount(dir.path(), "second", &second, &second_key)?;
    shown(&stack, &authority, &second_der).await?;

    let (ca, token) = (path("ca.pem"), path("token"));
    let common = ["--xds-ca-file", &ca, "--xds-server-name", PILOT];
    let nothing = [&common[..], &["--xds-token-file", &token]].concat();
    stack.set_bootstrap_args(&nothing);
    let before = count(&stack, "bad_token").await;
    stack.start_envoy().await?;
    stack.wait_for(Port::Admin).await?;
    counted(&stack, "bad_token", before).await?;
    serves_nothing(&stack).await?;
    stack.envoy.take().context("it runs")?.kill().await?;

    let (certificate, key) = (path("gateway.pem"), path("gateway.key"));
    let known = [
        "--xds-client-cert-file",
        &certificate,
        "--xds-client-key-file",
        &key,
    ];
    stack.set_bootstrap_args(&[&common[..], &known].concat());
    stack.start_envoy().await?;
    site.is_served(&stack).await?;
    // An old connection is ended, and the gateway proves again who it is.
    counted(&stack, "allowed", 1.0).await?;
    site.is_served(&stack).await?;
    ensure!(stack.rejections().is_empty(), "{:?}", stack.rejections());
    stack.check_alive()
}
