//! Shares of destinations, in whole numbers.

use shared_proto::networking::v1alpha3::HttpRouteDestination;

use super::annotations::canary::WHOLE;

/// Weights add up to this where that loses nothing.
const PERCENT: u64 = 100;
/// Weights together are below this, so that they fit everywhere.
const MAX_TOTAL: u64 = 1_000_000_000;

/// Makes weights comparable with those that others write: percentages if they are whole numbers, else as small as they
/// can be. If all are zero, the first destination gets everything.
pub(super) fn normalise(destinations: &mut [HttpRouteDestination]) {
    let mut weights: Vec<u64> = destinations.iter().map(weight).collect();
    let total: u64 = weights.iter().sum();
    if total == 0 {
        weights.iter_mut().take(1).for_each(|weight| *weight = 1);
    }
    let total = total.max(1);
    let percent = weights
        .iter()
        .all(|weight| (weight * PERCENT).is_multiple_of(total));
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    for (destination, weight) in destinations.iter_mut().zip(weights) {
        let weight = match percent {
            true => weight * PERCENT / total,
            false => weight / divisor,
        };
        destination.weight = i32::try_from(weight).unwrap_or(i32::MAX);
    }
}

/// Gives shares, in millionths of all requests, to further destinations, and what is left to the first ones. Shares of
/// more than everything count relative to each other.
pub(super) fn split(
    mut main: Vec<HttpRouteDestination>,
    canaries: Vec<(u64, Vec<HttpRouteDestination>)>,
) -> Vec<HttpRouteDestination> {
    let taken: u64 = canaries.iter().map(|(share, _)| share).sum();
    let total = taken.max(WHOLE);
    let scale = total / MAX_TOTAL + 1;
    distribute(&mut main, (total - taken) / scale);
    for (share, mut destinations) in canaries {
        distribute(&mut destinations, share / scale);
        main.extend(destinations);
    }
    normalise(&mut main);
    main
}

/// Distributes a share in proportion to the weights; what is left from rounding goes to the first.
fn distribute(destinations: &mut [HttpRouteDestination], share: u64) {
    let total: u64 = destinations.iter().map(weight).sum();
    let mut left = share;
    for destination in destinations.iter_mut().skip(1).rev() {
        let part = weight(destination) * share / total.max(1);
        left -= part;
        destination.weight = i32::try_from(part).unwrap_or(i32::MAX);
    }
    if let Some(first) = destinations.first_mut() {
        first.weight = i32::try_from(left).unwrap_or(i32::MAX);
    }
}

fn weight(destination: &HttpRouteDestination) -> u64 {
    u64::try_from(destination.weight).unwrap_or(0)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn destinations(weights: &[i32]) -> Vec<HttpRouteDestination> {
        let destination = |weight: &i32| HttpRouteDestination {
            weight: *weight,
            ..HttpRouteDestination::default()
        };
        weights.iter().map(destination).collect()
    }

    fn weights(destinations: &[HttpRouteDestination]) -> Vec<i32> {
        destinations.iter().map(|d| d.weight).collect()
    }

    #[rstest]
    #[case(&[7], &[100])]
    #[case(&[30, 70], &[30, 70])]
    #[case(&[1, 1], &[50, 50])]
    #[case(&[1, 2], &[1, 2])]
    #[case(&[100, 200, 300], &[1, 2, 3])]
    #[case(&[0, 0], &[100, 0])]
    #[case(&[], &[])]
    fn alone(#[case] given: &[i32], #[case] expected: &[i32]) {
        let mut all = destinations(given);
        normalise(&mut all);
        assert_eq!(weights(&all), expected);
    }

    #[rstest]
    #[case(&[100], vec![(250_000, vec![100])], &[75, 25])]
    #[case(&[100], vec![(530_000, vec![100])], &[47, 53])]
    #[case(&[100], vec![(300_000, vec![100]), (200_000, vec![100])], &[50, 30, 20])]
    #[case(&[100], vec![(1_000_000, vec![100])], &[0, 100])]
    #[case(&[100], vec![(0, vec![100])], &[100, 0])]
    #[case(&[100], vec![(5_000, vec![100])], &[199, 1])]
    #[case(&[100], vec![(600_000, vec![100]), (600_000, vec![100])], &[0, 50, 50])]
    #[case(&[30, 70], vec![(200_000, vec![100])], &[24, 56, 20])]
    #[case(&[100], vec![(400_000, vec![25, 75])], &[60, 10, 30])]
    #[case(&[100], vec![(333_333, vec![100])], &[666_667, 333_333])]
    fn with_canaries(
        #[case] main: &[i32],
        #[case] canaries: Vec<(u64, Vec<i32>)>,
        #[case] expected: &[i32],
    ) {
        let canaries = canaries
            .into_iter()
            .map(|(share, w)| (share, destinations(&w)));
        let all = split(destinations(main), canaries.collect());
        assert_eq!(weights(&all), expected);
    }

    #[test]
    fn a_thousand_canaries_do_not_overflow() {
        let canaries = (0..5000).map(|_| (WHOLE, destinations(&[1_000_000; 256])));
        let all = split(destinations(&[100]), canaries.collect());
        let total: i64 = all.iter().map(|d| i64::from(d.weight)).sum();
        assert!(total > 0 && total <= i64::from(u32::MAX));
    }
}
