//! The project's images on the node, made of the programs under test.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::{run, script};
use crate::envoy::{self, workspace};
use crate::stack;

/// Tag of the images under test.
pub const TAG: &str = "e2e";
/// Another name of the same images: what an upgrade goes to.
pub const NEXT_TAG: &str = "e2e-next";
/// Image of the echo backend.
pub const ECHO: &str = "ghcr.io/isthmus-gateway/isthmus-echo:e2e";

/// Assembles images (`controller`, `pilot`, `gateway`, `echo`) and brings them to the node under both tags.
///
/// # Errors
/// A program has not been built, or the node refuses an image.
pub fn load_images(names: &[&str]) -> Result<()> {
    let programs = stack::programs()?;
    let folder = programs.pilot.parent().context("a program has a folder")?;
    let out = tempfile::Builder::new()
        .prefix("isthmus-images-")
        .tempdir()?;
    let mut command = Command::new(workspace().join("scripts/image"));
    command
        .env("ISTHMUS_ENVOY", envoy::find()?)
        .arg("build")
        .args(names)
        .args(["--tag", TAG, "--tag", NEXT_TAG])
        .arg("--bin-dir")
        .arg(folder)
        .arg("--out")
        .arg(out.path());
    run("image", &mut command)?;
    for name in names {
        let archive = out.path().join(format!("{name}.tar"));
        script(&["load", &archive.display().to_string()])?;
    }
    Ok(())
}
