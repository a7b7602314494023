//! Who is at the other end of an authenticated connection.

use std::fmt;
use std::str::FromStr;

/// What Kubernetes puts before namespace and name in the user name of a ServiceAccount.
const USER_PREFIX: &str = "system:serviceaccount:";

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why a text names no account.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no account; write it as namespace/name")]
pub struct AccountError(String);

impl Account {
    fn of(namespace: &str, name: &str) -> Option<Self> {
        let fits = |text: &str| !text.is_empty() && !text.contains([':', '/']);
        (fits(namespace) && fits(name)).then(|| Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The account of a user name of Kubernetes, `system:serviceaccount:NAMESPACE:NAME`; `None` for other users.
    pub fn from_user(user: &str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
        Self::of(namespace, name)
    }

    /// The account of a SPIFFE id as Istio writes it, `spiffe://DOMAIN/ns/NAMESPACE/sa/NAME`; `None` for other URIs.
    pub fn from_spiffe(uri: &str) -> Option<Self> {
        let parts: Vec<&str> = uri.strip_prefix("spiffe://")?.split('/').collect();
        match parts.as_slice() {
            [_, "ns", namespace, "sa", name] => Self::of(namespace, name),
            _ => None,
        }
    }
}

impl FromStr for Account {
    type Err = AccountError;

    fn from_str(text: &str) -> Result<Self, AccountError> {
        let parts = text.split_once('/');
        let account = parts.and_then(|(namespace, name)| Self::of(namespace, name));
        account.ok_or_else(|| AccountError(text.to_owned()))
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a peer proved of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It has a token of this account.
    Token(Account),
    /// It has the key of a client certificate.
    Certificate {
        /// Subject of the certificate.
        subject: String,
        /// The account that the certificate names, if any.
        account: Option<Account>,
    },
}

impl Identity {
    /// The account of the peer, if it is known.
    pub fn account(&self) -> Option<&Account> {
        match self {
            Self::Token(account) => Some(account),
            Self::Certificate { account, .. } => account.as_ref(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(account) => write!(f, "token of ServiceAccount {account}"),
            Self::Certificate { subject, account } => {
                write!(f, "client certificate {subject}")?;
                account
                    .iter()
                    .try_for_each(|account| write!(f, " of ServiceAccount {account}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Account::from_user("system:serviceaccount:sys:gw"), Some("sys/gw"))]
    #[case(Account::from_user("system:serviceaccount:sys:"), None)]
    #[case(Account::from_user("system:serviceaccount:sys:a:b"), None)]
    #[case(Account::from_user("system:node:sys:gw"), None)]
    #[case(Account::from_user("admin"), None)]
    #[case(
        Account::from_spiffe("spiffe://cluster.local/ns/sys/sa/gw"),
        Some("sys/gw")
    )]
    #[case(Account::from_spiffe("spiffe://cluster.local/ns/sys/sa/gw/x"), None)]
    #[case(Account::from_spiffe("https://cluster.local/ns/sys/sa/gw"), None)]
    #[case("sys/gw".parse().ok(), Some("sys/gw"))]
    #[case("gw".parse().ok(), None)]
    #[case("a/b/c".parse().ok(), None)]
    fn accounts(#[case] read: Option<Account>, #[case] expected: Option<&str>) {
        let read = read.map(|account| account.to_string());
        assert_eq!(read.as_deref(), expected);
    }
}
