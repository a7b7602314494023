//! ServiceAccount tokens, verified by the API server (TokenReview), whose answers are remembered for a while.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use super::authenticate::Refusal;
use super::turns::Turns;
use crate::model::identity::Account;

/// How long a good token is taken without asking again: a gateway can come back while the API server is away, and a deleted
/// account is shut out soon.
const REMEMBER_GOOD: Duration = Duration::from_secs(300);
/// How long a bad token is refused without asking again.
const REMEMBER_BAD: Duration = Duration::from_secs(10);
/// Tokens remembered.
const MAX_REMEMBERED: usize = 10_000;
/// Reviews at the same time.
const MAX_REVIEWS: usize = 16;
/// Reviews at the same time for one address: tokens that are made up must not keep others waiting. Gateways that share an
/// address, such as that of their node, come back soon.
const MAX_REVIEWS_OF_ONE: usize = 4;
/// How long a review may take, waiting for its turn included.
const REVIEW_LIMIT: Duration = Duration::from_secs(5);

type Digest = [u8; 32];

/// An answer of the API server: the account, or why not.
type Verdict = Result<Account, String>;

/// Verifies tokens.
#[derive(Debug)]
pub struct Tokens {
    reviews: Api<TokenReview>,
    audience: String,
    remembered: Mutex<Remembered>,
    turns: Turns,
}

impl Tokens {
    /// Takes tokens that were issued for `audience`.
    pub fn new(client: Client, audience: String) -> Self {
        Self {
            reviews: Api::all(client),
            audience,
            remembered: Mutex::default(),
            turns: Turns::new(MAX_REVIEWS, MAX_REVIEWS_OF_ONE),
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        // Every change is complete in itself, so a panic elsewhere leaves the map usable.
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of a token that came from `peer`.
    ///
    /// # Errors
    /// The token is bad, or nobody can tell.
    pub async fn verify(&self, token: &Token<'_>, peer: IpAddr) -> Result<Account, Refusal> {
        if !token.claims.may_be_for(&self.audience) {
            return Err(Refusal::BadToken(other_audience(&self.audience)));
        }
        let hash = hash(token.text);
        if let Some(known) = self.remembered().get(&hash, Instant::now()) {
            return known.map_err(Refusal::BadToken);
        }
        let reviewed = tokio::time::timeout(REVIEW_LIMIT, self.review(token.text, peer));
        let status = reviewed.await.unwrap_or_else(|_| {
            let text = "the API server does not answer".to_owned();
            Err(Refusal::Unavailable(text))
        })?;
        let verdict = verdict(&status, &self.audience);
        let life = token.claims.life(SystemTime::now());
        self.remembered()
            .insert(hash, verdict.clone(), life, Instant::now());
        verdict.map_err(Refusal::BadToken)
    }

    async fn review(&self, token: &str, peer: IpAddr) -> Result<TokenReviewStatus, Refusal> {
        let turn = self.turns.take(peer).await;
        let _turn = turn.ok_or_else(|| {
            let text = "other tokens of the same address are being verified, try again";
            Refusal::Unavailable(text.to_owned())
        })?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![self.audience.clone()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let answer = self.reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| {
            Refusal::Unavailable(match error {
                kube::Error::Api(status) if status.code == 403 => {
                    "this pilot may not create TokenReviews; grant it that right".to_owned()
                }
                other => other.to_string(),
            })
        })?;
        Ok(answer.status.unwrap_or_default())
    }
}

fn other_audience(audience: &str) -> String {
    format!("it was not issued for the audience {audience}")
}

fn hash(token: &str) -> Digest {
    let mut hash = Digest::default();
    // SHA-256 has exactly as many bytes.
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// An API server that knows no audiences answers without any: then the token is not for us.
fn verdict(status: &TokenReviewStatus, audience: &str) -> Verdict {
    if status.authenticated != Some(true) {
        let error = status.error.clone().filter(|error| !error.is_empty());
        return Err(error.unwrap_or_else(|| "the API server does not know it".to_owned()));
    }
    let audiences = status.audiences.as_deref().unwrap_or_default();
    if !audiences.iter().any(|one| one == audience) {
        return Err(other_audience(audience));
    }
    let user = status
        .user
        .as_ref()
        .and_then(|user| user.username.as_deref());
    let account = user.and_then(Account::from_user);
    account.ok_or_else(|| "it is not that of a ServiceAccount".to_owned())
}

/// A token, not verified yet.
pub struct Token<'a> {
    text: &'a str,
    claims: Claims,
}

impl fmt::Debug for Token<'_> {
    /// Without the token itself, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&self.claims).finish()
    }
}

