//! Grammars of annotations: any text as the value of any key, on a host with a path.
//!
//! Input: texts separated by zero bytes. The first is the path, the others are values; the first byte of each chooses its key.
#![no_main]

use std::sync::Arc;

use controller::app::Pipeline;
use controller::ingest::{Change, Object};
use controller::model::{
    Backend, BackendPort, Ingress, IngressPath, IngressRule, IngressTls, ObjectKind, ObjectRef,
    PathType, Scope,
};
use controller::translate::ingress::annotations::table::KEYS;
use libfuzzer_sys::fuzz_target;
use shared_proto::mcp;

fuzz_target!(|input: &[u8]| {
    let Ok(input) = std::str::from_utf8(input) else {
        return;
    };
    let mut pipeline = Pipeline::new(Arc::new(Scope::default()));
    pipeline.apply(Change {
        objects: vec![ingress(input)],
        ..Change::default()
    });
    for config in pipeline.snapshot().decode() {
        let (_, bytes) = mcp::encode(&config);
        let back = mcp::decode(bytes).and_then(|resource| resource.to_config());
        assert_eq!(back.ok(), Some(config));
    }
});

fn ingress(input: &str) -> (ObjectRef, Option<Object>) {
    let mut texts = input.split('\0');
    let path = texts.next().unwrap_or_default();
    let (namespace, name): (Arc<str>, Arc<str>) = ("n".into(), "i".into());
    let mut ingress = Ingress::new(namespace.clone(), name.clone());
    ingress.class_name = Some("higress".into());
    ingress.tls = Box::new([IngressTls {
        hosts: Box::new(["a.test".into()]),
        secret: "cert".into(),
    }]);
    ingress.rules = Box::new([IngressRule {
        host: Ok("a.test".into()),
        paths: Box::new([IngressPath {
            path: path.into(),
            path_type: PathType::ImplementationSpecific,
            backend: Backend::Service {
                name: "s".into(),
                port: BackendPort::Number(80),
            },
        }]),
    }]);
    for text in texts {
        let Some(choice) = text.chars().next() else {
            continue;
        };
        let key = &KEYS[choice as usize % KEYS.len()];
        let full = format!("{}{}", key.higress, if key.named { "x-user" } else { "" });
        ingress
            .annotations
            .insert(full.into(), text[choice.len_utf8()..].into());
    }
    let reference = ObjectRef {
        kind: ObjectKind::Ingress,
        namespace,
        name,
    };
    (
        reference,
        Some(Object::Ingress(Box::new(ingress.indexed()))),
    )
}
