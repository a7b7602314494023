//! New paths and hosts for backends, and which paths are regular expressions.

use shared_proto::networking::v1alpha3::{HttpRewrite, HttpRoute, RegexRewrite};

use super::table::{
    FULL_PATH_REGEX, REWRITE_PATH, REWRITE_TARGET, UPSTREAM_VHOST, USE_REGEX, X_FORWARDED_PREFIX,
};
use super::value::{self, Value, ValueError};
use super::{Annotations, Found, Problem, Problems, text};
use crate::model::{IngressPath, Reason, Semantics};
use crate::translate::ingress::path::{PathKind, PathMatch};

/// Header with the part of the path that backends do not see.
const PREFIX_HEADER: &str = "x-forwarded-prefix";

/// What the family asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewrite {
    semantics: Semantics,
    use_regex: bool,
    full_path_regex: bool,
    /// `rewrite-target` as written.
    target: Option<Found<String>>,
    /// `rewrite-path`; beats the target.
    path: Option<String>,
    authority: Option<String>,
    /// What backends are told of the path before.
    prefix: Option<String>,
}

/// Reads the family.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Rewrite> {
    let mut rewrite = Rewrite {
        semantics: annotations.semantics(),
        use_regex: annotations.is_on(&USE_REGEX, problems),
        full_path_regex: annotations.is_on(&FULL_PATH_REGEX, problems),
        target: annotations.find(&REWRITE_TARGET, target, problems),
        path: annotations.get(&REWRITE_PATH, path, problems),
        authority: annotations.get(&UPSTREAM_VHOST, authority, problems),
        prefix: None,
    };
    if let (Some(target), Some(_)) = (&rewrite.target, &rewrite.path) {
        let message = format!("{} takes precedence; remove one", REWRITE_PATH.higress);
        problems.add(target.key, Reason::IneffectiveAnnotation, message);
    }
    let prefix = annotations.find(&X_FORWARDED_PREFIX, prefix, problems);
    if rewrite.target.is_some() || rewrite.path.is_some() {
        rewrite.prefix = prefix.map(|found| found.value);
    } else if let Some(found) = prefix {
        let message = format!(
            "has no effect without {}; add that, or set the header with higress.io/request-header-control-update",
            REWRITE_TARGET.name
        );
        problems.add(found.key, Reason::IneffectiveAnnotation, message);
    }
    let nothing = Rewrite {
        semantics: rewrite.semantics,
        ..Rewrite::default()
    };
    (rewrite != nothing).then_some(rewrite)
}

fn target(raw: &str) -> Value<String> {
    let line = value::line(raw)?;
    if line.starts_with(['/', '$', '\\']) {
        return Ok(line);
    }
    Err(ValueError::new(
        &line,
        "is not a path; begin it with / or a capture group",
    ))
}

fn path(raw: &str) -> Value<String> {
    let line = value::line(raw)?;
    if line.starts_with('/') {
        return Ok(line);
    }
    Err(ValueError::new(&line, "is not a path; begin it with /"))
}

fn prefix(raw: &str) -> Value<String> {
    let path = path(raw)?;
    if path.contains('$') || !text::is_header_value(&path) {
        let why = "cannot be sent as it is; write the path itself, variables and capture groups are not read";
        return Err(ValueError::new(&path, why));
    }
    Ok(path)
}

fn authority(raw: &str) -> Value<String> {
    let line = value::line(raw)?;
    if text::is_authority(&line) {
        return Ok(line);
    }
    Err(ValueError::new(
        &line,
        "is not a host; write host or host:port, variables are not read",
    ))
}

impl Rewrite {
    /// Tells the backends of a route whose path is rewritten what it was before. The header of the client never gets through.
    pub(crate) fn announce(&self, http: &mut HttpRoute) {
        let rewritten = http
            .rewrite
            .as_ref()
            .is_some_and(|rewrite| !rewrite.uri.is_empty() || rewrite.uri_regex_rewrite.is_some());
        if let Some(prefix) = self.prefix.as_ref().filter(|_| rewritten) {
            let headers = http.headers.get_or_insert_default();
            let request = headers.request.get_or_insert_default();
            // Text, not one of the gateway's substitutions.
            let value = prefix.replace('%', "%%");
            request.set.insert(PREFIX_HEADER.to_owned(), value);
        }
    }

