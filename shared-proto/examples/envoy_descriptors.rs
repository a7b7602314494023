//! Compiles every `.proto` file below the given roots to one encoded `FileDescriptorSet` without source information.
//!
//! Usage: `envoy_descriptors OUTPUT ROOT...`; each root is an import path. `scripts/gen-envoy-descriptors` calls it.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, bail};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

fn main() -> anyhow::Result<()> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let output = arguments.next().context("no output file given")?;
    let roots: Vec<PathBuf> = arguments.collect();
    let mut files = Vec::new();
    for root in &roots {
        collect(root, root, &mut files)?;
    }
    if files.is_empty() {
        bail!("no .proto files below {roots:?}");
    }
    files.sort();

    let mut resolver = ChainFileResolver::new();
    resolver.add(Roots(roots));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_source_info(false).include_imports(true);
    compiler.open_files(&files)?;
    // Unlike the decoded set this keeps custom options, such as validation rules.
    let encoded = compiler.encode_file_descriptor_set();
    fs::write(&output, &encoded)?;
    println!("{} files, {} bytes", files.len(), encoded.len());
    Ok(())
}

/// Finds files below the import paths and completes partly qualified names in them: the compiler would look these up
/// in every package it has seen, while only those count that the file imports.
struct Roots(Vec<PathBuf>);

impl FileResolver for Roots {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let path = self.0.iter().map(|root| root.join(name));
        let Some(path) = path.into_iter().find(|path| path.is_file()) else {
            return Err(protox::Error::file_not_found(name));
        };
        let source = fs::read_to_string(path).map_err(protox::Error::new)?;
        File::from_source(name, &self.qualify(&source))
    }
}

impl Roots {
    fn qualify(&self, source: &str) -> String {
        let package = source
            .lines()
            .find_map(|line| line.strip_prefix("package ")?.strip_suffix(';'))
            .unwrap_or_default();
        let mut out = String::with_capacity(source.len());
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let mut rest = source;
        while !rest.is_empty() {
            let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(length);
            out.push_str(
                &self
                    .full_name(word, package)
                    .unwrap_or_else(|| word.to_owned()),
            );
            let other = tail.find(is_name).unwrap_or(tail.len());
            out.push_str(&tail[..other]);
            rest = &tail[other..];
        }
        out
    }

    /// The full form of `package.part.Type`, seen from the innermost enclosing package that has such a folder.
    fn full_name(&self, word: &str, package: &str) -> Option<String> {
        let split = word.find(|c: char| c.is_ascii_uppercase())?;
        let part = word[..split].strip_suffix('.')?;
        if part.is_empty() || part.starts_with('.') {
            return None;
        }
        let has = |full: &str| {
            let folder = full.replace('.', "/");
            self.0.iter().any(|root| root.join(&folder).is_dir())
        };
        let mut scope = package;
        while !scope.is_empty() {
            if has(&format!("{scope}.{part}")) {
                return Some(format!(".{scope}.{word}"));
            }
            scope = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
        }
        None
    }
}

/// Paths below `dir`, relative to the import path `root`.
fn collect(root: &Path, dir: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("{}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path.strip_prefix(root)?.to_owned());
        }
    }
    Ok(())
}
