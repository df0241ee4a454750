//! Random draws that are the same everywhere: ChaCha8 streams, and choices made in integers.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The random stream of a node of a tree.
pub(crate) fn stream(seed: u64, tree: u32, node: u32) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream((tree as u64) << 32 | node as u64);
    rng
}

/// A number below `n` (not 0). The bias of the multiply-shift is below n·2⁻⁶⁴.
pub(crate) fn below(rng: &mut ChaCha8Rng, n: u64) -> u64 {
    ((rng.next_u64() as u128 * n as u128) >> 64) as u64
}

/// Systematic sampling: how often each item is drawn when `count` are drawn with expectations
/// proportional to `weights`.
///
/// One random offset, then equal steps through the cumulated weights, so that an item of share p is
/// drawn ⌊count·p⌋ or ⌈count·p⌉ times.
pub(crate) fn systematic(weights: &[u32], count: usize, rng: &mut ChaCha8Rng) -> Vec<u32> {
    let total: u64 = weights.iter().map(|&w| w as u64).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    let offset = below(rng, total) as u128;
    let (mut cumulated, mut drawn) = (0u128, 0u128);
    let draws_up_to = |cumulated: u128| (cumulated * count as u128 + offset) / total as u128;
    weights
        .iter()
        .map(|&w| {
            cumulated += w as u128;
            let before = std::mem::replace(&mut drawn, draws_up_to(cumulated));
            (drawn - before) as u32
        })
        .collect()
}

/// A random subset of `0..n` in rising order: a share `fraction` of it, rounded up, and at least
/// one.
pub(crate) fn subset(n: usize, fraction: f64, rng: &mut ChaCha8Rng) -> Vec<u32> {
    if fraction >= 1.0 {
        return (0..n as u32).collect();
    }
    let mut wanted = ((n as f64 * fraction).ceil() as u64).clamp(1, n.max(1) as u64);
    // Selection sampling (Knuth, TAOCP 2, algorithm S): each item with the probability wanted/left.
    let mut chosen = Vec::with_capacity(wanted as usize);
    for i in 0..n as u64 {
        if below(rng, n as u64 - i) < wanted {
            chosen.push(i as u32);
            wanted -= 1;
        }
    }
    chosen
}

/// `groups.len()` draws with replacement among the distinct groups: how often each place of
/// `groups` is in the bootstrap sample.
pub(crate) fn bootstrap_of_groups(groups: &[u32], rng: &mut ChaCha8Rng) -> Vec<u32> {
    let mut distinct = groups.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut times = vec![0u32; distinct.len()];
    for _ in 0..distinct.len() {
        times[below(rng, distinct.len() as u64) as usize] += 1;
    }
    groups.iter().map(|&g| times[distinct.partition_point(|&d| d < g)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn systematic_draws_are_proportional(weights in prop::collection::vec(0u32..1000, 1..50), count in 0usize..200, seed: u64) {
            let total: u64 = weights.iter().map(|&w| w as u64).sum();
            let draws = systematic(&weights, count, &mut stream(seed, 0, 0));
            prop_assert_eq!(draws.iter().sum::<u32>() as usize, if total == 0 { 0 } else { count });
            for (&w, &d) in weights.iter().zip(&draws) {
                let expected = if total == 0 { 0.0 } else { w as f64 * count as f64 / total as f64 };
                prop_assert!((d as f64 - expected).abs() < 1.0);
            }
        }

        #[test]
        fn subsets_have_their_size(n in 1usize..200, fraction in 0.01f64..1.2, seed: u64) {
            let chosen = subset(n, fraction, &mut stream(seed, 1, 2));
            prop_assert_eq!(chosen.len(), ((n as f64 * fraction).ceil() as usize).clamp(1, n));
            prop_assert!(chosen.windows(2).all(|w| w[0] < w[1]) && chosen.iter().all(|&c| (c as usize) < n));
        }

        #[test]
        fn bootstrap_takes_whole_groups(groups in prop::collection::vec(0u32..6, 1..40), seed: u64) {
            let times = bootstrap_of_groups(&groups, &mut stream(seed, 0, 0));
            let mut of_group = std::collections::BTreeMap::new();
            for (&g, &t) in groups.iter().zip(&times) {
                prop_assert_eq!(*of_group.entry(g).or_insert(t), t);
            }
            prop_assert_eq!(of_group.values().sum::<u32>() as usize, of_group.len());
        }
    }

    #[test]
    fn each_item_is_as_likely_in_a_subset() {
        let mut seen = [0u32; 10];
        for seed in 0..2000 {
            subset(10, 0.3, &mut stream(seed, 0, 0)).iter().for_each(|&i| seen[i as usize] += 1);
        }
        // 600 expected, standard deviation 20.5.
        assert!(seen.iter().all(|&n| (500..700).contains(&n)), "{seen:?}");
    }
}
