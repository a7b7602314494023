//! Compares the project's messages with those that the Go module `istio.io/api` registers.
//!
//! Everything published must be here and equal; what is only here must be an extension of Higress.
//! Without Go, or without the module, the test is reported as ignored.

use std::collections::BTreeSet;
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use prost_reflect::{Cardinality, DescriptorPool, EnumDescriptor, Kind, MessageDescriptor};
use serde::Deserialize;

/// Folder of the Go program that prints the published descriptors.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/descriptors");

/// Packages that must be complete.
const PACKAGES: [&str; 9] = [
    "istio.analysis.v1alpha1",
    "istio.extensions.v1alpha1",
    "istio.mcp.v1alpha1",
    "istio.meta.v1alpha1",
    "istio.networking.v1alpha3",
    "istio.networking.v1beta1",
    "istio.security.v1beta1",
    "istio.telemetry.v1alpha1",
    "istio.type.v1beta1",
];

/// Messages that only Higress has.
const HIGRESS_MESSAGES: [&str; 7] = [
    "HTTPInternalActiveRedirect",
    "HTTPInternalActiveRedirect.RedirectPolicy",
    "RegexMatchAndSubstitute",
    "HTTPFilter",
    "IPAccessControl",
    "LocalRateLimit",
    "TokenBucket",
];

/// Fields that Higress adds to published messages.
const HIGRESS_FIELDS: [(&str, &str, i32); 6] = [
    ("VirtualService", "hostHTTPFilters", 1000),
    ("HTTPRoute", "internal_active_redirect", 25),
    ("HTTPRoute", "routeHTTPFilters", 1000),
    ("HTTPRouteDestination", "fallback_clusters", 100),
    ("EnvoyFilter", "wasm_phase", 7),
    ("EnvoyFilter", "wasm_priority", 8),
];

/// One field of a message or, with an empty type, one value of an enum.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Row {
    package: String,
    parent: String,
    name: String,
    number: i32,
    #[serde(rename = "type")]
    kind: String,
    label: String,
    oneof: String,
    json: String,
}

fn main() {
    let arguments = Arguments::from_args();
    let unusable = why_unusable();
    if let Some(reason) = &unusable {
        println!("descriptors: ignored: {reason}");
    }
    let trial = Trial::test("messages_equal_the_published_ones", compare)
        .with_ignored_flag(unusable.is_some());
    libtest_mimic::run(&arguments, vec![trial]).exit();
}

/// Why the published descriptors cannot be had, if so.
fn why_unusable() -> Option<String> {
    let go = |arguments: &[&str]| {
        Command::new("go")
            .args(arguments)
            .current_dir(PROGRAM)
            .output()
    };
    match go(&["mod", "download"]) {
        Err(error) => Some(format!("go is not installed: {error}")),
        Ok(output) if !output.status.success() => Some(format!(
            "the module istio.io/api is not available: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Ok(_) => None,
    }
}

fn compare() -> Result<(), Failed> {
    let published = published_rows()?;
    let ours = our_rows()?;
    if published.len() < 500 {
        return Err(format!("only {} published rows", published.len()).into());
    }
    let missing: Vec<_> = published.difference(&ours).collect();
    let extra: Vec<_> = ours
        .difference(&published)
        .filter(|row| !is_higress(row))
        .collect();
    if missing.is_empty() && extra.is_empty() {
        return higress_is_complete(&ours);
    }
    Err(format!("published, not here: {missing:#?}\nhere, not published: {extra:#?}").into())
}

fn higress_is_complete(ours: &BTreeSet<Row>) -> Result<(), Failed> {
    let has = |test: &dyn Fn(&Row) -> bool| ours.iter().any(test);
    for (message, field, number) in HIGRESS_FIELDS {
        let parent = format!("istio.networking.v1alpha3.{message}");
        if !has(&|row| row.parent == parent && row.name == field && row.number == number) {
            return Err(format!("{parent}.{field} is missing").into());
        }
    }
    for message in HIGRESS_MESSAGES {
        let parent = format!("istio.networking.v1alpha3.{message}");
        if !has(&|row| row.parent == parent) {
            return Err(format!("{parent} is missing").into());
        }
    }
    Ok(())
}

fn is_higress(row: &Row) -> bool {
    let Some(message) = row.parent.strip_prefix("istio.networking.v1alpha3.") else {
        return false;
    };
    HIGRESS_MESSAGES.contains(&message)
        || HIGRESS_FIELDS.contains(&(message, row.name.as_str(), row.number))
}

fn published_rows() -> Result<BTreeSet<Row>, Failed> {
    let output = Command::new("go")
        .args(["run", "."])
        .current_dir(PROGRAM)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let rows: Result<Vec<Row>, _> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .collect();
    Ok(only_packages(rows?))
}

fn our_rows() -> Result<BTreeSet<Row>, Failed> {
    let pool = DescriptorPool::decode(shared_proto::FILE_DESCRIPTOR_SET)?;
    let mut rows = Vec::new();
    // Nested messages and enums are part of these lists.
    pool.all_messages()
        .for_each(|message| push_fields(&message, &mut rows));
    pool.all_enums()
        .for_each(|descriptor| push_values(&descriptor, &mut rows));
    Ok(only_packages(rows))
}

fn only_packages(rows: Vec<Row>) -> BTreeSet<Row> {
    rows.into_iter()
        .filter(|row| PACKAGES.contains(&row.package.as_str()))
        .collect()
}

fn push_fields(message: &MessageDescriptor, rows: &mut Vec<Row>) {
    for field in message.fields() {
        let label = match field.cardinality() {
            Cardinality::Optional => "optional",
            Cardinality::Required => "required",
            Cardinality::Repeated => "repeated",
        };
        let oneof = field.containing_oneof();
        rows.push(Row {
            package: message.package_name().to_owned(),
            parent: message.full_name().to_owned(),
            name: field.name().to_owned(),
            number: i32::try_from(field.number()).unwrap_or(i32::MAX),
            kind: type_of(&field.kind()),
            label: label.to_owned(),
            oneof: oneof.map_or_else(String::new, |oneof| oneof.name().to_owned()),
            json: field.json_name().to_owned(),
        });
    }
}

fn type_of(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(descriptor) => descriptor.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

fn push_values(descriptor: &EnumDescriptor, rows: &mut Vec<Row>) {
    rows.extend(descriptor.values().map(|value| Row {
        package: descriptor.package_name().to_owned(),
        parent: descriptor.full_name().to_owned(),
        name: value.name().to_owned(),
        number: value.number(),
        ..Row::default()
    }));
}
