//! Redirects as ingress-nginx has them: clients are sent to the text as it is. Path and query of the request are not added; the
//! variables of nginx that the gateway knows are replaced.

use shared_proto::networking::v1alpha3::{HttpDirectResponse, HttpRoute};

use super::super::value::{self, Value, ValueError};

/// nginx's variables, and the gateway's word for each.
const VARIABLES: [(&str, &str); 5] = [
    ("host", "%REQ(:AUTHORITY)%"),
    ("http_host", "%REQ(:AUTHORITY)%"),
    ("server_name", "%REQ(:AUTHORITY)%"),
    ("scheme", "%REQ(:SCHEME)%"),
    ("request_uri", "%REQ(:PATH)%"),
];
/// Paths of certificate authorities that check a host; they ask by plain HTTP.
const CHALLENGES: &str = "/.well-known/acme-challenge";

/// The value of a `Location` header: an absolute URL, or a path with `before` in front of it.
pub(in super::super) fn location(raw: &str) -> Value<String> {
    let line = value::line(raw)?;
    let lower = line.to_ascii_lowercase();
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| lower.strip_prefix(scheme));
    let authority = rest.map_or("", |rest| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    });
    if authority.is_empty() || authority.contains('@') {
        let why = "is not a URL; write http://host/path or https://host/path";
        return Err(ValueError::new(&line, why));
    }
    literal(&line)
}

/// The location of a path on the host that was asked for.
pub(in crate::translate::ingress) fn on_same_host(path: &str) -> Value<String> {
    Ok(format!(
        "%REQ(:SCHEME)%://%REQ(:AUTHORITY)%{}",
        literal(path)?
    ))
}

/// The text with variables replaced; nothing else in it is the gateway's business.
fn literal(line: &str) -> Value<String> {
    let plain = |b: u8| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b);
    let mut result = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        result.push_str(&before.replace('%', "%%"));
        let Some((command, after)) = variable(from) else {
            let why =
                "has a variable that gateways do not know; use $host, $scheme or $request_uri";
            return Err(ValueError::new(line, why));
        };
        result.push_str(command);
        rest = after;
    }
    result.push_str(&rest.replace('%', "%%"));
    // Braces of variables are gone by now.
    if result.bytes().all(plain) {
        return Ok(result);
    }
    let why = "has a character that no URL has; write it as %XX";
    Err(ValueError::new(line, why))
}

/// The gateway's word for the variable at the start, and what follows it.
fn variable(text: &str) -> Option<(&'static str, &str)> {
    let text = text.strip_prefix('$')?;
    let (name, after) = match text.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
            text.split_at(end)
        }
    };
    let found = VARIABLES.iter().find(|(known, _)| *known == name)?;
    Some((found.1, after))
}

/// Answers all requests of a route with the location. The last step of its settings, as the location is a header.
pub(in crate::translate::ingress) fn answer(http: &mut HttpRoute, status: u32, location: &str) {
    http.route.clear();
    http.redirect = None;
    http.direct_response = Some(HttpDirectResponse { status, body: None });
    let headers = http.headers.get_or_insert_default();
    let response = headers.response.get_or_insert_default();
    let name = "location".to_owned();
    response.set.insert(name, location.to_owned());
}

/// True when requests for the path are sent to https by default.
pub(in super::super) fn goes_to_https(path: &str) -> bool {
    !path.starts_with(CHALLENGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("http://b.test", Some("http://b.test"))]
    #[case("HTTPS://b.test:8443/p?z=1#f", Some("HTTPS://b.test:8443/p?z=1#f"))]
    #[case("https://$host/new", Some("https://%REQ(:AUTHORITY)%/new"))]
    #[case("http://b.test$request_uri", Some("http://b.test%REQ(:PATH)%"))]
    #[case(
        "https://${host}:8443/a%20b",
        Some("https://%REQ(:AUTHORITY)%:8443/a%%20b")
    )]
    #[case(
        "http://b.test/%REQ(x-secret)%",
        Some("http://b.test/%%REQ(x-secret)%%")
    )]
    #[case("http://b.test/$uri", None)]
    #[case("http://b.test/$", None)]
    #[case("http://u@b.test/", None)]
    #[case("http:///x", None)]
    #[case("/x", None)]
    #[case("tcp://b.test", None)]
    #[case("http://b.test/a b", None)]
    #[case("http://b.test/{a}", None)]
    #[case("http://b.test/\n", Some("http://b.test/"))]
    fn locations(#[case] raw: &str, #[case] expected: Option<&str>) {
        assert_eq!(location(raw).ok().as_deref(), expected);
    }
}
