//! Finds Envoy, and reads its admin interface.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::http::{Exchange, Target};

/// Oldest fitting release.
const OLDEST: (u32, u32) = (1, 38);

/// Root of the workspace.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The Envoy to use: `$ISTHMUS_ENVOY`, else a fitting one on the PATH, else the one that `scripts/envoy` installed.
///
/// # Errors
/// There is none; the message says what to do.
pub fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ISTHMUS_ENVOY").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let release = release(&path)
            .with_context(|| format!("ISTHMUS_ENVOY={} does not run", path.display()))?;
        if release < OLDEST {
            bail!(
                "ISTHMUS_ENVOY={} is {}.{}, needed is 1.38 or newer",
                path.display(),
                release.0,
                release.1
            );
        }
        return Ok(path);
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&on_path)
        .map(|folder| folder.join("envoy"))
        .chain(installed());
    candidates
        .filter(|path| path.is_file())
        .find(|path| release(path).is_some_and(|release| release >= OLDEST))
        .context("no Envoy 1.38 or newer: run scripts/envoy, or set ISTHMUS_ENVOY")
}

fn installed() -> Option<PathBuf> {
    let libraries = workspace().join(".cache/venv/lib");
    let versions = std::fs::read_dir(libraries).ok()?.flatten();
    versions
        .map(|entry| entry.path().join("site-packages/envoy/_bin/envoy"))
        .find(|path| path.is_file())
}

/// Major and minor number of an Envoy, `None` when it is not one.
fn release(path: &Path) -> Option<(u32, u32)> {
    let output = Command::new(path).arg("--version").output().ok()?;
    parse_release(&String::from_utf8_lossy(&output.stdout))
}

/// Reads `... version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`.
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let version = text.split_once("version: ")?.1.split('/').nth(1)?;
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// All numeric statistics whose name fits `filter`, a regular expression.
///
/// # Errors
/// The admin interface does not answer.
pub async fn stats(admin: &Target, filter: &str) -> Result<Vec<(String, u64)>> {
    let path = format!(
        "/stats?filter={}",
        filter.replace('\\', "%5C").replace('|', "%7C")
    );
    let text = Exchange::get("localhost", &path).send(admin).await?.text();
    let split = |line: &str| {
        let (name, value) = line.rsplit_once(": ")?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    Ok(text.lines().filter_map(split).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_read() {
        let text = "envoy  version: 9e5580/1.40.0/Clean/RELEASE/BoringSSL";
        assert_eq!(parse_release(text), Some((1, 40)));
        assert_eq!(parse_release("something else"), None);
    }
}
