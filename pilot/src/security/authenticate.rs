//! Lets streams of the secure port in only when their peer proved who it is.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use daemon::seldom::Seldom;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::pki_types::CertificateDer;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tracing::warn;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::listener::SecurePeer;
use super::tokens::{Token, Tokens};
use crate::metrics::{Metrics, ResultLabel};
use crate::model::identity::{Account, Identity};

/// Why a peer is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It shows nothing.
    #[error(
        "neither a token nor a client certificate was sent; gateways are given a token with `pilot bootstrap --xds-token-file`"
    )]
    Nothing,
    /// What it shows is worth nothing.
    #[error("the token was refused: {0}")]
    BadToken(String),
    /// It proved to be somebody else.
    #[error(
        "ServiceAccount {0} is none of the accounts that gateways may have; --gateway-accounts of the pilot lists them"
    )]
    OtherAccount(Account),
    /// Nobody can tell now.
    #[error("the token cannot be verified now: {0}")]
    Unavailable(String),
}

impl Refusal {
    /// Short form, for the metric.
    fn result(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing_shown",
            Self::BadToken(_) => "bad_token",
            Self::OtherAccount(_) => "other_account",
            Self::Unavailable(_) => "unavailable",
        }
    }

    fn status(&self) -> Status {
        let text = self.to_string();
        match self {
            Self::Nothing | Self::BadToken(_) => Status::unauthenticated(text),
            Self::OtherAccount(_) => Status::permission_denied(text),
            Self::Unavailable(_) => Status::unavailable(text),
        }
    }
}

/// The accounts that gateways may have.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// These ones; empty = all of `namespace`.
    pub listed: BTreeSet<Account>,
    /// Namespace of the pilot.
    pub namespace: String,
}

impl Accounts {
    fn check(&self, account: &Account) -> Result<(), Refusal> {
        let allowed = if self.listed.is_empty() {
            account.namespace == self.namespace
        } else {
            self.listed.contains(account)
        };
        allowed
            .then_some(())
            .ok_or_else(|| Refusal::OtherAccount(account.clone()))
    }
}

/// Finds out who peers are.
#[derive(Debug)]
pub struct Authenticator {
    /// `None` without a cluster.
    tokens: Option<Tokens>,
    accounts: Accounts,
    metrics: Metrics,
    seldom: Seldom,
}

impl Authenticator {
    /// Takes tokens of these accounts, and client certificates that the handshake verified.
    pub fn new(tokens: Option<Tokens>, accounts: Accounts, metrics: Metrics) -> Self {
        Self {
            tokens,
            accounts,
            metrics,
            seldom: Seldom::default(),
        }
    }

    /// Who it is. A token counts before a certificate.
    async fn identity(&self, headers: &HeaderMap, peer: &SecurePeer) -> Result<Identity, Refusal> {
        let identity = match (bearer(headers)?, &peer.certificate) {
            (Some(token), _) => {
                let token = Token::read(token)?;
                // Who may not come by its own words need not be proved.
                if let Some(account) = token.claimed_account() {
                    self.accounts.check(&account)?;
                }
                let tokens = self.tokens.as_ref().ok_or_else(|| {
                    let text = "this pilot uses no cluster that could verify it; show a client certificate";
                    Refusal::BadToken(text.to_owned())
                })?;
                let address = peer.tcp.remote_addr.map(|address| address.ip());
                let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                Identity::Token(tokens.verify(&token, address).await?)
            }
            (None, Some(certificate)) => of_certificate(certificate),
            (None, None) => return Err(Refusal::Nothing),
        };
        if let Some(account) = identity.account() {
            self.accounts.check(account)?;
        }
        Ok(identity)
    }

    /// Counts a refusal, tells of it now and then, and makes the answer.
    fn refuse(&self, refusal: &Refusal, peer: &SecurePeer) -> Status {
        let result = refusal.result();
        self.metrics
            .authentications
            .get_or_create(&ResultLabel { result })
            .inc();
        if let Some(left_out) = self.seldom.permit(Instant::now()) {
            let peer = peer.tcp.remote_addr;
            let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
            warn!(peer, reason = %refusal, left_out, "refused a proxy");
        }
        refusal.status()
    }
}

/// The token of `authorization: Bearer <token>`.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Ok(None);
    };
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let wrong = || Refusal::BadToken("the header `authorization` is not `Bearer TOKEN`".to_owned());
    token.map(Some).ok_or_else(wrong)
}

/// What a verified client certificate says. One without an account is taken for the sake of who signed it.
fn of_certificate(der: &CertificateDer<'_>) -> Identity {
    let parsed = X509Certificate::from_der(der).ok();
    let parsed = parsed.as_ref().map(|(_, certificate)| certificate);
    let subject = parsed.map(|certificate| certificate.subject().to_string());
    let names = parsed.and_then(|certificate| certificate.subject_alternative_name().ok()?);
    let names = names.map(|extension| extension.value.general_names.as_slice());
    let account = names
        .unwrap_or_default()
        .iter()
        .find_map(|name| match name {
            GeneralName::URI(uri) => Account::from_spiffe(uri),
            _ => None,
        });
    Identity::Certificate {
        subject: subject.unwrap_or_default(),
        account,
    }
}

