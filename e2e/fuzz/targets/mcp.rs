//! What the pilot reads from a controller, and what it makes of it. Input: an encoded resource.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pilot::model::change::Change;
use pilot::model::config::StoredConfig;
use pilot::model::proxy::ProxyClass;
use pilot::push::world::World;
use pilot::xds::class::{ClassSnapshot, PushOptions};
use shared_proto::mcp;

fuzz_target!(|input: &[u8]| {
    let Ok(resource) = mcp::decode(input.to_vec().into()) else {
        return;
    };
    let Ok(stored) = StoredConfig::from_mcp(resource, "cluster.local") else {
        return;
    };
    let (world, _) = World::default().next(vec![Change::Config(
        stored.key.clone(),
        Some(Arc::new(stored)),
    )]);
    let class = ProxyClass {
        namespace: "higress-system".into(),
        labels: Default::default(),
        secrets: true,
        metadata: Default::default(),
    };
    ClassSnapshot::build(class, &world, &PushOptions::default());
});
