//! Compiles the `.proto` files under `proto/` to Rust: prost messages and their protobuf-JSON codec.

use std::path::{Path, PathBuf};
use std::{env, error::Error, fs};

use prost::Message;

/// Package prefix of everything that is compiled here.
const PREFIX: &str = ".istio";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("proto");
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=build.rs");

    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let descriptors = protox::compile(&files, [root])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.binpb"), &encoded)?;

    prost_build::Config::new()
        // Ordered maps: equal messages have equal bytes.
        .btree_map(["."])
        .bytes(["."])
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com")
        .compile_well_known_types()
        .extern_path(".google.protobuf", "::pbjson_types")
        .extern_path(".google.protobuf.Duration", "crate::well_known::Duration")
        .extern_path(".google.protobuf.Struct", "crate::well_known::Struct")
        .extern_path(".google.protobuf.Value", "crate::well_known::Value")
        .extern_path(".google.protobuf.ListValue", "crate::well_known::ListValue")
        .compile_fds(descriptors)?;

    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .btree_map(["."])
        .ignore_unknown_fields()
        .build(&[PREFIX])?;
    Ok(())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ext| ext == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
