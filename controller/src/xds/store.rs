//! Encoded output by kind. Only what changed is encoded and replaced; everything else is shared with older snapshots.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use shared_proto::{Config, Kind, mcp};
use xds_engine::{Name, Resource, ResourceMap, Snapshot};

static NOTHING: LazyLock<ResourceMap> = LazyLock::new(ResourceMap::new);

/// An immutable set of encoded configs. Clones are cheap and share everything.
#[derive(Clone, Debug, Default)]
pub struct ConfigMaps {
    maps: BTreeMap<Kind, ResourceMap>,
}

impl ConfigMaps {
    /// Configs of one kind, by `namespace/name`.
    pub fn of(&self, kind: Kind) -> &ResourceMap {
        self.maps.get(&kind).unwrap_or(&NOTHING)
    }

    /// All configs, decoded, ordered by kind and name.
    pub fn decode(&self) -> impl Iterator<Item = Config> + '_ {
        let resources = self.maps.values().flat_map(|map| map.values());
        resources.filter_map(|resource| {
            let (_, value) = resource.parts().ok()?;
            mcp::decode(value.into()).ok()?.to_config().ok()
        })
    }
}

impl Snapshot for ConfigMaps {
    /// Every known kind is answered in every spelling, with an empty list when nothing of it is produced: peers wait for an
    /// answer to each. Anything else, such as MeshConfig, is never answered.
    fn resources(&self, type_url: &str) -> Option<&ResourceMap> {
        Kind::from_type_url(type_url).map(|kind| self.of(kind))
    }
}

/// Output of all units.
#[derive(Debug, Default)]
pub struct OutputStore {
    maps: ConfigMaps,
    /// Unit -> what it put into the maps.
    units: HashMap<Arc<str>, Box<[(Kind, Name)]>>,
}

impl OutputStore {
    /// Replaces the output of one unit and says how many resources differ now. Equal bytes stay the same resource.
    pub fn replace(&mut self, unit: &Arc<str>, configs: &[Config]) -> usize {
        let mut changed = 0;
        let mut names = Vec::with_capacity(configs.len());
        for config in configs {
            let (name, bytes) = mcp::encode(config);
            let resource = Resource::from_encoded(mcp::RESOURCE_TYPE_URL, &bytes);
            let map = self.maps.maps.entry(config.kind()).or_default();
            let name = match map.get_key_value(name.as_str()) {
                Some((known, old)) if old.version() == resource.version() => known.clone(),
                _ => {
                    changed += 1;
                    let name: Name = Arc::from(name);
                    map.insert(name.clone(), resource);
                    name
                }
            };
            names.push((config.kind(), name));
        }
        let before = if names.is_empty() {
            self.units.remove(unit)
        } else {
            self.units
                .insert(unit.clone(), names.clone().into_boxed_slice())
        };
        for (kind, name) in before.iter().flatten() {
            let gone = !names.iter().any(|(k, n)| k == kind && n == name);
            if gone && let Some(map) = self.maps.maps.get_mut(kind) {
                changed += usize::from(map.remove(name).is_some());
            }
        }
        changed
    }

    /// Number of units with output.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// The present state.
    pub fn snapshot(&self) -> ConfigMaps {
        self.maps.clone()
    }
}
