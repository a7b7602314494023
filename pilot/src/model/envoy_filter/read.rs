//! From the Istio object to patches that can be applied; what cannot is told.

use std::sync::Arc;

use shared_proto::networking::v1alpha3 as istio;

use istio::envoy_filter as shape;
use shape::PatchContext;
use shape::envoy_config_object_match::ObjectTypes;

use super::{
    ApplyTo, EnvoyFilterFacts, Mistake, Operation, Owner, Patch, ProxyCondition, VersionPattern,
    field, rules, value,
};
use crate::model::change::NamespacedName;
use crate::model::config::Precedence;

/// Wrong with one patch: the member of the patch, and what.
pub(super) type Wrong = (String, String);

pub(super) fn read(
    filter: &istio::EnvoyFilter,
    name: NamespacedName,
    precedence: Precedence,
) -> EnvoyFilterFacts {
    let mut facts = EnvoyFilterFacts {
        patches: Vec::new(),
        destinations: Vec::new(),
        mistakes: Vec::new(),
    };
    if !filter.target_refs.is_empty() {
        facts.mistakes.push(Mistake {
            at: "spec.targetRefs".to_owned(),
            message:
                "is not served, so nothing of this EnvoyFilter is used; choose the gateways by \
                      spec.workloadSelector"
                    .to_owned(),
        });
        return facts;
    }
    let selector = filter.workload_selector.as_ref();
    let selector = selector.map(|selector| selector.labels.clone());
    let owner = Arc::new(Owner {
        name,
        selector: selector.unwrap_or_default().into_iter().collect(),
        order: (filter.priority, precedence),
    });
    for (at, entry) in filter.config_patches.iter().enumerate() {
        match patch(&owner, at, entry, &mut facts) {
            Ok(patch) => facts.patches.extend(patch.map(Arc::new)),
            Err((member, message)) => facts.mistakes.push(Mistake {
                at: format!("{}{member}", field(at)),
                message: format!("{message}; this patch is not used"),
            }),
        }
    }
    facts
}

fn wrong<T>(member: &str, message: impl Into<String>) -> Result<T, Wrong> {
    Err((member.to_owned(), message.into()))
}

/// `None` when the patch is for other proxies than gateways.
fn patch(
    owner: &Arc<Owner>,
    at: usize,
    entry: &shape::EnvoyConfigObjectPatch,
    facts: &mut EnvoyFilterFacts,
) -> Result<Option<Patch>, Wrong> {
    let conditions = entry.r#match.as_ref();
    let context = conditions.map_or(0, |conditions| conditions.context);
    let object = conditions.and_then(|conditions| conditions.object_types.clone());
    let gateways = [PatchContext::Any as i32, PatchContext::Gateway as i32].contains(&context);
    if !gateways || matches!(object, Some(ObjectTypes::Waypoint(_))) {
        return Ok(None);
    }
    let apply_to = apply_to(entry)?;
    let given = entry.patch.as_ref();
    let Some(given) = given else {
        return wrong(".patch", "is missing");
    };
    let operation = Operation::try_from(given.operation).unwrap_or_default();
    let Some(operation) = rules::operation(apply_to, operation) else {
        let message = format!(
            "there is no {} for {}",
            operation.as_str_name(),
            apply_to.as_str_name()
        );
        return wrong(".patch.operation", message);
    };
    check_object(apply_to, operation, object.as_ref())?;
    let proxies = conditions.and_then(|conditions| conditions.proxy.as_ref());
    let proxies = proxies.map_or(Ok(ProxyCondition::default()), proxies_of)?;
    let value = value::read(&value::Input {
        owner: &owner.name,
        at,
        apply_to,
        operation,
        given: given.value.as_ref(),
    })?;
    for destination in value.destinations {
        if !facts.destinations.contains(&destination) {
            facts.destinations.push(destination);
        }
    }
    Ok(Some(Patch {
        owner: owner.clone(),
        at,
        apply_to,
        operation,
        proxies,
        object,
        name: value.name,
        value: value.encoded,
    }))
}

fn apply_to(entry: &shape::EnvoyConfigObjectPatch) -> Result<ApplyTo, Wrong> {
    match ApplyTo::try_from(entry.apply_to) {
        Ok(ApplyTo::Bootstrap) => wrong(
            ".applyTo",
            "BOOTSTRAP is read when a proxy starts, by nobody here; change the bootstrap itself",
        ),
        Ok(ApplyTo::Invalid) | Err(_) => wrong(".applyTo", "is missing or not known"),
        Ok(apply_to) => Ok(apply_to),
    }
}

/// A condition of another sort would be ignored, so that the patch reached more than it should.
fn check_object(
    apply_to: ApplyTo,
    operation: Operation,
    object: Option<&ObjectTypes>,
) -> Result<(), Wrong> {
    use ApplyTo as A;
    let fits = match object {
        None => true,
        Some(ObjectTypes::Cluster(_)) => apply_to == A::Cluster,
        Some(ObjectTypes::RouteConfiguration(_)) => matches!(
            apply_to,
            A::RouteConfiguration | A::VirtualHost | A::HttpRoute
        ),
        Some(ObjectTypes::Listener(_)) => matches!(
            apply_to,
            A::Listener | A::ListenerFilter | A::FilterChain | A::NetworkFilter | A::HttpFilter
        ),
        Some(ObjectTypes::Waypoint(_)) => false,
    };
    if !fits {
        let message = format!("is of another sort than {}", apply_to.as_str_name());
        return wrong(".match", message);
    }
    let listener = match object {
        Some(ObjectTypes::Listener(listener)) => Some(listener),
        _ => None,
    };
    let filter = listener.and_then(|listener| listener.filter_chain.as_ref()?.filter.as_ref());
    let (named, at) = match apply_to {
        A::ListenerFilter => (
            listener.is_some_and(|listener| !listener.listener_filter.is_empty()),
            ".match.listener.listenerFilter",
        ),
        A::NetworkFilter => (
            filter.is_some_and(|filter| !filter.name.is_empty()),
            ".match.listener.filterChain.filter.name",
        ),
        A::HttpFilter => (
            filter.is_some_and(|filter| {
                let inner = filter.sub_filter.as_ref();
                inner.is_some_and(|inner| !inner.name.is_empty())
            }),
            ".match.listener.filterChain.filter.subFilter.name",
        ),
        _ => return Ok(()),
    };
    if named || !matches!(operation, Operation::Remove | Operation::Replace) {
        return Ok(());
    }
    wrong(
        at,
        format!("{} needs the name of a filter", operation.as_str_name()),
    )
}

fn proxies_of(given: &shape::ProxyMatch) -> Result<ProxyCondition, Wrong> {
    let version = Some(given.proxy_version.as_str()).filter(|text| !text.is_empty());
    let version = version.map(regex::Regex::new).transpose();
    let version = version.map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().to_owned();
        (".match.proxy.proxyVersion".to_owned(), last)
    })?;
    Ok(ProxyCondition {
        version: version.map(VersionPattern),
        metadata: given.metadata.clone().into_iter().collect(),
    })
}
