//! Which cases are for training and which for tests.

/// Of so many subjects, one is for tests.
const EVERY: usize = 5;

/// What is known of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// Who was scanned, or the case's own name.
    pub(super) subject: String,
    /// What a folder or a table says.
    pub(super) split: Option<String>,
}

/// How splits came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// Folders or tables say them.
    Given,
    /// Every fifth subject, in the order of their names, is for tests.
    EveryFifth,
    /// There are fewer than five subjects, and none is for tests.
    TooFew,
}

/// The split of each case. What folders and tables say counts, where they say more than `train`; else
/// every fifth subject in the order of their names is for tests. The order is that of people: `a2` goes
/// before `a10`.
pub(super) fn split(cases: &[Known]) -> (Vec<String>, Basis) {
    let given = |case: &Known| case.split.clone().unwrap_or_else(|| "train".to_owned());
    if cases.iter().any(|case| given(case) != "train") {
        return (cases.iter().map(given).collect(), Basis::Given);
    }
    let mut subjects: Vec<&str> = cases.iter().map(|case| case.subject.as_str()).collect();
    subjects.sort_by_cached_key(|subject| natural(subject));
    subjects.dedup();
    let basis = if subjects.len() < EVERY { Basis::TooFew } else { Basis::EveryFifth };
    let tests: Vec<&str> = subjects.into_iter().skip(EVERY - 1).step_by(EVERY).collect();
    let split = |case: &Known| if tests.contains(&&case.subject[..]) { "test" } else { "train" };
    (cases.iter().map(|case| split(case).to_owned()).collect(), basis)
}

/// A key by which names are in the order of the numbers in them.
pub(super) fn natural(name: &str) -> Vec<(u64, String)> {
    let mut parts = vec![(0, String::new())];
    let mut digits = String::new();
    let number = |digits: &mut String| std::mem::take(digits).parse::<u64>().ok();
    for c in name.chars() {
        if c.is_ascii_digit() && digits.len() < 18 {
            digits.push(c);
            continue;
        }
        if let Some(n) = number(&mut digits) {
            parts.push((n, String::new()));
        }
        if let Some((_, text)) = parts.last_mut() {
            text.push(c);
        }
    }
    parts.extend(number(&mut digits).map(|n| (n, String::new())));
    // Names that differ in leading zeros only are still two.
    parts.push((0, name.to_owned()));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(subjects: &[&str]) -> Vec<Known> {
        let case = |subject: &&str| Known { subject: (*subject).to_owned(), split: None };
        subjects.iter().map(case).collect()
    }

    #[test]
    fn every_fifth_subject_is_for_tests() {
        let cases = known(&["p10", "p2", "p1", "p3", "p4", "p4", "p5", "p6", "p7", "p8", "p9"]);
        let (splits, basis) = split(&cases);
        let tests: Vec<&str> = cases
            .iter()
            .zip(&splits)
            .filter(|(_, split)| *split == "test")
            .map(|(case, _)| case.subject.as_str())
            .collect();
        assert_eq!((tests, basis), (vec!["p10", "p5"], Basis::EveryFifth));
        assert_eq!(split(&known(&["a", "b", "b", "c", "d"])).1, Basis::TooFew);
    }

    #[test]
    fn what_folders_say_counts() {
        let mut cases = known(&["a", "b", "c", "d", "e"]);
        cases.iter_mut().for_each(|case| case.split = Some("train".to_owned()));
        assert_eq!(split(&cases).1, Basis::EveryFifth);
        cases[1].split = Some("dev".to_owned());
        cases[2].split = None;
        let (splits, basis) = split(&cases);
        assert_eq!((splits[1].as_str(), splits[2].as_str(), basis), ("dev", "train", Basis::Given));
    }
}