impl<'a> Token<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// It is no JSON web token.
    pub fn read(text: &'a str) -> Result<Self, Refusal> {
        let no_token = || {
            let text = "it is no token of a Kubernetes ServiceAccount";
            Refusal::BadToken(text.to_owned())
        };
        let claims = Claims::read(text).ok_or_else(no_token)?;
        Ok(Self { text, claims })
    }

    /// Whose it is by its own words; `None` when it does not say so. Enough to refuse it without asking the API server,
    /// never enough to take it.
    pub fn claimed_account(&self) -> Option<Account> {
        self.claims.sub.as_deref().and_then(Account::from_user)
    }
}

/// What a token says of itself (RFC 7519 section 4.1). Nothing is believed before the API server said yes.
#[derive(Debug, Deserialize)]
struct Claims {
    /// End of its validity, in seconds since the Unix epoch.
    exp: Option<u64>,
    /// Its user.
    sub: Option<String>,
    /// Who it was issued for.
    aud: Option<Audiences>,
}

/// One or several (RFC 7519 section 4.1.3).
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Claims {
    /// Reads the middle part of a JSON web token.
    fn read(token: &str) -> Option<Self> {
        let parts: Vec<&str> = token.split('.').collect();
        let &[_, claims, _] = parts.as_slice() else {
            return None;
        };
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    /// Whether the API server could say that it is for this audience.
    fn may_be_for(&self, audience: &str) -> bool {
        match &self.aud {
            None => true,
            Some(Audiences::One(one)) => one == audience,
            Some(Audiences::Several(all)) => all.iter().any(|one| one == audience),
        }
    }

    /// How long it is valid yet.
    fn life(&self, now: SystemTime) -> Duration {
        let Some(exp) = self.exp else {
            return REMEMBER_GOOD;
        };
        let since = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Duration::from_secs(exp).saturating_sub(since)
    }
}

/// Verdicts by hash of the token, so that no token lies in memory for long.
#[derive(Debug, Default)]
struct Remembered(HashMap<Digest, (Verdict, Instant)>);

impl Remembered {
    fn get(&self, hash: &Digest, now: Instant) -> Option<Verdict> {
        let (verdict, until) = self.0.get(hash)?;
        (now < *until).then(|| verdict.clone())
    }

    /// Takes note of a verdict on a token that is valid for `life` yet.
    fn insert(&mut self, hash: Digest, verdict: Verdict, life: Duration, now: Instant) {
        let limit = match &verdict {
            Ok(_) => REMEMBER_GOOD.min(life),
            Err(_) => REMEMBER_BAD,
        };
        if self.0.len() >= MAX_REMEMBERED {
            self.0.retain(|_, (_, until)| now < *until);
        }
        // What ends first goes first: bad tokens before good ones.
        if self.0.len() >= MAX_REMEMBERED
            && let Some(first) = self.0.iter().min_by_key(|(_, (_, until))| *until)
        {
            let first = *first.0;
            self.0.remove(&first);
        }
        self.0.insert(hash, (verdict, now + limit));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    fn account() -> Account {
        "sys/gw".parse().unwrap()
    }

    #[test]
    fn verdicts_end_with_the_token_and_bad_ones_soon() {
        let (mut all, now) = (Remembered::default(), Instant::now());
        let (good, short, bad) = ([1; 32], [2; 32], [3; 32]);
        all.insert(good, Ok(account()), Duration::from_secs(3600), now);
        all.insert(short, Ok(account()), Duration::from_secs(1), now);
        let long = Duration::from_secs(3600);
        all.insert(bad, Err("no".to_owned()), long, now);
        for hash in [good, short, bad] {
            assert!(all.get(&hash, now).is_some());
        }
        assert_eq!(all.get(&short, now + Duration::from_secs(1)), None);
        assert_eq!(all.get(&bad, now + REMEMBER_BAD), None);
        let last = now + REMEMBER_GOOD - Duration::from_secs(1);
        assert_eq!(all.get(&good, last), Some(Ok(account())));
        assert_eq!(all.get(&good, now + REMEMBER_GOOD), None);
    }

    #[test]
    fn many_bad_tokens_do_not_drive_out_good_ones() {
        let (mut all, now) = (Remembered::default(), Instant::now());
        let long = Duration::from_secs(3600);
        all.insert([255; 32], Ok(account()), long, now);
        for number in 0..MAX_REMEMBERED + 10 {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_le_bytes());
            all.insert(hash, Err("no".to_owned()), long, now);
        }
        assert_eq!(all.0.len(), MAX_REMEMBERED);
        assert_eq!(all.get(&[255; 32], now), Some(Ok(account())));
    }

    #[test]
    fn only_an_account_with_our_audience_is_taken() {
        let status = |user: &str, audiences: Option<&[&str]>| TokenReviewStatus {
            authenticated: Some(true),
            audiences: audiences.map(|all| all.iter().map(|&one| one.to_owned()).collect()),
            user: Some(UserInfo {
                username: Some(user.to_owned()),
                ..UserInfo::default()
            }),
            error: None,
        };
        let user = "system:serviceaccount:sys:gw";
        let ours = Some(&["istio-ca"][..]);
        assert_eq!(verdict(&status(user, ours), "istio-ca"), Ok(account()));
        assert!(verdict(&status(user, None), "istio-ca").is_err());
        assert!(verdict(&status(user, Some(&["other"])), "istio-ca").is_err());
        assert!(verdict(&status("admin", ours), "istio-ca").is_err());
        let refused = TokenReviewStatus {
            authenticated: Some(false),
            error: Some("expired".to_owned()),
            ..status(user, ours)
        };
        assert_eq!(verdict(&refused, "istio-ca"), Err("expired".to_owned()));
        let nothing = TokenReviewStatus::default();
        assert!(verdict(&nothing, "istio-ca").is_err());
    }

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn claims_give_the_end() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let claims = Claims::read(&token(r#"{"exp": 1000, "sub": "x"}"#)).unwrap();
        assert_eq!(claims.life(at(990)), Duration::from_secs(10));
        assert_eq!(claims.life(at(2000)), Duration::ZERO);
        assert!(Claims::read("opaque").is_none());
        assert!(Claims::read("a.b.c").is_none());
    }
    #[test]
    fn claims_can_speak_against_a_token() {
        let audience = |aud: &str| {
            let claims = Claims::read(&token(&format!(r#"{{"sub": "x"{aud}}}"#)));
            claims.unwrap().may_be_for("istio-ca")
        };
        assert!(audience("") && audience(r#", "aud": "istio-ca""#));
        assert!(audience(r#", "aud": ["api", "istio-ca"]"#));
        assert!(!audience(r#", "aud": "api""#) && !audience(r#", "aud": []"#));

        let text = token(r#"{"sub": "system:serviceaccount:sys:gw"}"#);
        let read = Token::read(&text).unwrap();
        assert_eq!(read.claimed_account(), Some(account()));
        let other = token(r#"{"sub": "admin"}"#);
        assert_eq!(Token::read(&other).unwrap().claimed_account(), None);
        assert!(Token::read("opaque").is_err());
    }
}
