//! Limits on the requests of each client address, as ingress-nginx counts them.

use super::source_range::is_block;
use super::table::{
    LIMIT_ALLOWLIST, LIMIT_BURST_MULTIPLIER, LIMIT_RPM, LIMIT_RPS, LIMIT_WHITELIST,
};
use super::value::{self, Value, ValueError};
use super::{Annotations, Problems};
use crate::model::Ingress;
use crate::translate::ingress::filters;

const DEFAULT_BURST: u32 = 5;
const SECOND: i64 = 1;
const MINUTE: i64 = 60;

/// The limits; all of them hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientLimit {
    /// (interval in seconds, requests in it, requests that may come at once).
    buckets: Vec<(i64, u32, u32)>,
    /// Addresses and CIDR blocks of clients that are not counted.
    except: Vec<String>,
}

/// Reads the family.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<ClientLimit> {
    let factor = annotations.get(&LIMIT_BURST_MULTIPLIER, positive, problems);
    let factor = factor.unwrap_or(DEFAULT_BURST);
    let mut buckets = Vec::new();
    for (key, interval) in [(&LIMIT_RPM, MINUTE), (&LIMIT_RPS, SECOND)] {
        let limit = annotations.get(key, number, problems).filter(|n| *n > 0);
        // As there, the burst comes on top of a first request.
        let bucket = |n: u32| (interval, n, n.saturating_mul(factor).saturating_add(1));
        buckets.extend(limit.map(bucket));
    }
    let mut except = Vec::new();
    for key in [&LIMIT_WHITELIST, &LIMIT_ALLOWLIST] {
        let Some(found) = annotations.find(key, value::list, problems) else {
            continue;
        };
        for entry in found.value {
            if is_block(&entry) {
                except.push(entry);
            } else {
                let why = "is neither an address nor a CIDR block; its clients are counted";
                problems.invalid(found.key, &ValueError::new(&entry, why));
            }
        }
    }
    (!buckets.is_empty()).then_some(ClientLimit { buckets, except })
}

fn number(text: &str) -> Value<u32> {
    within(text, 0)
}

fn positive(text: &str) -> Value<u32> {
    within(text, 1)
}

fn within(text: &str, least: i64) -> Value<u32> {
    let number = value::integer_within(text, least, i32::MAX.into())?;
    // In range, as just checked.
    Ok(u32::try_from(number).unwrap_or_default())
}

impl ClientLimit {
    /// The same for the routes of an Ingress.
    pub(crate) fn of(&self, ingress: &Ingress) -> filters::ClientLimit {
        filters::ClientLimit {
            ingress: format!("{}/{}", ingress.namespace, ingress.name),
            buckets: self.buckets.clone(),
            except: self.except.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::problems_of;
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&[], &[], 0, 0)]
    #[case(&[("nginx/limit-rps", "2")], &[(1, 2, 11)], 0, 0)]
    #[case(&[("nginx/limit-rps", "2"), ("nginx/limit-rpm", "10"), ("nginx/limit-burst-multiplier", "3")], &[(60, 10, 31), (1, 2, 7)], 0, 0)]
    #[case::off(&[("nginx/limit-rps", "0")], &[], 0, 0)]
    #[case::invalid(&[("nginx/limit-rps", "x"), ("higress/limit-rps", "3")], &[(1, 3, 16)], 0, 1)]
    #[case::negative(&[("nginx/limit-rpm", "-1")], &[], 0, 1)]
    #[case::large(&[("nginx/limit-rpm", "2147483647"), ("nginx/limit-burst-multiplier", "9")], &[(60, 2_147_483_647, u32::MAX)], 0, 0)]
    #[case::except(&[("nginx/limit-rps", "1"), ("nginx/limit-whitelist", "10.0.0.0/8, x"), ("nginx/limit-allowlist", "::1")], &[(1, 1, 6)], 2, 1)]
    fn limits(
        #[case] annotations: &[(&str, &str)],
        #[case] buckets: &[(i64, u32, u32)],
        #[case] except: usize,
        #[case] problems: usize,
    ) {
        let (limit, found) = problems_of(annotations, parse);
        let limit = limit.unwrap_or(ClientLimit {
            buckets: Vec::new(),
            except: Vec::new(),
        });
        assert_eq!(limit.buckets, buckets);
        assert_eq!(limit.except.len(), except);
        assert_eq!(found.len(), problems);
    }
}
