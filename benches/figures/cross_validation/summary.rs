//! Figures of the records of all folds together, and the difference between configurations.

use pbt_evaluate::{Confidence, Judged, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One structure in one case: what is needed of a record of `pbt evaluate`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Record {
    case: String,
    pub(super) structure: String,
    kind: String,
    /// `present` or `absent`.
    truth: String,
    /// `found`, `doubtful`, `absent` or `no-result`.
    answer: String,
    score: Option<f64>,
    error: Option<Distance>,
    right: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Distance {
    center_mm: f64,
    angle_deg: Option<f64>,
    size_percent: Option<f64>,
}

/// Which records figures are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Group {
    Structure(String),
    /// `box` or `landmark`.
    Kind(String),
    All,
}

impl Group {
    /// Every structure that occurs, in this order, and what sums several of them up.
    pub(super) fn of<'a>(records: &[Record], order: impl Iterator<Item = &'a str>) -> Vec<Self> {
        let kind_of = |name: &str| records.iter().find(|r| r.structure == name).map(|r| &r.kind);
        let there: Vec<(&str, &String)> =
            order.filter_map(|name| Some((name, kind_of(name)?))).collect();
        let mut kinds: BTreeMap<&String, usize> = BTreeMap::new();
        there.iter().for_each(|(_, kind)| *kinds.entry(kind).or_default() += 1);
        let several = |(kind, &n): (&&String, &usize)| (n > 1).then(|| Self::Kind((*kind).clone()));
        let mut groups: Vec<Self> =
            there.iter().map(|(name, _)| Self::Structure((*name).to_owned())).collect();
        groups.extend(kinds.iter().filter_map(several));
        // One kind alone is all.
        if kinds.len() > 1 {
            groups.push(Self::All);
        }
        groups
    }

    /// How a table names it.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Structure(name) => name.clone(),
            Self::Kind(kind) => format!("(each {kind})"),
            Self::All => "(all)".to_owned(),
        }
    }

    fn holds(&self, record: &Record) -> bool {
        match self {
            Self::Structure(name) => record.structure == *name,
            Self::Kind(kind) => record.kind == *kind,
            Self::All => true,
        }
    }
}

/// Figures of a group.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    /// The structure, or what sums several up.
    pub(super) structure: String,
    /// Annotated ones that are in view.
    pub(super) n: usize,
    /// Of these, found without doubt.
    pub(super) found: usize,
    /// Found without doubt and not right: too far off, turned, or out of view in truth.
    pub(super) found_and_wrong: usize,
    /// Annotated ones in view that have no position.
    pub(super) missed: usize,
    /// Distance of the centres, mm, over found and doubtful ones, as all that follow.
    pub(super) center_mm: Option<Summary>,
    /// Angle between the orientations, degrees.
    pub(super) angle_deg: Option<Summary>,
    /// Mean error of the edge lengths, per cent.
    pub(super) size_percent: Option<Summary>,
    /// Mean of (score − outcome)².
    pub(super) brier: Option<f64>,
    /// Mean of |mean score − share right| over ten bins of the score.
    pub(super) calibration_error: Option<f64>,
}

impl Figures {
    pub(super) fn new(group: &Group, records: &[Record]) -> Self {
        let mine: Vec<&Record> = records.iter().filter(|r| group.holds(r)).collect();
        let present = || mine.iter().filter(|r| r.truth == "present");
        let summary = |measure: fn(&Distance) -> Option<f64>| {
            let errors = present().filter_map(|r| measure(r.error.as_ref()?));
            Summary::new(&errors.collect::<Vec<_>>())
        };
        let judged = |r: &&Record| {
            let error_mm = r.error.map(|e| e.center_mm);
            Some(Judged { score: r.score?, right: r.right, error_mm })
        };
        let confidence = Confidence::new(&mine.iter().filter_map(judged).collect::<Vec<_>>());
        Self {
            structure: group.title(),
            n: present().count(),
            found: present().filter(|r| r.answer == "found").count(),
            found_and_wrong: mine.iter().filter(|r| r.answer == "found" && !r.right).count(),
            missed: present().filter(|r| r.error.is_none()).count(),
            center_mm: summary(|e| Some(e.center_mm)),
            angle_deg: summary(|e| e.angle_deg),
            size_percent: summary(|e| e.size_percent),
            brier: confidence.as_ref().map(|c| c.brier),
            calibration_error: confidence.as_ref().map(|c| c.calibration_error),
        }
    }
}

