//! Backends of registries, for paths whose backend is an McpBridge.

use shared_proto::networking::v1alpha3::{Destination, HttpRouteDestination, PortSelector};

use super::table::DESTINATION;
use super::text;
use super::value::{self, Value, ValueError, shorten};
use super::{Annotations, Problems};
use crate::model::{Backend, Ingress, Reason};

const DEFAULT_WEIGHT: i32 = 100;
/// More than anybody needs, and far from what weights can add up to.
const MAX_WEIGHT: i32 = 1_000_000;
const MAX_DESTINATIONS: usize = 256;

/// One of the backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistryBackend {
    /// Its share, relative to the others.
    pub(crate) weight: i32,
    /// Its host name.
    pub(crate) host: String,
    /// Its port, if it is given.
    pub(crate) port: Option<u16>,
    subset: String,
}

/// What the annotation says: the backends, or nothing that can be used.
pub(crate) type Destinations = Option<Vec<RegistryBackend>>;

/// Reads the backends; `None` when the annotation is absent.
pub(crate) fn parse(
    annotations: &Annotations<'_>,
    problems: &mut Problems,
) -> Option<Destinations> {
    if !annotations.has(&DESTINATION) {
        return None;
    }
    let found = annotations.find(&DESTINATION, backends, problems);
    if let Some(found) = &found
        && !has_bridge(annotations.ingress)
    {
        let message = "has no effect, no path has McpBridge default as its backend; give a path backend.resource {apiGroup: networking.higress.io, kind: McpBridge, name: default}";
        problems.add(found.key, Reason::IneffectiveAnnotation, message);
    }
    Some(found.map(|found| found.value))
}

/// Whether some backend stands for those of registries.
fn has_bridge(ingress: &Ingress) -> bool {
    let paths = ingress.rules.iter().flat_map(|rule| &rule.paths);
    let backends = paths
        .map(|path| &path.backend)
        .chain(&ingress.default_backend);
    backends
        .into_iter()
        .any(|backend| matches!(backend, Backend::Resource { .. }))
}

fn backends(raw: &str) -> Value<Vec<RegistryBackend>> {
    let text = value::text(raw)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let backends: Vec<_> = lines.map(backend).collect::<Result<_, _>>()?;
    if backends.len() > MAX_DESTINATIONS {
        let message = format!("has more than {MAX_DESTINATIONS} lines; use fewer");
        return Err(ValueError(message));
    }
    Ok(backends)
}

/// `[weight%] host[:port] [subset]`.
fn backend(line: &str) -> Value<RegistryBackend> {
    let error = |why: &str| {
        Err(ValueError(format!(
            "line {:?} {why}; write [weight%] host[:port] [subset]",
            shorten(line)
        )))
    };
    let mut words = line.split_whitespace().peekable();
    let mut weight = DEFAULT_WEIGHT;
    if let Some(number) = words.peek().and_then(|word| word.strip_suffix('%')) {
        match number.parse() {
            Ok(number) if (0..=MAX_WEIGHT).contains(&number) => weight = number,
            _ => return error("has no usable weight"),
        }
        words.next();
    }
    let Some(address) = words.next() else {
        return error("has no host");
    };
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) => match port.parse() {
            Ok(port) if port != 0 => (host, Some(port)),
            _ => return error("has no usable port"),
        },
        None => (address, None),
    };
    if !text::is_authority(host) || host.contains(':') || host.len() > 253 {
        return error("has no usable host");
    }
    let subset = words.next().unwrap_or_default();
    if !subset.chars().all(|c| c.is_ascii_graphic() && c != '|') || words.next().is_some() {
        return error("has something after the host that is no subset");
    }
    Ok(RegistryBackend {
        weight,
        host: host.to_owned(),
        port,
        subset: subset.to_owned(),
    })
}

impl RegistryBackend {
    /// As a destination of a route.
    pub(crate) fn destination(&self) -> HttpRouteDestination {
        HttpRouteDestination {
            destination: Some(Destination {
                host: self.host.clone(),
                subset: self.subset.clone(),
                port: self.port.map(|port| PortSelector {
                    number: port.into(),
                }),
            }),
            weight: self.weight,
            ..HttpRouteDestination::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::parsed;
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("a.static:80", Some("100 a.static:Some(80) "))]
    #[case(
        "30% a.DEFAULT-GROUP.public.nacos:8080 v1\n\n 70%  b.static",
        Some("30 a.DEFAULT-GROUP.public.nacos:Some(8080) v1, 70 b.static:None ")
    )]
    #[case("x% a.static", None)]
    #[case("-5% a.static", None)]
    #[case("50%", None)]
    #[case("a.static:0", None)]
    #[case("a.static:70000", None)]
    #[case("a.static v1 v2", None)]
    #[case("a/b", None)]
    #[case("a.static v|1", None)]
    #[case("", None)]
    fn lines(#[case] value: &str, #[case] expected: Option<&str>) {
        let (found, problems) = parsed(&[("higress.io/destination", value)], parse);
        let found = found.unwrap();
        // No path of this Ingress has the bridge as its backend.
        let reason = match &found {
            Some(_) => Reason::IneffectiveAnnotation,
            None => Reason::InvalidAnnotation,
        };
        assert_eq!(
            problems.iter().map(|p| p.reason).collect::<Vec<_>>(),
            [reason]
        );
        let shown = found.map(|all| {
            let all = all.iter();
            let shown = all.map(|b| format!("{} {}:{:?} {}", b.weight, b.host, b.port, b.subset));
            shown.collect::<Vec<_>>().join(", ")
        });
        assert_eq!(shown.as_deref(), expected);
    }
}
