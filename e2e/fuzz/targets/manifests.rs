//! The reader of manifests, and the translation of whatever it takes. Input: a file.
#![no_main]

use std::sync::Arc;

use controller::app::Pipeline;
use controller::ingest;
use controller::model::Scope;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut pipeline = Pipeline::new(Arc::new(Scope::default()));
    pipeline.apply(ingest::parse("fuzz.yaml", input));
    assert!(
        pipeline
            .snapshot()
            .decode()
            .all(|config| !config.meta.name.is_empty())
    );
});