    /// True when the path makes all paths of its host regular expressions, as ingress-nginx has it.
    pub(crate) fn makes_regex_host(&self, path: &IngressPath) -> bool {
        let path = if path.path.is_empty() {
            "/"
        } else {
            &path.path
        };
        let rewritten = |found: &Found<String>| found.value != path;
        let regex = self.use_regex || self.target.as_ref().is_some_and(rewritten);
        self.semantics == Semantics::IngressNginx && regex
    }

    /// The kind of a path when it is a regular expression because of this Ingress, whatever its pathType.
    pub(crate) fn regex_kind(&self, path: &str) -> Option<PathKind> {
        if self.semantics == Semantics::IngressNginx {
            return self.full_path_regex.then_some(PathKind::FullRegex);
        }
        let target = self.target.as_ref().map(|found| found.value.as_str());
        let by_target = target
            .is_some_and(|target| path.contains(text::is_special) || target.contains(['$', '\\']));
        if self.full_path_regex {
            Some(PathKind::FullRegex)
        } else if self.use_regex || by_target {
            Some(PathKind::PrefixRegex)
        } else {
            None
        }
    }

    /// The rewrite of a route with this path. `any_case` = the path matches in any letter case.
    pub(crate) fn of(
        &self,
        path: &PathMatch,
        any_case: bool,
    ) -> (Option<HttpRewrite>, Option<Problem>) {
        let mut rewrite = HttpRewrite {
            authority: self.authority.clone().unwrap_or_default(),
            ..HttpRewrite::default()
        };
        let mut problem = None;
        if let Some(new) = &self.path {
            by_path(new, path, any_case, &mut rewrite);
        } else if let Some(target) = &self.target {
            let (regex, wrong) = match self.semantics {
                Semantics::Higress => by_target(target, path, any_case),
                Semantics::IngressNginx if target.value == path.path => (None, None),
                Semantics::IngressNginx => whole(target, path),
            };
            rewrite.uri_regex_rewrite = regex;
            problem = wrong;
        }
        (
            (rewrite != HttpRewrite::default()).then_some(rewrite),
            problem,
        )
    }
}

/// The expression of a literal at the start of the path.
fn at_start(path: &str, any_case: bool) -> String {
    let flag = if any_case { "(?i)" } else { "" };
    format!("{flag}^{}", text::literal(path))
}

/// `rewrite-path`: the matched prefix is replaced. Envoy's own way would glue `new` and the rest together.
fn by_path(new: &str, path: &PathMatch, any_case: bool, rewrite: &mut HttpRewrite) {
    let any_case = match path.kind {
        PathKind::Prefix | PathKind::Below if !new.ends_with('/') => any_case,
        // Envoy has no other way to replace more than the prefix that was matched.
        PathKind::AnyCaseRegex { .. } if !path.path.contains(text::is_special) => true,
        PathKind::AnyCaseRegex { .. } => {
            rewrite.uri_regex_rewrite = Some(RegexRewrite {
                r#match: path.expression(),
                rewrite: new.replace('\\', r"\\"),
            });
            return;
        }
        _ => {
            new.clone_into(&mut rewrite.uri);
            return;
        }
    };
    let prefix = path.path.trim_end_matches('/');
    let new = new.trim_end_matches('/');
    rewrite.uri_regex_rewrite = Some(RegexRewrite {
        r#match: format!("{}(/.*)?", at_start(prefix, any_case)),
        rewrite: format!("{}\\1", new.replace('\\', r"\\")),
    });
}

/// The whole path is replaced, the target naming capture groups of the path if that is an expression.
fn whole(target: &Found<String>, path: &PathMatch) -> (Option<RegexRewrite>, Option<Problem>) {
    let expression = match path.kind {
        PathKind::Exact | PathKind::Prefix | PathKind::Below | PathKind::Special => {
            "^/.*".to_owned()
        }
        _ => path.expression(),
    };
    // Expressions were checked when the path was read.
    let groups = re2_pattern::parse(&expression).map_or(0, |pattern| pattern.groups);
    let (new, missing) = substitution(&target.value, groups);
    let problem = missing.map(|group| Problem {
        key: target.key.to_owned(),
        reason: Reason::InvalidAnnotation,
        message: format!(
            "there is no capture group {group} in path {}, it is read as empty; name one of {groups}",
            path.path
        ),
    });
    let regex = RegexRewrite {
        r#match: expression,
        rewrite: new,
    };
    (Some(regex), problem)
}

