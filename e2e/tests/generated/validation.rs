//! `envoy --mode validate` on generated resources.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use pilot::bootstrap::{BootstrapOptions, bootstrap};
use pilot::xds::class::Resources;
use serde_json::{Map, Value, json};
use shared_proto::envoy::any_to_json;
use xds_engine::ResourceMap;

/// The whole configuration of an Envoy with these resources built in.
pub(crate) fn configuration(resources: &Resources) -> Result<Value> {
    let routes = by_name(&resources.routes)?;
    let mut listeners = bodies(&resources.listeners)?;
    for listener in &mut listeners {
        inline_routes(listener, &routes)?;
    }
    let mut configuration = bootstrap(&BootstrapOptions::default());
    let built_in = configuration
        .pointer_mut("/static_resources")
        .context("no static resources")?;
    extend(built_in, "listeners", listeners)?;
    extend(built_in, "clusters", bodies(&resources.clusters)?)?;
    extend(built_in, "secrets", bodies(&resources.secrets)?)?;
    Ok(configuration)
}

/// Asks Envoy what it thinks of a configuration.
///
/// # Errors
/// It refuses it; the message is Envoy's.
pub(crate) fn validate(envoy: &Path, configuration: &Value, folder: &Path) -> Result<()> {
    let file = folder.join("envoy.json");
    std::fs::write(&file, configuration.to_string())?;
    let output = Command::new(envoy)
        .args(["--mode", "validate", "--log-level", "error", "-c"])
        .arg(&file)
        .output()?;
    if !output.status.success() {
        bail!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn bodies(resources: &ResourceMap) -> Result<Vec<Value>> {
    Ok(by_name(resources)?.into_values().collect())
}

fn by_name(resources: &ResourceMap) -> Result<std::collections::BTreeMap<String, Value>> {
    let body = |(name, resource): (&xds_engine::Name, &std::sync::Arc<xds_engine::Resource>)| {
        let (type_url, bytes) = resource.parts()?;
        let mut body =
            any_to_json(&type_url, &bytes).with_context(|| format!("{name} cannot be shown"))?;
        body.as_object_mut().map(|members| members.remove("@type"));
        Ok((name.to_string(), body))
    };
    resources.iter().map(body).collect()
}

/// Puts route configurations into the connection managers that would ask for them.
fn inline_routes(
    value: &mut Value,
    routes: &std::collections::BTreeMap<String, Value>,
) -> Result<()> {
    match value {
        Value::Object(members) => {
            if let Some(rds) = members.remove("rds") {
                let name = rds
                    .get("routeConfigName")
                    .and_then(Value::as_str)
                    .context("no name of routes")?;
                let routes = routes
                    .get(name)
                    .with_context(|| format!("no routes {name}"))?;
                members.insert("routeConfig".to_owned(), routes.clone());
            }
            members
                .values_mut()
                .try_for_each(|member| inline_routes(member, routes))
        }
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| inline_routes(item, routes)),
        _ => Ok(()),
    }
}

fn extend(object: &mut Value, member: &str, values: Vec<Value>) -> Result<()> {
    let object: &mut Map<String, Value> = object.as_object_mut().context("not an object")?;
    let list = object.entry(member).or_insert_with(|| json!([]));
    list.as_array_mut().context("not a list")?.extend(values);
    Ok(())
}
