//! Hosts beside those of rules: annotations say that they are served as another host is, or lead to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::model::Ingress;

/// What a host has in common with the host that it stands beside. In order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AliasKind {
    /// It has the same routes.
    Same,
    /// Its clients are sent to the other host.
    Redirect,
}

/// A host that an Ingress asks for beside those of its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The host, in normal form.
    pub host: Arc<str>,
    /// The host of the Ingress's rules that it stands beside.
    pub of: Arc<str>,
    /// How it is served.
    pub kind: AliasKind,
    /// The full key of the annotation that asks for it.
    pub key: &'static str,
}

/// An alias and the Ingress that asks for it.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The Ingress.
    pub ingress: Arc<Ingress>,
    /// What it asks for.
    pub alias: Alias,
}

impl Offer {
    /// Sort key: routes before redirects, then the oldest first.
    fn rank(&self) -> (AliasKind, (i64, &str, &str)) {
        (self.alias.kind, self.ingress.age())
    }

    /// True when it comes to the same as another one.
    fn agrees(&self, other: &Self) -> bool {
        (self.alias.kind, &self.alias.of) == (other.alias.kind, &other.alias.of)
    }
}

/// What a host is built from.
#[derive(Clone, Debug)]
pub struct HostSources<'a> {
    /// The host whose rules are served: itself, or the one that it is an alias of.
    pub rules_of: &'a str,
    /// The Ingresses with such rules, oldest first; empty when nothing is left of the host.
    pub ingresses: &'a [Arc<Ingress>],
    /// The annotation that makes it exist; `None` for a host with rules.
    pub alias: Option<&'a Offer>,
    /// Annotations that ask for the host to no effect.
    pub refused: Vec<&'a Offer>,
}

/// The index of aliases.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    /// Host -> who asks for it, in order of precedence.
    offers: HashMap<Arc<str>, Vec<Offer>>,
    /// Host with rules -> hosts beside it, with the number of offers.
    beside: HashMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
}

impl Aliases {
    /// All hosts that are asked for, in no order.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.offers.keys()
    }

    /// The hosts beside a host with rules, in order.
    pub(super) fn beside(&self, host: &str) -> impl Iterator<Item = &Arc<str>> {
        self.beside.get(host).into_iter().flat_map(BTreeMap::keys)
    }

    /// Who asks for a host, in order of precedence.
    fn offers(&self, host: &str) -> &[Offer] {
        self.offers.get(host).map_or(&[], Vec::as_slice)
    }

    /// What a host is built from. Rules of its own beat every alias.
    pub(super) fn sources<'a>(
        &'a self,
        host: &'a str,
        hosts: &'a HashMap<Arc<str>, Vec<Arc<Ingress>>>,
    ) -> HostSources<'a> {
        let offers = self.offers(host);
        let of = |host: &str| hosts.get(host).map_or(&[][..], Vec::as_slice);
        let own = of(host);
        let alias = offers.first().filter(|_| own.is_empty());
        let (rules_of, ingresses) = match alias {
            Some(offer) => (&*offer.alias.of, of(&offer.alias.of)),
            None => (host, own),
        };
        let refused = offers.iter();
        let refused = refused.filter(|offer| !alias.is_some_and(|alias| offer.agrees(alias)));
        HostSources {
            rules_of,
            ingresses,
            alias,
            refused: refused.collect(),
        }
    }

    /// Replaces the aliases of one version of an Ingress by those of the next, and adds the hosts that come or go to
    /// `touched`.
    pub(super) fn replace(
        &mut self,
        old: Option<(&Arc<Ingress>, &[Alias])>,
        new: Option<(&Arc<Ingress>, &[Alias])>,
        touched: &mut BTreeSet<Arc<str>>,
    ) {
        let (before, after) = (list(old), list(new));
        let gone = before.iter().filter(|alias| !after.contains(alias));
        let come = after.iter().filter(|alias| !before.contains(alias));
        touched.extend(gone.chain(come).map(|alias| alias.host.clone()));
        if let Some((ingress, aliases)) = old {
            aliases.iter().for_each(|alias| self.leave(ingress, alias));
        }
        if let Some((ingress, aliases)) = new {
            aliases.iter().for_each(|alias| self.join(ingress, alias));
        }
    }

    fn join(&mut self, ingress: &Arc<Ingress>, alias: &Alias) {
        let offer = Offer {
            ingress: ingress.clone(),
            alias: alias.clone(),
        };
        let offers = self.offers.entry(alias.host.clone()).or_default();
        let at = offers.partition_point(|other| other.rank() < offer.rank());
        offers.insert(at, offer);
        let beside = self.beside.entry(alias.of.clone()).or_default();
        *beside.entry(alias.host.clone()).or_default() += 1;
    }

    fn leave(&mut self, ingress: &Ingress, alias: &Alias) {
        if let Some(offers) = self.offers.get_mut(&alias.host) {
            let age = ingress.age();
            offers.retain(|offer| offer.ingress.age() != age || offer.alias != *alias);
            if offers.is_empty() {
                self.offers.remove(&alias.host);
            }
        }
        let Some(beside) = self.beside.get_mut(&alias.of) else {
            return;
        };
        if let Some(count) = beside.get_mut(&alias.host) {
            *count -= 1;
            if *count == 0 {
                beside.remove(&alias.host);
            }
        }
        if beside.is_empty() {
            self.beside.remove(&alias.of);
        }
    }
}

fn list<'a>(version: Option<(&Arc<Ingress>, &'a [Alias])>) -> &'a [Alias] {
    version.map_or(&[], |(_, aliases)| aliases)
}