/// A service behind an [`Authenticator`]: its requests carry the [`Identity`] of their peer as an extension.
#[derive(Clone, Debug)]
pub struct Authenticated<S> {
    inner: S,
    authenticator: Arc<Authenticator>,
}

impl<S> Authenticated<S> {
    /// Puts the service behind the authenticator.
    pub fn new(inner: S, authenticator: Authenticator) -> Self {
        Self {
            inner,
            authenticator: Arc::new(authenticator),
        }
    }
}

impl<S: NamedService> NamedService for Authenticated<S> {
    const NAME: &'static str = S::NAME;
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<S, B> Service<http::Request<B>> for Authenticated<S>
where
    S: Service<http::Request<B>, Response = http::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let authenticator = self.authenticator.clone();
        // The clone that was asked for readiness is the one that is used.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let Some(peer) = parts.extensions.get::<SecurePeer>().cloned() else {
                let status = Status::internal("the connection of this stream is not known");
                return Ok(status.into_http());
            };
            let identity = authenticator.identity(&parts.headers, &peer);
            let identity = match identity.await {
                Ok(identity) => identity,
                Err(refusal) => return Ok(authenticator.refuse(&refusal, &peer).into_http()),
            };
            request = http::Request::from_parts(parts, body);
            // Further on nobody needs the token.
            request.headers_mut().remove(AUTHORIZATION);
            request.extensions_mut().insert(peer.tcp);
            request.extensions_mut().insert(identity);
            inner.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use tonic::transport::server::TcpConnectInfo;

    use super::*;

    fn authenticator(listed: &[&str]) -> Authenticator {
        let accounts = Accounts {
            listed: listed.iter().map(|text| text.parse().unwrap()).collect(),
            namespace: "sys".to_owned(),
        };
        Authenticator::new(None, accounts, Metrics::new().0)
    }

    fn certificate(spiffe: Option<&str>) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(vec!["gw.test".to_owned()]).unwrap();
        let uris = spiffe.map(|uri| rcgen::SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(uris);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    async fn identity(
        authenticator: &Authenticator,
        header: Option<&str>,
        certificate: Option<&CertificateDer<'static>>,
    ) -> Result<Identity, Refusal> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, header.parse().unwrap());
        }
        let peer = SecurePeer {
            tcp: TcpConnectInfo {
                local_addr: None,
                remote_addr: None,
            },
            certificate: certificate.cloned(),
        };
        authenticator.identity(&headers, &peer).await
    }

    #[tokio::test]
    async fn who_shows_nothing_or_nonsense_is_refused() {
        let own = authenticator(&[]);
        assert_eq!(identity(&own, None, None).await, Err(Refusal::Nothing));
        // A certificate does not make up for a bad token.
        let certificate = certificate(None);
        for header in ["Basic abc", "Bearer", "Bearer a.b.c"] {
            let refused = identity(&own, Some(header), Some(&certificate)).await;
            assert!(
                matches!(refused, Err(Refusal::BadToken(_))),
                "{header}: {refused:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_token_of_another_account_is_not_worth_a_question() {
        // {"sub": "system:serviceaccount:apps:web"}
        let header = "Bearer e30.eyJzdWIiOiAic3lzdGVtOnNlcnZpY2VhY2NvdW50OmFwcHM6d2ViIn0.c2ln";
        let refused = identity(&authenticator(&[]), Some(header), None).await;
        let account = "apps/web".parse().unwrap();
        assert_eq!(refused, Err(Refusal::OtherAccount(account)));
    }

    #[tokio::test]
    async fn a_certificate_counts_and_its_account_must_be_allowed() {
        let spiffe = "spiffe://cluster.local/ns/sys/sa/gw";
        let (plain, named) = (certificate(None), certificate(Some(spiffe)));
        let own = authenticator(&[]);
        let taken = identity(&own, None, Some(&plain)).await.unwrap();
        assert_eq!(taken.account(), None);
        let taken = identity(&own, None, Some(&named)).await.unwrap();
        assert_eq!(taken.account(), Some(&"sys/gw".parse().unwrap()));
        let others = authenticator(&["sys/other", "apps/gw"]);
        let refused = identity(&others, None, Some(&named)).await;
        assert_eq!(
            refused,
            Err(Refusal::OtherAccount("sys/gw".parse().unwrap()))
        );
    }

    #[test]
    fn accounts_are_listed_or_those_of_the_namespace() {
        let allowed = |listed: &[&str], account: &str| {
            let accounts = authenticator(listed).accounts;
            accounts.check(&account.parse().unwrap()).is_ok()
        };
        assert!(allowed(&[], "sys/gw") && !allowed(&[], "apps/gw"));
        assert!(allowed(&["apps/gw"], "apps/gw") && !allowed(&["apps/gw"], "sys/gw"));
    }

    #[test]
    fn refusals_have_the_codes_that_envoy_tells_apart() {
        let code = |refusal: Refusal| refusal.status().code();
        assert_eq!(code(Refusal::Nothing), tonic::Code::Unauthenticated);
        let account = "a/b".parse().unwrap();
        let other = Refusal::OtherAccount(account);
        assert_eq!(code(other), tonic::Code::PermissionDenied);
        let away = Refusal::Unavailable("away".to_owned());
        assert_eq!(code(away), tonic::Code::Unavailable);
    }
}
