//! Variables of nginx in values, as far as a gateway knows them.

use super::value::{Value, ValueError};

/// Variables and how Envoy's format strings say them; `None` where only a script can.
const KNOWN: [(&str, Option<&str>); 9] = [
    ("host", Some("%REQ(:authority)%")),
    ("http_host", Some("%REQ(:authority)%")),
    ("best_http_host", Some("%REQ(:authority)%")),
    ("server_name", Some("%REQ(:authority)%")),
    ("scheme", Some("%REQ(x-forwarded-proto)%")),
    ("pass_access_scheme", Some("%REQ(x-forwarded-proto)%")),
    ("request_uri", Some("%REQ(:path)%")),
    ("uri", None),
    ("escaped_request_uri", None),
];

/// Text and variables of a value, in order.
fn parts(text: &str) -> Value<Vec<(&str, Option<&'static str>)>> {
    let mut parts = Vec::new();
    let mut segments = text.split('$');
    parts.extend(segments.next().map(|plain| (plain, None)));
    for segment in segments {
        let end = segment
            .bytes()
            .take_while(|b| b.is_ascii_alphabetic() || *b == b'_')
            .count();
        let (name, rest) = segment.split_at(end);
        let known = KNOWN.iter().find(|(known, _)| *known == name);
        let Some((name, _)) = known else {
            let why = "has a variable that is not known here; use $host, $scheme, $request_uri or $escaped_request_uri";
            return Err(ValueError::new(text, why));
        };
        parts.push(("", Some(*name)));
        parts.push((rest, None));
    }
    Ok(parts)
}

/// Takes a value all of whose variables are known.
pub(super) fn check(text: &str) -> Value<()> {
    parts(text).map(drop)
}

/// The value as a format string of Envoy.
pub(super) fn format(text: &str) -> Value<String> {
    let mut result = String::new();
    for (plain, variable) in parts(text)? {
        result.push_str(&plain.replace('%', "%%"));
        let Some(variable) = variable else { continue };
        let format = KNOWN.iter().find(|(known, _)| *known == variable);
        match format.and_then(|(_, format)| *format) {
            Some(format) => result.push_str(format),
            None => {
                let why = format!("has ${variable}, which cannot be used here; use $request_uri");
                return Err(ValueError::new(text, &why));
            }
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("plain 50%", Some("plain 50%%"))]
    #[case(
        "$scheme://$host$request_uri",
        Some("%REQ(x-forwarded-proto)%://%REQ(:authority)%%REQ(:path)%")
    )]
    #[case("$escaped_request_uri", None)]
    #[case("$request_body", None)]
    #[case("a$", None)]
    #[case("${host}", None)]
    fn formats(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(format(text).ok().as_deref(), expected);
    }

    #[test]
    fn escaped_uris_are_known_to_scripts() {
        assert!(check("/x?rd=$escaped_request_uri").is_ok());
        assert!(check("/x?rd=$cookie_a").is_err());
    }
}
