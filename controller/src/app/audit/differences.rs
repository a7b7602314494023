//! Where two answers to a request differ.

use crate::translate::explain::{Action, Answer};

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aspect {
    Backend,
    Path,
    Redirect,
    Status,
    Cors,
    Retries,
    Endpoints,
    Annotation,
}

impl Aspect {
    /// Words for people and programs.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Path => "rewritten path",
            Self::Redirect => "redirect",
            Self::Status => "status",
            Self::Cors => "cross-origin",
            Self::Retries => "retries",
            Self::Endpoints => "endpoint choice",
            Self::Annotation => "annotation",
        }
    }

    /// What else can be done than to choose the semantics of ingress-nginx.
    pub(super) fn instead(self) -> &'static str {
        match self {
            Self::Backend => "give the paths of the host so that no two of them fit the request",
            Self::Path => {
                "write the path as a regular expression whose capture groups the target names, which means the same in both"
            }
            Self::Redirect => {
                "say ssl-redirect: \"true\" or \"false\", and give redirect URLs with a path"
            }
            Self::Status => {
                "add a path for the request, or a valid value of the annotation that refuses it"
            }
            Self::Cors => {
                "list origins without `*`, in lower case, and all headers in cors-allow-headers"
            }
            Self::Retries => {
                "give proxy-next-upstream and a number of further attempts in proxy-next-upstream-tries"
            }
            Self::Endpoints => {
                "name a hash that both know, such as $remote_addr or $http_NAME, or say affinity: cookie"
            }
            Self::Annotation => "",
        }
    }
}

/// The aspects in which two answers differ, each with both sides; `retries` = say so of attempts, too.
pub(super) fn between(
    nginx: &Answer,
    ours: &Answer,
    retries: bool,
) -> Vec<(Aspect, String, String)> {
    let mut found = Vec::new();
    if nginx.action != ours.action {
        let aspect = aspect(&nginx.action, &ours.action);
        found.push((aspect, nginx.action.to_string(), ours.action.to_string()));
    }
    let mut texts = |aspect, nginx: &str, ours: &str| {
        if nginx != ours {
            let or_none = |text: &str| {
                if text.is_empty() {
                    "nothing".to_owned()
                } else {
                    text.to_owned()
                }
            };
            found.push((aspect, or_none(nginx), or_none(ours)));
        }
    };
    texts(Aspect::Cors, &nginx.cors, &ours.cors);
    if retries {
        texts(Aspect::Retries, &nginx.retries, &ours.retries);
    }
    found
}

fn aspect(nginx: &Action, ours: &Action) -> Aspect {
    match (nginx, ours) {
        (Action::Redirect { .. }, _) | (_, Action::Redirect { .. }) => Aspect::Redirect,
        (Action::Status(_), _) | (_, Action::Status(_)) => Aspect::Status,
        (
            Action::Backends { backends: left, .. },
            Action::Backends {
                backends: right, ..
            },
        ) => {
            if left == right {
                Aspect::Path
            } else {
                Aspect::Backend
            }
        }
    }
}
