//! Names of splits that look like slips of the pen. `train` learns from the split `train` alone, so
//! that cases of a split `trian` are lost without a word.

use super::finding::Finding;
use super::images::few;
use pbt_io::{CaseSpec, Dataset};
use std::collections::BTreeMap;

/// The words that one of another spelling probably means.
const USUAL: [&str; 5] = ["train", "test", "dev", "val", "validation"];

/// Words that are as near to a usual one as a slip, and yet are words.
const WORDS: [&str; 5] = ["eval", "rest", "best", "text", "valid"];

/// A split of another name with at most so many cases may be a slip, too …
const FEW_CASES: usize = 2;

/// … where every other split has so many times as many.
const TIMES_AS_MANY: usize = 5;

/// Splits whose name may be a slip of the pen.
pub(super) fn odd_splits(dataset: &Dataset) -> Vec<Finding> {
    let mut cases_of: BTreeMap<&str, Vec<&CaseSpec>> = BTreeMap::new();
    dataset.cases.iter().for_each(|case| cases_of.entry(&case.split).or_default().push(case));
    let fewest_of_others = |own: &str| {
        cases_of.iter().filter(|(name, _)| **name != own).map(|(_, cases)| cases.len()).min()
    };
    let finding = |(&split, cases): (&&str, &Vec<&CaseSpec>)| {
        let ids = || few(cases.iter().map(|case| case.id.as_str()));
        let count = cases.len();
        let what = if let Some(meant) = meant(split) {
            let only = if meant == "train" { "; only cases of `train` are trained on" } else { "" };
            format!(
                "{count} case(s) have the split `{split}`: {} (write `{meant}`, if that is meant{only})",
                ids()
            )
        } else if !USUAL.contains(&split)
            && count <= FEW_CASES
            && fewest_of_others(split).is_some_and(|other| other >= TIMES_AS_MANY * count)
        {
            format!(
                "only {count} case(s) have the split `{split}`: {} (check that it is meant)",
                ids()
            )
        } else {
            return None;
        };
        let message = Finding::of(&dataset.path, format_args!("cases: split: {what}"));
        Some(Finding::warning(message).in_cases(cases.iter().map(|case| case.id.as_str())))
    };
    cases_of.iter().filter_map(finding).collect()
}

/// The usual word that was probably meant by another one.
fn meant(split: &str) -> Option<&'static str> {
    if USUAL.contains(&split) {
        return None;
    }
    let plain = split.trim().to_lowercase();
    // `test2` is the second of two.
    if WORDS.contains(&plain.as_str()) || plain.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match plain.as_str() {
        "training" => return Some("train"),
        "testing" => return Some("test"),
        _ => {}
    }
    // Short words are near to many.
    let reach = |word: &str| if word.len() < 5 { 1 } else { 2 };
    let distances = USUAL.map(|word| (strsim::osa_distance(&plain, word), word));
    distances.into_iter().filter(|&(d, word)| d <= reach(word)).min().map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::dataset;

    fn findings(splits: &[&str]) -> Vec<Finding> {
        let mut dataset = dataset(&[], splits.len());
        for (case, split) in dataset.cases.iter_mut().zip(splits) {
            case.split = (*split).to_owned();
        }
        odd_splits(&dataset)
    }

    #[test]
    fn slips_are_told_from_words() {
        for slip in ["trian", "tran", "Train", "train ", "trainn", "training", "trein"] {
            assert_eq!(meant(slip), Some("train"), "{slip}");
        }
        assert_eq!(
            (meant("tset"), meant("tests"), meant("vall")),
            (Some("test"), Some("test"), Some("val"))
        );
        assert_eq!(meant("vaildation"), Some("validation"));
        for word in ["train", "test", "dev", "test2", "held-out", "fold_a", "eval", "rest", "a"] {
            assert_eq!(meant(word), None, "{word}");
        }
    }

    #[test]
    fn a_slip_is_named_with_its_cases() {
        let found = findings(&["train", "train", "trian", "test"]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cases, ["c2"]);
        let text = &found[0].message;
        assert!(text.contains("`trian`: c2") && text.contains("write `train`"), "{text}");
    }

    #[test]
    fn a_word_of_one_case_among_many_is_named() {
        let mut splits = vec!["train"; 10];
        splits.extend(["test"; 5]);
        splits.push("spare");
        let found = findings(&splits);
        assert!(found.len() == 1 && found[0].message.contains("only 1 case(s)"), "{found:?}");
        // Two usual words, and small sets.
        splits.pop();
        assert!(findings(&splits).is_empty());
        assert!(findings(&["train", "train", "spare"]).is_empty());
        let few_tests = ["train", "train", "train", "train", "train", "train", "test"];
        assert!(findings(&few_tests).is_empty());
    }
}