/// `rewrite-target` in Higress: on a regular expression the whole path is replaced, else what the path matched.
fn by_target(
    target: &Found<String>,
    path: &PathMatch,
    any_case: bool,
) -> (Option<RegexRewrite>, Option<Problem>) {
    let new = &target.value;
    let (expression, new) = match path.kind {
        PathKind::PrefixRegex | PathKind::FullRegex | PathKind::AnyCaseRegex { .. } => {
            return whole(target, path);
        }
        // It stays as it is. An empty path would be none.
        PathKind::Prefix if path.path == "/" && new.trim_end_matches('/').is_empty() => {
            return (None, None);
        }
        PathKind::Prefix if path.path == "/" => ("^(/.+)?/?$".to_owned(), {
            format!("{}\\1", new.trim_end_matches('/'))
        }),
        PathKind::Prefix | PathKind::Below => {
            let slash = if new.ends_with('/') { "/?" } else { "" };
            (
                format!("{}{slash}", at_start(&path.path, any_case)),
                new.clone(),
            )
        }
        PathKind::Exact | PathKind::Special => {
            (format!("{}$", at_start(&path.path, any_case)), new.clone())
        }
    };
    let regex = RegexRewrite {
        r#match: expression,
        rewrite: new,
    };
    (Some(regex), None)
}

