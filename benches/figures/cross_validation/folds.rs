//! Division of cases into folds. Cases of one subject stay together: a model that has seen the
//! other scan of a person is not tested on a new one.

use anyhow::{Context, bail};
use serde_json::Value;
use std::collections::BTreeMap;

/// Sets that name no subjects although several cases may be of one: cases whose numbers lie in the
/// same block of so many are kept together.
const BLOCKS: [(&str, u64); 1] = [
    // Neighbours often are the two sides of one person.
    ("hippocampus", 10),
];

/// How the cases of this set are grouped where the user does not say it.
pub(super) fn default_blocks(set: &str) -> u64 {
    BLOCKS.iter().find(|(name, _)| *name == set).map_or(1, |(_, size)| *size)
}

/// The group of each case: its subject where one is named, else its block of `blocks` consecutive
/// numbers, else (`blocks` is 1) the case itself.
///
/// # Errors
/// A case without a number, where blocks are wanted.
pub(super) fn groups(cases: &[Value], blocks: u64) -> anyhow::Result<Vec<String>> {
    let group = |case: &Value| {
        let id = case["id"].as_str().context("cases: one has no id")?;
        if let Some(subject) = case["subject"].as_str() {
            return Ok(format!("subject {subject}"));
        }
        if blocks <= 1 {
            return Ok(format!("case {id}"));
        }
        let number =
            number(id).with_context(|| format!("case {id}: has no number (leave out --blocks)"))?;
        Ok(format!("block {}", number / blocks))
    };
    cases.iter().map(group).collect()
}

/// The last number in a name.
fn number(id: &str) -> Option<u64> {
    id.rsplit(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?.parse().ok()
}

/// The fold of each case. Groups are dealt out in their order, each to the fold with the fewest
/// cases.
///
/// # Errors
/// Fewer groups than folds.
pub(super) fn divide(groups: &[String], folds: usize) -> anyhow::Result<Vec<usize>> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    groups.iter().for_each(|group| *sizes.entry(group).or_default() += 1);
    if sizes.len() < folds {
        bail!("{folds} folds of {} group(s) of cases (choose fewer folds)", sizes.len());
    }
    let mut filled = vec![0; folds];
    let mut fold_of: BTreeMap<&str, usize> = BTreeMap::new();
    let fold = |group| {
        *fold_of.entry(group).or_insert_with(|| {
            let fold = (0..folds).min_by_key(|&fold| filled[fold]).unwrap_or(0);
            filled[fold] += sizes[group];
            fold
        })
    };
    Ok(groups.iter().map(String::as_str).map(fold).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn subjects_and_blocks_stay_together() {
        let cases = [
            json!({ "id": "h_001", "subject": "anna" }),
            json!({ "id": "h_008" }),
            json!({ "id": "h_009" }),
            json!({ "id": "h_010" }),
            json!({ "id": "h_031", "subject": "anna" }),
        ];
        let groups_of = |blocks| groups(&cases, blocks).unwrap();
        assert_eq!(groups_of(1)[1..4], ["case h_008", "case h_009", "case h_010"]);
        let tens = groups_of(10);
        assert_eq!(tens, ["subject anna", "block 0", "block 0", "block 1", "subject anna"]);
        assert_eq!(divide(&tens, 2).unwrap(), [0, 1, 1, 0, 0]);
        assert!(divide(&tens, 4).is_err());
        assert!(groups(&[json!({ "id": "anna" })], 10).is_err());
    }

    #[test]
    fn folds_are_about_equal_and_all_are_used() {
        let groups: Vec<String> = (0..206).map(|n| format!("block {}", n / 10)).collect();
        let folds = divide(&groups, 4).unwrap();
        let sizes = [0, 1, 2, 3].map(|fold| folds.iter().filter(|&&f| f == fold).count());
        assert_eq!(sizes.iter().sum::<usize>(), 206);
        assert!(sizes.iter().all(|&n| (46..=60).contains(&n)), "{sizes:?}");
        assert_eq!(folds[..40], [[0; 10], [1; 10], [2; 10], [3; 10]].concat());
    }
}
