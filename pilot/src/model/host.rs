//! Host name algebra of Istio: exact names and names that begin with a wildcard.

/// Whether every name that `inner` stands for is also one of `outer`.
///
/// `*.example.com` stands for all names with at least one label more; `*` for all names.
pub fn subset_of(inner: &str, outer: &str) -> bool {
    match outer.strip_prefix('*') {
        None => inner == outer,
        Some(suffix) => match inner.strip_prefix('*') {
            Some(inner) => inner.len() >= suffix.len() && inner.ends_with(suffix),
            None => inner.len() > suffix.len() && inner.ends_with(suffix) || suffix.is_empty(),
        },
    }
}

/// Whether some name is one of both.
pub fn intersects(a: &str, b: &str) -> bool {
    subset_of(a, b) || subset_of(b, a)
}

/// The wildcard hosts that a host is one of, the most specific first: `*.b.c`, `*.c`, `*` for `a.b.c`.
pub fn wildcards_above(host: &str) -> impl Iterator<Item = String> {
    let dots = host.match_indices('.');
    let above = dots.map(move |(at, _)| format!("*{}", &host[at..]));
    above
        .filter(move |wildcard| wildcard != host)
        .chain((host != "*").then(|| "*".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("a.b", "a.b", true)]
    #[case("a.b", "*.b", true)]
    #[case("b", "*.b", false)]
    #[case("*.a.b", "*.b", true)]
    #[case("*.b", "*.a.b", false)]
    #[case("*.b", "b", false)]
    #[case("x", "*", true)]
    #[case("*", "*", true)]
    fn subsets(#[case] inner: &str, #[case] outer: &str, #[case] expected: bool) {
        assert_eq!(subset_of(inner, outer), expected);
    }

    #[rstest]
    #[case("a.b.c", &["*.b.c", "*.c", "*"])]
    #[case("*.b.c", &["*.c", "*"])]
    #[case("x", &["*"])]
    #[case("*", &[])]
    fn wildcards(#[case] host: &str, #[case] expected: &[&str]) {
        assert_eq!(wildcards_above(host).collect::<Vec<_>>(), expected);
    }
}
