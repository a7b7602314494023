//! The way to the API server: a kubeconfig file, or what a Pod is given.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::wire::chain;

/// A server that does not accept a connection within this time counts as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no way to the API server; one line, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be used.
    #[error("--kubeconfig {}: {reason}; give a kubeconfig file as kubectl uses it", .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Not in a Pod.
    #[error(
        "not in a Kubernetes Pod ({0}); give {1} DIR to read manifests, or --kubeconfig FILE to use a cluster"
    )]
    NotInCluster(String, &'static str),
    /// The connection cannot be prepared, for example because a certificate is unusable.
    #[error("the Kubernetes API cannot be used: {0}")]
    Unusable(String),
}

/// Prepares a connection; nothing is sent yet. `kubeconfig` empty means the ServiceAccount of this Pod.
/// `directory_flag` is named to those who have neither.
///
/// # Errors
/// The file or the Pod's environment cannot be used.
pub async fn connect(
    kubeconfig: Option<&Path>,
    directory_flag: &'static str,
) -> Result<Client, ConnectError> {
    let mut config = match kubeconfig.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => from_file(path).await?,
        None => Config::incluster()
            .map_err(|error| ConnectError::NotInCluster(error.to_string(), directory_flag))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Failures are counted and waited for here.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| ConnectError::Unusable(error.to_string()))
}

async fn from_file(path: &Path) -> Result<Config, ConnectError> {
    let failed = |error: kube::config::KubeconfigError| ConnectError::Kubeconfig {
        path: path.to_owned(),
        reason: chain(&error).replace('\n', " "),
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn mistakes_are_one_line_that_names_the_flag() {
        let missing = connect(Some(Path::new("/nowhere/config")), "--config-dir").await;
        let text = missing.err().unwrap().to_string();
        assert!(
            text.starts_with("--kubeconfig /nowhere/config: ") && !text.contains('\n'),
            "{text}"
        );
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
            let text = connect(None, "--config-dir").await.err().unwrap();
            let text = text.to_string();
            assert!(
                text.contains("--config-dir DIR") && !text.contains('\n'),
                "{text}"
            );
        }
    }
}
