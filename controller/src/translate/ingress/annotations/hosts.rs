//! Hosts beside those of the rules: further names, and the form with or without `www.`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::table::{CANARY, FROM_TO_WWW_REDIRECT, SERVER_ALIAS};
use super::value::{self, ValueError};
use super::{Annotations, Found, Problems};
use crate::model::{CATCH_ALL, Ingress, Reason, parse_host};
use crate::resolve::{Alias, AliasKind};

const WWW: &str = "www.";

/// What an Ingress asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts {
    /// Names that are served as the first host of the rules is.
    aliases: Option<Found<Vec<Arc<str>>>>,
    /// The key that asks for redirects between hosts with and without `www.`.
    www: Option<&'static str>,
}

/// Reads what is asked.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Hosts> {
    let aliases = annotations.find(&SERVER_ALIAS, value::list, problems);
    let www = annotations.find(&FROM_TO_WWW_REDIRECT, value::boolean, problems);
    let mut hosts = Hosts {
        aliases: aliases.map(|Found { key, value }| Found {
            key,
            value: names(key, value, problems),
        }),
        www: www.filter(|found| found.value).map(|found| found.key),
    };
    // Mistakes in it are reported by its own family.
    let canary = annotations.is_on(&CANARY, &mut Problems::default());
    let no_effect = if canary {
        "has no effect on a canary; put it on the main Ingress"
    } else if named_hosts(annotations.ingress).next().is_none() {
        "has no effect on an Ingress whose rules have no host; give a rule a host"
    } else {
        return (hosts != Hosts::default()).then_some(hosts);
    };
    let keys = [
        hosts.aliases.take().map(|found| found.key),
        hosts.www.take(),
    ];
    for key in keys.into_iter().flatten() {
        problems.add(key, Reason::IneffectiveAnnotation, no_effect);
    }
    None
}

/// Hosts in normal form; those that are none are reported.
fn names(key: &str, list: Vec<String>, problems: &mut Problems) -> Vec<Arc<str>> {
    let mut hosts = Vec::new();
    for text in list {
        match parse_host(&text) {
            Ok(host) if host == CATCH_ALL => {
                let why = "stands for all hosts and is left out; add a rule without host";
                problems.invalid(key, &ValueError::new(&text, why));
            }
            Ok(host) => hosts.push(Arc::from(host)),
            Err(error) => {
                let why = format!("{error}; it is left out");
                problems.invalid(key, &ValueError::new(&text, &why));
            }
        }
    }
    hosts
}

/// The hosts of the rules, as written, but for the one that stands for all others.
fn named_hosts(ingress: &Ingress) -> impl Iterator<Item = &Arc<str>> {
    let hosts = ingress
        .rules
        .iter()
        .filter_map(|rule| rule.host.as_ref().ok());
    hosts.filter(|host| ***host != *CATCH_ALL)
}

impl Hosts {
    /// The hosts that the Ingress asks for, each once.
    pub(crate) fn all(&self, ingress: &Ingress) -> Vec<Alias> {
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        let mut add = |host: Arc<str>, of: &Arc<str>, kind, key| {
            if seen.insert((host.clone(), kind)) {
                let of = of.clone();
                all.push(Alias {
                    host,
                    of,
                    kind,
                    key,
                });
            }
        };
        let first = named_hosts(ingress).next();
        if let (Some(of), Some(found)) = (first, &self.aliases) {
            for host in &found.value {
                add(host.clone(), of, AliasKind::Same, found.key);
            }
        }
        if let Some(key) = self.www {
            for of in named_hosts(ingress).filter(|host| !host.starts_with('*')) {
                let other = match of.strip_prefix(WWW) {
                    Some(without) => without.to_owned(),
                    None => format!("{WWW}{of}"),
                };
                // Too long a name, or nothing after `www.`.
                if let Ok(host) = parse_host(&other) {
                    add(Arc::from(host), of, AliasKind::Redirect, key);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ingress;
    use super::*;
    use crate::model::IngressRule;
    use rstest::rstest;

    #[rstest]
    #[case(&[("nginx/server-alias", "B.test, c.test,b.test")], &["a.test"], "b.test=a.test c.test=a.test", 0)]
    #[case(&[("nginx/server-alias", "b.test")], &["*", "a.test", "x.test"], "b.test=a.test", 0)]
    #[case(&[("nginx/server-alias", "*.b.test")], &["a.test"], "*.b.test=a.test", 0)]
    #[case::invalid(&[("nginx/server-alias", "*, b.test:80, ~^x, 10.0.0.1, c.test")], &["a.test"], "c.test=a.test", 4)]
    #[case::no_host(&[("nginx/server-alias", "b.test"), ("nginx/from-to-www-redirect", "true")], &["*"], "", 2)]
    #[case::canary(&[("nginx/server-alias", "b.test"), ("nginx/canary", "true")], &["a.test"], "", 1)]
    #[case::www(&[("nginx/from-to-www-redirect", "true")], &["a.test", "www.b.test", "*.c.test"], "www.a.test>a.test b.test>www.b.test", 0)]
    #[case::both(&[("nginx/from-to-www-redirect", "true"), ("higress/server-alias", "www.a.test")], &["a.test"], "www.a.test=a.test www.a.test>a.test", 0)]
    #[case::off(&[("nginx/from-to-www-redirect", "false")], &["a.test"], "", 0)]
    #[case::no_boolean(&[("nginx/from-to-www-redirect", "yes")], &["a.test"], "", 1)]
    fn hosts(
        #[case] annotations: &[(&str, &str)],
        #[case] rules: &[&str],
        #[case] expected: &str,
        #[case] mistakes: usize,
    ) {
        let mut ingress = ingress(annotations);
        let rule = |host: &&str| IngressRule {
            host: Ok(Arc::from(*host)),
            paths: Box::default(),
        };
        ingress.rules = rules.iter().map(rule).collect();
        let mut problems = Problems::default();
        let hosts = parse(&Annotations::new(&ingress), &mut problems).unwrap_or_default();
        let shown = |alias: &Alias| match alias.kind {
            AliasKind::Same => format!("{}={}", alias.host, alias.of),
            AliasKind::Redirect => format!("{}>{}", alias.host, alias.of),
        };
        let all: Vec<String> = hosts.all(&ingress).iter().map(shown).collect();
        assert_eq!(all.join(" "), expected);
        assert_eq!(problems.list.len(), mistakes, "{:?}", problems.list);
    }
}
