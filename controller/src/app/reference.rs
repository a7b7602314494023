//! `controller annotations`: the reference for users, made of the rows that the parsers use.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::translate::ingress::annotations::table::{Applies, Family, KEYS, Key, Prefixes};
use crate::translate::ingress::annotations::unsupported::{UNSUPPORTED, Unsupported};

const INTRO: &str = "\
# Annotations

Annotations of Ingresses that Isthmus reads, and those that it knows and does not support. This page is the output of
`controller annotations`; `scripts/gen-docs` writes it.

* **Prefixes.** `nginx.ingress.kubernetes.io/` and `higress.io/` mean the same for keys marked *both*. When both are given, the
  first one is used; the second one stands in when the first one's value cannot be used. Keys marked *higress* are read with
  `higress.io/` only.
* **Values.** Booleans are `true` and `false` (also `1`, `0`, `t`, `f`). Numbers are digits without a unit. Defaults are in round
  brackets. `[namespace/]` may be left out; it is then the namespace of the Ingress.
* **Mistakes** cost the feature that they belong to, not the route. Two are graver: a condition that cannot be read costs the
  routes, which would take other requests too, and where access should be restricted and cannot be, nobody gets access.
* **Where mistakes are shown**, each with its object, key and remedy: by `controller translate`, in the log of the controller and
  at `/debug/diagnostics`; they are counted in the metric `isthmus_diagnostics_total`. A key that is not known at all (reason
  `UnknownAnnotation`) is among them.
* **What they hold for.** The routes of their own Ingress, if nothing else is said below.
";

const NOTHING: &str = "
## Keys that do nothing here

Known from ingress-nginx or Higress. They are reported as warnings (reason `UnsupportedAnnotation`) and change nothing.
";

const CLOSED: &str = "
## Keys that close the routes

They restrict access in a way that is not supported. So that nobody gets in who should not, all routes of the Ingress are
answered with 503 until the key is removed (reason `AccessDenied`).
";

/// The page in Markdown.
pub(super) fn markdown() -> String {
    let mut page = INTRO.to_owned();
    for keys in KEYS.chunk_by(|a, b| a.family == b.family) {
        family(&mut page, keys);
    }
    page.push_str(NOTHING);
    unsupported(&mut page, false);
    page.push_str(CLOSED);
    unsupported(&mut page, true);
    page
}

/// The same facts for programs.
pub(super) fn json() -> Value {
    json!({
        "supported": KEYS.iter().map(key_json).collect::<Vec<_>>(),
        "unsupported": UNSUPPORTED.iter().map(unsupported_json).collect::<Vec<_>>(),
    })
}

fn family(page: &mut String, keys: &[Key]) {
    let Some(first) = keys.first() else { return };
    line(page, &format!("\n## {}\n", title(first.family)));
    if keys.iter().all(|key| key.applies == first.applies)
        && let Some(note) = note(first.applies)
    {
        line(page, &format!("{note}\n"));
    }
    line(
        page,
        "| key | prefixes | value | effect |\n|---|---|---|---|",
    );
    for key in keys {
        let cells = [
            &format!("`{}`", shown(key)),
            prefixes(key.prefixes),
            key.grammar,
            key.effect,
        ];
        row(page, cells);
    }
}

fn unsupported(page: &mut String, denies: bool) {
    line(page, "\n| key | would | instead |\n|---|---|---|");
    for known in UNSUPPORTED.iter().filter(|row| row.denies == denies) {
        let name = format!("`{}`", known.name);
        row(page, [&name, known.effect, known.instead]);
    }
}

fn row<const N: usize>(page: &mut String, cells: [&str; N]) {
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    line(page, &format!("| {} |", cells.join(" | ")));
}

fn line(page: &mut String, text: &str) {
    // Writing to a String cannot fail.
    _ = writeln!(page, "{text}");
}

/// The key with a placeholder for what users choose.
fn shown(key: &Key) -> String {
    let placeholder = if key.named { "<name>" } else { "" };
    format!("{}{placeholder}", key.name)
}

fn prefixes(prefixes: Prefixes) -> &'static str {
    match prefixes {
        Prefixes::Both => "both",
        Prefixes::Higress => "higress",
    }
}

fn applies(applies: Applies) -> &'static str {
    match applies {
        Applies::Route => "route",
        Applies::Host => "host",
        Applies::Service => "service",
        Applies::Gateway => "gateway",
    }
}

fn note(applies: Applies) -> Option<&'static str> {
    match applies {
        Applies::Route => None,
        Applies::Host => Some(
            "They hold for the hosts of the Ingress; of several Ingresses of a host the oldest one that has any\nof these keys decides.",
        ),
        Applies::Service => Some(
            "They hold for the Service ports that the Ingress refers to; of several Ingresses the oldest one that has\nsuch keys decides.",
        ),
        Applies::Gateway => Some("They hold for the gateway as a whole."),
    }
}

fn title(family: Family) -> &'static str {
    match family {
        Family::Semantics => "Meaning of paths and annotations",
        Family::Rewrite => "Rewrites and regular expressions",
        Family::Match => "Conditions on requests",
        Family::PathCase => "Letter case of paths",
        Family::Redirect => "Redirects",
        Family::Cors => "Cross-origin requests",
        Family::Canary => "Canaries",
        Family::SourceRange => "Client addresses",
        Family::RateLimit => "Rate limits",
        Family::Timeout => "Timeouts",
        Family::Retry => "Retries",
        Family::Mirror => "Mirrors",
        Family::Fallback => "Fallbacks and error pages",
        Family::DownstreamTls => "TLS with clients",
        Family::UpstreamTls => "Protocol and TLS with backends",
        Family::LoadBalance => "Load balancing",
        Family::HeaderControl => "Headers",
        Family::Destination => "Backends of registries",
        Family::Auth => "Authentication",
        Family::Hosts => "Further hosts",
        Family::ClientLimit => "Limits on each client",
        Family::Body => "Request bodies",
        Family::AccessLog => "Access log",
        Family::Protocols => "Dubbo and MCP servers",
    }
}

fn key_json(key: &Key) -> Value {
    json!({
        "key": shown(key),
        "annotations": key.full().collect::<Vec<_>>(),
        "named": key.named,
        "family": title(key.family),
        "appliesTo": applies(key.applies),
        "value": key.grammar,
        "effect": key.effect,
    })
}

fn unsupported_json(known: &Unsupported) -> Value {
    json!({
        "key": known.name,
        "would": known.effect,
        "instead": known.instead,
        "closesRoutes": known.denies,
    })
}
