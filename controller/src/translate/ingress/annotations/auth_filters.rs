//! Filters that let in whom the auth annotations want.

use serde_json::{Value, json};

use super::auth::Auth;
use super::basic_auth;
use super::filters::{run, unless};
use crate::model::Ingress;
use crate::translate::ingress::Context;
use crate::translate::ingress::filters::{Filter, RouteFilters, ext_authz, message};

const EXT_AUTHZ: &str = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
const BASIC_AUTH: &str = "envoy.extensions.filters.http.basic_auth.v3.BasicAuth";

/// A full key, and what is wrong with its value.
type Fault = (&'static str, String);

/// Adds them. Clients that `inside` holds for need not prove who they are. Returns what is wrong with a part of it.
///
/// # Errors
/// They cannot be put into effect: nobody may come in.
pub(super) fn add(
    context: Context<'_>,
    ingress: &Ingress,
    (auth, inside): (&Auth, Option<Value>),
    filters: &mut RouteFilters,
) -> Result<Option<Fault>, Fault> {
    if let Some(url) = &auth.url {
        let service = url.service(context, filters);
        let service = service.map_err(|message| (url.key, message))?;
        let (filter, settings) = match &inside {
            None => {
                let check = json!({"check_settings": {"http_service": service}});
                (
                    Filter::AuthUrl,
                    message(&format!("{EXT_AUTHZ}PerRoute"), check),
                )
            }
            Some(inside) => {
                let filter = message(EXT_AUTHZ, ext_authz(&service));
                (
                    Filter::AddressOrAuth,
                    unless(inside, run("auth-url", filter)),
                )
            }
        };
        filters.settings.insert(filter, settings);
    }
    let Some(basic) = &auth.basic else {
        return Ok(None);
    };
    let users = basic.users(context, ingress);
    let (users, warning) = users.map_err(|message| (basic.key, message))?;
    let config = basic_auth::message(&users);
    let (filter, settings) = match &inside {
        None => (
            Filter::BasicAuth,
            message(&format!("{BASIC_AUTH}PerRoute"), config),
        ),
        Some(inside) => {
            let filter = message(BASIC_AUTH, config);
            (
                Filter::AddressOrAuth,
                unless(inside, run("basic-auth", filter)),
            )
        }
    };
    filters.settings.insert(filter, settings);
    Ok(warning.map(|message| (basic.key, message)))
}
