//! The authority that pilots share, with the rights that the chart gives them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use e2e::api_server::ApiServer;
use e2e::process::wait_until;
use e2e::stack::{Options, Port, Stack};

use super::{LIMIT, PILOT, pilots_certificate, says};

/// Account and rights of a pilot.
const RIGHTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: higress-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: pilot, namespace: higress-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pilot}
rules:
- {apiGroups: [''], resources: [services, secrets], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pilot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pilot}
subjects: [{kind: ServiceAccount, name: pilot, namespace: higress-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pilot, namespace: higress-system}
rules:
- {apiGroups: [''], resources: [secrets], resourceNames: [higress-xds-ca], verbs: [get, update]}
- {apiGroups: [''], resources: [configmaps], resourceNames: [higress-xds-root], verbs: [get, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pilot, namespace: higress-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pilot}
subjects: [{kind: ServiceAccount, name: pilot, namespace: higress-system}]
---
";

/// The two objects as the chart makes them.
const EMPTY: &str = "
apiVersion: v1
kind: Secret
metadata: {name: higress-xds-ca, namespace: higress-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: higress-xds-root, namespace: higress-system}
---
";

/// A kubeconfig of the pilot's account instead of the administrator's.
async fn kubeconfig_of_pilot(api: &ApiServer, dir: &Path) -> Result<PathBuf> {
    let args = ["create", "token", "pilot", "-n", "higress-system"];
    let token = api.kubectl(&args).await?;
    let admin = std::fs::read_to_string(api.kubeconfig())?;
    let pilot = admin.replace("{token: tests}", &format!("{{token: {}}}", token.trim()));
    ensure!(pilot != admin, "no token to replace in {admin}");
    let path = dir.join("kubeconfig");
    std::fs::write(&path, pilot)?;
    Ok(path)
}

fn stack(api: &ApiServer, pilot: &Path) -> Result<Stack> {
    Stack::new(Options {
        kubeconfig: Some(api.kubeconfig()),
        pilot_kubeconfig: Some(pilot.to_owned()),
        secure: true,
        pilot_args: vec!["--xds-server-names".to_owned(), PILOT.to_owned()],
        ..Options::default()
    })
}

async fn kept(api: &ApiServer) -> Result<(String, String)> {
    let secret = ["secret", "higress-xds-ca", "-n", "higress-system"];
    let config = ["configmap", "higress-xds-root", "-n", "higress-system"];
    let (secret, config) = (api.get(&secret).await?, api.get(&config).await?);
    let secret = secret["data"]["ca-cert.pem"].as_str().unwrap_or_default();
    let config = config["data"]["root-cert.pem"].as_str().unwrap_or_default();
    Ok((secret.to_owned(), config.to_owned()))
}

pub(crate) async fn agreement() -> Result<()> {
    let api = ApiServer::start().await?;
    api.apply(RIGHTS).await?;
    let dir = tempfile::tempdir()?;
    let kubeconfig = kubeconfig_of_pilot(&api, dir.path()).await?;
    let mut first = stack(&api, &kubeconfig)?;
    let mut second = stack(&api, &kubeconfig)?;

    // Nothing is there, and nothing may be created: the log says what to do, and it goes on when it was done.
    for pilot in [&mut first, &mut second] {
        pilot.start_control_plane().await?;
    }
    for pilot in [&first, &second] {
        says(pilot, "pilot", "create secret generic higress-xds-ca").await?;
        ensure!(
            pilots_certificate(pilot, None).await.is_none(),
            "it serves without a certificate"
        );
    }
    api.apply(EMPTY).await?;
    for pilot in [&mut first, &mut second] {
        pilot
            .wait_for(Port::Secure)
            .await
            .with_context(|| pilot.logs())?;
    }
    let agreed = wait_until("the authority is published", LIMIT, async || {
        let kept = kept(&api).await.ok()?;
        (!kept.0.is_empty() && !kept.1.is_empty()).then_some(kept)
    });
    let agreed = agreed.await.with_context(|| first.logs())?;
    for pilot in [&first, &second] {
        let shown = pilots_certificate(pilot, Some(&agreed.1)).await;
        ensure!(shown.is_some(), "another authority signed it");
    }

    // A third one that starts later takes what is there.
    first.pilot.take().context("it runs")?.kill().await?;
    first.start_pilot()?;
    first.wait_for(Port::Secure).await?;
    let shown = pilots_certificate(&first, Some(&agreed.1)).await;
    ensure!(shown.is_some(), "it made an authority of its own");
    ensure!(kept(&api).await? == agreed, "the authority was replaced");
    Ok(())
}