/// By how much a second configuration is above a first one, over what both have found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Difference {
    /// Cases in which both can be compared.
    pub(super) cases: usize,
    /// Mean over the cases of the mean over the structures of a case.
    pub(super) mean: f64,
    /// Standard error of that mean; none of one case.
    pub(super) standard_error: Option<f64>,
}

impl Difference {
    fn new(first: &[&Record], second: &[&Record], measure: Measure) -> Option<Self> {
        let key = |r: &Record| (r.case.clone(), r.structure.clone());
        let before: BTreeMap<_, f64> =
            first.iter().filter_map(|r| Some((key(r), measure(r)?))).collect();
        let mut by_case: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for record in second {
            if let (Some(before), Some(after)) = (before.get(&key(record)), measure(record)) {
                by_case.entry(&record.case).or_default().push(after - before);
            }
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let cases: Vec<f64> = by_case.values().map(|values| mean(values)).collect();
        if cases.is_empty() {
            return None;
        }
        let (middle, n) = (mean(&cases), cases.len() as f64);
        let squares = cases.iter().map(|c| (c - middle).powi(2)).sum::<f64>();
        let standard_error = (cases.len() > 1).then(|| (squares / (n - 1.0) / n).sqrt());
        Some(Self { cases: cases.len(), mean: middle, standard_error })
    }
}

type Measure = fn(&Record) -> Option<f64>;

/// The differences of a group.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Differences {
    /// The structure, or what sums several up.
    structure: String,
    /// Distance of the centres, mm.
    pub(super) center_mm: Option<Difference>,
    /// Angle between the orientations, degrees.
    pub(super) angle_deg: Option<Difference>,
    /// (Score − outcome)².
    pub(super) brier: Option<Difference>,
}

impl Differences {
    pub(super) fn new(group: &Group, first: &[Record], second: &[Record]) -> Self {
        let [first, second] = [first, second]
            .map(|records| records.iter().filter(|r| group.holds(r)).collect::<Vec<_>>());
        let difference = |measure| Difference::new(&first, &second, measure);
        Self {
            structure: group.title(),
            center_mm: difference(|r| Some(r.error?.center_mm)),
            angle_deg: difference(|r| r.error?.angle_deg),
            brier: difference(|r| Some((r.score? - f64::from(u8::from(r.right))).powi(2))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(case: &str, structure: &str, answer: &str, mm: Option<f64>) -> Record {
        let error =
            mm.map(|mm| json!({ "center_mm": mm, "angle_deg": 2.0 * mm, "corner_mm": 9.0 }));
        serde_json::from_value(json!({
            "case": case, "structure": structure, "kind": "box", "truth": "present", "answer": answer,
            "score": 0.75, "error": error, "right": mm.is_some_and(|mm| mm < 2.0), "rivals": 0,
        }))
        .unwrap()
    }

    fn example() -> Vec<Record> {
        vec![
            record("a", "L1", "found", Some(1.0)),
            record("a", "L2", "found", Some(3.0)),
            record("b", "L1", "doubtful", Some(0.5)),
            record("b", "L2", "absent", None),
        ]
    }

    #[test]
    fn the_missed_count_and_the_wrong_are_named() {
        let records = example();
        let groups = Group::of(&records, ["L2", "L1", "T12"].into_iter());
        let titles: Vec<String> = groups.iter().map(Group::title).collect();
        assert_eq!(titles, ["L2", "L1", "(each box)"]);
        let all = Figures::new(&groups[2], &records);
        assert_eq!((all.n, all.found, all.found_and_wrong, all.missed), (4, 2, 1, 1));
        let center = all.center_mm.unwrap();
        assert_eq!((center.n, center.mean, center.max), (3, 1.5, 3.0));
        assert!(all.angle_deg.is_some() && all.size_percent.is_none());
        // Half of them is right, and all scores are ¾.
        assert_eq!((all.brier, all.calibration_error), (Some(0.3125), Some(0.25)));
    }

    #[test]
    fn differences_are_paired_by_case() {
        let (first, mut second) = (example(), example());
        for (r, more) in second.iter_mut().zip([1.0, 3.0, 4.0]) {
            r.error.as_mut().unwrap().center_mm += more;
        }
        let all = Differences::new(&Group::Kind("box".to_owned()), &first, &second);
        // Case a: the mean of 1 and 3; case b: 4, since L2 has no position.
        let center = all.center_mm.unwrap();
        assert_eq!((center.cases, center.mean, center.standard_error), (2, 3.0, Some(1.0)));
        assert_eq!(all.angle_deg.unwrap().mean, 0.0);
        let one = Differences::new(&Group::Structure("L2".to_owned()), &first, &second);
        assert_eq!(one.center_mm.map(|d| d.standard_error), Some(None));
    }
}
