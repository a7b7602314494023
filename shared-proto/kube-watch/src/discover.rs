//! Where a kind is found in the API: its path, asked of the API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::{Client, Error};

/// The path of a kind, for example `/apis/networking.k8s.io/v1/ingresses`; `None` when the API server does not know it.
pub(crate) async fn path(
    client: &Client,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Result<Option<String>, Error> {
    let (root, found) = if api_version.contains('/') {
        let found = client.list_api_group_resources(api_version).await;
        (format!("/apis/{api_version}"), found)
    } else {
        let found = client.list_core_api_resources(api_version).await;
        (format!("/api/{api_version}"), found)
    };
    let list = match found {
        Ok(list) => list,
        Err(Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(plural(&list, kind).map(|plural| match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }))
}

fn plural<'a>(list: &'a APIResourceList, kind: &str) -> Option<&'a str> {
    let named = |resource: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource| {
        resource.kind == kind && !resource.name.contains('/')
    };
    list.resources
        .iter()
        .find(named)
        .map(|resource| &*resource.name)
}
