//! The names that a client subscribed to one by one.

use std::collections::BTreeSet;

use crate::resource::{Name, ResourceMap};

/// From this many names on, a client that wants most of what there is is kept as "all but these".
const MANY: usize = 4;

/// A set of names, relative to the resources that exist.
///
/// A thousand proxies that each ask for ten thousand routes by name would cost more than the routes. What a
/// proxy asks for is nearly always all there is, so that is what is stored: the exceptions.
#[derive(Clone, Debug)]
pub(crate) enum Names {
    /// These.
    Few(BTreeSet<Name>),
    /// All that exist, without `except`, and `extra`, which don't exist.
    Most {
        except: BTreeSet<Name>,
        extra: BTreeSet<Name>,
    },
}

impl Default for Names {
    fn default() -> Self {
        Self::Few(BTreeSet::new())
    }
}

impl Names {
    pub(crate) fn contains(&self, name: &str, existing: &ResourceMap) -> bool {
        match self {
            Self::Few(names) => names.contains(name),
            Self::Most { except, .. } if existing.contains_key(name) => !except.contains(name),
            Self::Most { extra, .. } => extra.contains(name),
        }
    }

    pub(crate) fn insert(&mut self, name: Name, existing: &ResourceMap) {
        match self {
            Self::Few(names) => {
                names.insert(name);
                if names.len() >= MANY && names.len() > existing.len() / 2 {
                    self.turn_around(existing);
                }
            }
            Self::Most { except, .. } if existing.contains_key(&name) => {
                except.remove(&name);
            }
            Self::Most { extra, .. } => {
                extra.insert(name);
            }
        }
    }

    /// Says whether the name was there.
    pub(crate) fn remove(&mut self, name: &str, existing: &ResourceMap) -> bool {
        match self {
            Self::Few(names) => names.remove(name),
            Self::Most { except, extra } => match existing.get_key_value(name) {
                Some((name, _)) => except.insert(name.clone()),
                None => extra.remove(name),
            },
        }
    }

    /// A resource exists that did not before; the subscription stays what it was.
    pub(crate) fn appeared(&mut self, name: &Name) {
        if let Self::Most { except, extra } = self
            && !extra.remove(name)
        {
            except.insert(name.clone());
        }
    }

    /// A resource exists no more; the subscription stays what it was.
    pub(crate) fn vanished(&mut self, name: &Name) {
        if let Self::Most { except, extra } = self
            && !except.remove(name)
        {
            extra.insert(name.clone());
        }
    }

    pub(crate) fn len(&self, existing: &ResourceMap) -> usize {
        match self {
            Self::Few(names) => names.len(),
            Self::Most { except, extra } => existing.len() - except.len() + extra.len(),
        }
    }

    /// All names. Cost: all that exist.
    pub(crate) fn all(&self, existing: &ResourceMap) -> BTreeSet<Name> {
        match self {
            Self::Few(names) => names.clone(),
            Self::Most { except, extra } => {
                let wanted = existing.keys().filter(|name| !except.contains(*name));
                wanted.chain(extra).cloned().collect()
            }
        }
    }

    fn turn_around(&mut self, existing: &ResourceMap) {
        let names = self.all(existing);
        let except = existing.keys().filter(|name| !names.contains(*name));
        *self = Self::Most {
            except: except.cloned().collect(),
            extra: names
                .iter()
                .filter(|name| !existing.contains_key(*name))
                .cloned()
                .collect(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Any;
    use crate::resource::Resource;

    fn existing(range: std::ops::Range<u32>) -> ResourceMap {
        let resource = Resource::encode("t", &Any::default());
        range
            .map(|n| (Name::from(format!("n{n:03}")), resource.clone()))
            .collect()
    }

    #[test]
    fn many_names_are_kept_as_exceptions_and_mean_the_same() {
        let map = existing(0..100);
        let mut names = Names::default();
        let mut model = BTreeSet::new();
        for n in (0..100).chain([200, 201]).filter(|n| *n != 7) {
            let name = Name::from(format!("n{n:03}"));
            names.insert(name.clone(), &map);
            model.insert(name);
        }
        assert!(
            matches!(&names, Names::Most { except, extra } if except.len() == 1 && extra.len() == 2)
        );
        assert_eq!(names.all(&map), model);
        assert_eq!(names.len(&map), model.len());
        assert!(names.remove("n003", &map) && !names.remove("n003", &map));
        assert!(names.contains("n200", &map) && !names.contains("n007", &map));
        // n200 comes into being, n202 too, which nobody asked for; n005 goes.
        let mut next = map.clone();
        next.extend(existing(200..201));
        next.extend(existing(202..203));
        next.remove("n005");
        names.appeared(&"n200".into());
        names.appeared(&"n202".into());
        names.vanished(&"n005".into());
        model.remove("n003");
        assert_eq!(names.all(&next), model);
    }
}
