//! Several sources of configs as one: of equal objects the one of the first source counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use shared_proto::config::ConfigKey;

use crate::model::change::Change;
use crate::model::config::StoredConfig;

type Versions = HashMap<ConfigKey, Vec<Option<Arc<StoredConfig>>>>;

/// What each source has of each object. With one source nothing is kept.
#[derive(Debug)]
pub struct Merge {
    sources: usize,
    versions: Mutex<Versions>,
}

impl Merge {
    /// For this number of sources.
    pub fn new(sources: usize) -> Self {
        Self {
            sources,
            versions: Mutex::default(),
        }
    }

    /// What changes of one source change of the whole.
    pub fn apply(&self, source: usize, changes: Vec<Change>) -> Vec<Change> {
        if self.sources < 2 {
            return changes;
        }
        // A panic cannot leave half a change here: every entry is replaced at once.
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let merged = changes.into_iter().map(|change| match change {
            Change::Config(key, config) => {
                let all = versions
                    .entry(key.clone())
                    .or_insert_with(|| vec![None; self.sources]);
                if let Some(own) = all.get_mut(source) {
                    *own = config;
                }
                let first = all.iter().flatten().next().cloned();
                if first.is_none() {
                    versions.remove(&key);
                }
                Change::Config(key, first)
            }
            other => other,
        });
        merged.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::Facts;
    use shared_proto::Kind;

    fn config(marker: i64) -> (ConfigKey, Arc<StoredConfig>) {
        let key = ConfigKey::new(Kind::VirtualService, "ns", "a");
        let config = StoredConfig {
            key: key.clone(),
            created: Some(marker),
            labels: Default::default(),
            annotations: Default::default(),
            body: Default::default(),
            facts: Facts::Other,
        };
        (key, Arc::new(config))
    }

    #[test]
    fn the_first_source_that_has_an_object_wins() {
        let merge = Merge::new(2);
        let ((key, one), (_, two)) = (config(1), config(2));
        let change =
            |config: Option<&Arc<StoredConfig>>| vec![Change::Config(key.clone(), config.cloned())];
        assert_eq!(merge.apply(1, change(Some(&two))), change(Some(&two)));
        assert_eq!(merge.apply(0, change(Some(&one))), change(Some(&one)));
        assert_eq!(merge.apply(1, change(None)), change(Some(&one)));
        assert_eq!(merge.apply(0, change(None)), change(None));
    }
}
