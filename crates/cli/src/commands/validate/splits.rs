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
    let cases_of = cases_of_splits(dataset);
    let fewest_of_others = |own: &str| {
        cases_of.iter().filter(|(name, _)| **name != own).map(|(_, cases)| cases.len()).min()
    };
    let finding = |(&split, cases): (&&str, &Vec<&CaseSpec>)| {
        let message = if let Some(meant) = meant(split) {
            slip(dataset, split, cases, meant)
        } else if !USUAL.contains(&split)
            && cases.len() <= FEW_CASES
            && fewest_of_others(split).is_some_and(|other| other >= TIMES_AS_MANY * cases.len())
        {
            let (count, ids) = (cases.len(), ids(cases));
            let what = format!(
                "only {count} case(s) have the split `{split}`: {ids} (check that it is meant)"
            );
            about_splits(dataset, &what)
        } else {
            return None;
        };
        Some(Finding::warning(message).in_cases(cases.iter().map(|case| case.id.as_str())))
    };
    cases_of.iter().filter_map(finding).collect()
}

/// Warnings about cases that training leaves out although their split is probably meant to be `train`.
pub(crate) fn lost_to_training(dataset: &Dataset) -> Vec<String> {
    let cases_of = cases_of_splits(dataset);
    let lost = cases_of.iter().filter(|(split, _)| meant(split) == Some("train"));
    lost.map(|(split, cases)| slip(dataset, split, cases, "train")).collect()
}

fn cases_of_splits(dataset: &Dataset) -> BTreeMap<&str, Vec<&CaseSpec>> {
    let mut cases_of: BTreeMap<&str, Vec<&CaseSpec>> = BTreeMap::new();
    dataset.cases.iter().for_each(|case| cases_of.entry(&case.split).or_default().push(case));
    cases_of
}

fn slip(dataset: &Dataset, split: &str, cases: &[&CaseSpec], meant: &str) -> String {
    let only = if meant == "train" { "; only cases of `train` are trained on" } else { "" };
    let (count, ids) = (cases.len(), ids(cases));
    let what = format!(
        "{count} case(s) have the split `{split}`: {ids} (write `{meant}`, if that is meant{only})"
    );
    about_splits(dataset, &what)
}

fn about_splits(dataset: &Dataset, what: &str) -> String {
    Finding::of(&dataset.path, format_args!("cases: split: {what}"))
}

fn ids(cases: &[&CaseSpec]) -> String {
    few(cases.iter().map(|case| case.id.as_str()))
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

    fn with_splits(splits: &[&str]) -> Dataset {
        let mut dataset = dataset(&[], splits.len());
        for (case, split) in dataset.cases.iter_mut().zip(splits) {
            case.split = (*split).to_owned();
        }
        dataset
    }

    fn findings(splits: &[&str]) -> Vec<Finding> {
        odd_splits(&with_splits(splits))
    }

    fn lost(splits: &[&str]) -> Vec<String> {
        lost_to_training(&with_splits(splits))
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
        assert_eq!(lost(&["train", "train", "trian", "tset"]), std::slice::from_ref(text));
        assert!(lost(&["train", "train", "tset", "spare"]).is_empty());
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