/// Envoy's form of a target, `$1` or `\1` being capture groups, and the first group that does not exist.
fn substitution(target: &str, groups: usize) -> (String, Option<char>) {
    let mut result = String::with_capacity(target.len());
    let mut missing = None;
    let mut chars = target.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '$' && c != '\\' {
            result.push(c);
            continue;
        }
        match chars.peek().copied() {
            Some(digit @ '0'..='9') => {
                chars.next();
                if (digit as usize - '0' as usize) <= groups {
                    result.extend(['\\', digit]);
                } else {
                    missing = missing.or(Some(digit));
                }
            }
            Some('\\') if c == '\\' => {
                chars.next();
                result.push_str(r"\\");
            }
            _ if c == '\\' => result.push_str(r"\\"),
            _ => result.push('$'),
        }
    }
    (result, missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::testing::{ingress, parsed_as, problems_of};
    use PathKind::AnyCaseRegex;
    use rstest::rstest;

    fn settings(list: &[(&str, &str)]) -> Rewrite {
        let ingress = ingress(list);
        parse(&Annotations::new(&ingress), &mut Problems::default()).unwrap()
    }

    fn path(kind: PathKind, path: &str) -> PathMatch {
        PathMatch {
            kind,
            path: path.to_owned(),
        }
    }

    #[rstest]
    #[case(&[("nginx/rewrite-target", "/x")], "/a", None)]
    #[case(&[("nginx/rewrite-target", "/x")], "/v1.0", Some(PathKind::PrefixRegex))]
    #[case(&[("higress/rewrite-target", "/$1")], "/a", Some(PathKind::PrefixRegex))]
    #[case(&[("nginx/use-regex", "true")], "/a", Some(PathKind::PrefixRegex))]
    #[case(&[("higress/full-path-regex", "true")], "/a", Some(PathKind::FullRegex))]
    #[case(&[("higress/full-path-regex", "true"), ("nginx/use-regex", "true")], "/a", Some(PathKind::FullRegex))]
    #[case(&[("higress/rewrite-path", "/x")], "/v1.0", None)]
    #[case(&[("higress/rewrite-path", "/x"), ("nginx/rewrite-target", "/$1")], "/a", Some(PathKind::PrefixRegex))]
    #[case(&[("nginx/upstream-vhost", "a.test")], "/v1.0", None)]
    fn kinds(
        #[case] list: &[(&str, &str)],
        #[case] path: &str,
        #[case] expected: Option<PathKind>,
    ) {
        assert_eq!(settings(list).regex_kind(path), expected);
    }

    #[rstest]
    #[case(
        "/$2",
        PathKind::PrefixRegex,
        "/svc(/|$)(.*)",
        "/svc(/|$)(.*).*",
        r"/\2"
    )]
    #[case(r"/\2", PathKind::FullRegex, "/svc(/|$)(.*)", "/svc(/|$)(.*)$", r"/\2")]
    #[case("/$2/$x", PathKind::PrefixRegex, "/a(b)", "/a(b).*", "//$x")]
    #[case("/bar", PathKind::Prefix, "/foo", "^/foo", "/bar")]
    #[case("/", PathKind::Prefix, "/foo", "^/foo/?", "/")]
    #[case("/bar", PathKind::Prefix, "/", "^(/.+)?/?$", r"/bar\1")]
    #[case("/bar", PathKind::Exact, "/foo", "^/foo$", "/bar")]
    fn targets(
        #[case] target: &str,
        #[case] kind: PathKind,
        #[case] original: &str,
        #[case] expression: &str,
        #[case] new: &str,
    ) {
        let rewrite = settings(&[("nginx/rewrite-target", target)]);
        let found = rewrite.of(&path(kind, original), false).0.unwrap();
        let regex = found.uri_regex_rewrite.unwrap();
        assert_eq!(
            (regex.r#match.as_str(), regex.rewrite.as_str()),
            (expression, new)
        );
    }

    #[test]
    fn the_root_for_the_root_changes_nothing() {
        let rewrite = settings(&[("nginx/rewrite-target", "/")]);
        let found = rewrite.of(&path(PathKind::Prefix, "/"), false);
        assert_eq!(found, (None, None));
    }

    #[rstest]
    #[case("/bar", PathKind::Prefix, "/foo", false, Err(("^/foo(/.*)?", r"/bar\1")))]
    #[case("/bar", PathKind::Prefix, "/v1.0", true, Err((r"(?i)^/v1\.0(/.*)?", r"/bar\1")))]
    #[case("/bar", PathKind::Prefix, "/", false, Err(("^(/.*)?", r"/bar\1")))]
    #[case("/bar/", PathKind::Prefix, "/foo", false, Ok("/bar/"))]
    #[case("/bar", PathKind::Exact, "/foo", false, Ok("/bar"))]
    #[case("/bar", PathKind::PrefixRegex, "/foo", false, Ok("/bar"))]
    fn rewrite_paths(
        #[case] new: &str,
        #[case] kind: PathKind,
        #[case] original: &str,
        #[case] any_case: bool,
        #[case] expected: Result<&str, (&str, &str)>,
    ) {
        let rewrite = settings(&[
            ("higress/rewrite-path", new),
            ("nginx/rewrite-target", "/$1"),
        ]);
        let found = rewrite.of(&path(kind, original), any_case).0.unwrap();
        match expected {
            Ok(uri) => assert_eq!(found.uri, uri),
            Err((expression, new)) => {
                let regex = found.uri_regex_rewrite.unwrap();
                assert_eq!(
                    (regex.r#match.as_str(), regex.rewrite.as_str()),
                    (expression, new)
                );
            }
        }
    }

    #[test]
    fn a_group_that_does_not_exist_is_reported() {
        let rewrite = settings(&[("nginx/rewrite-target", "/$3")]);
        let (_, problem) = rewrite.of(&path(PathKind::PrefixRegex, "/a(b)"), false);
        assert!(problem.unwrap().message.contains("capture group 3"));
    }

    #[rstest]
    #[case("nginx/rewrite-target", "x")]
    #[case("nginx/rewrite-target", "/a\nb")]
    #[case("nginx/rewrite-target", " ")]
    #[case("higress/rewrite-path", "x")]
    #[case("nginx/upstream-vhost", "$host")]
    #[case("nginx/upstream-vhost", "a b")]
    #[case("nginx/use-regex", "on")]
    fn mistakes(#[case] key: &str, #[case] value: &str) {
        let (rewrite, problems) = problems_of(&[(key, value)], parse);
        assert_eq!(rewrite, None);
        assert_eq!(problems, [Reason::InvalidAnnotation]);
    }

    #[rstest]
    #[case("/bar", AnyCaseRegex { exact: false }, "/foo", Some(("(?i)/foo.*", "/bar")))]
    #[case("/bar", AnyCaseRegex { exact: true }, "/", Some(("(?i)/.*", "/bar")))]
    #[case("/foo", AnyCaseRegex { exact: false }, "/foo", None)]
    #[case("/$1", AnyCaseRegex { exact: false }, "/a(.*)", Some(("(?i)/a(.*).*", r"/\1")))]
    #[case("/bar", PathKind::Prefix, "/", Some(("^/.*", "/bar")))]
    fn targets_of_ingress_nginx(
        #[case] target: &str,
        #[case] kind: PathKind,
        #[case] original: &str,
        #[case] expected: Option<(&str, &str)>,
    ) {
        let key = REWRITE_TARGET.nginx;
        let (rewrite, _) = parsed_as(Semantics::IngressNginx, &[(key, target)], parse);
        let (found, problem) = rewrite.unwrap().of(&path(kind, original), false);
        let regex = found.and_then(|found| found.uri_regex_rewrite);
        let found = regex
            .as_ref()
            .map(|r| (r.r#match.as_str(), r.rewrite.as_str()));
        assert_eq!((found, problem), (expected, None));
    }
}
