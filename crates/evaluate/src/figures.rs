//! Summaries over the cases.

use crate::box_error::BoxError;
use crate::case_errors::{Answer, Comparison, Distance, Truth};
use crate::confidence::Confidence;
use crate::instance_figures::InstanceFigures;
use crate::proportion::Proportion;
use crate::summary::{Summary, success_rates};
use pbt_volume::{LengthUnit, StructureKind};
use serde::{Deserialize, Serialize};

/// Limits of the success detection rates, mm.
const LIMITS_MM: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

/// All figures of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summaries {
    /// Of all structures together.
    pub overall: Figures,
    /// Of all boxes; null where there are no landmarks.
    pub boxes: Option<Figures>,
    /// Of all landmarks; null where there are no boxes.
    pub landmarks: Option<Figures>,
    /// Of each structure, in the data set's order.
    pub structures: Vec<Figures>,
    /// The least and the largest distance up to which a position is right.
    #[serde(skip)]
    pub tolerances_mm: Option<[f64; 2]>,
    /// Those of `structures` that are right across their longest edge, since their ends are loose.
    #[serde(skip)]
    pub across: Vec<String>,
}

impl Summaries {
    /// Figures of the comparisons, whose lengths count `unit`; `structures` are the names in the
    /// order of the table.
    pub fn new<'a>(
        structures: impl Iterator<Item = &'a str>,
        comparisons: &[Comparison],
        unit: LengthUnit,
    ) -> Self {
        let of = |what: Group<'_>| Figures::new(what, comparisons, unit);
        let kinds = [StructureKind::Box, StructureKind::Landmark]
            .map(|kind| comparisons.iter().any(|c| c.kind == kind));
        let of_kind = |kind| (kinds == [true, true]).then(|| of(Group::Kind(kind)));
        let structures: Vec<&str> = structures.collect();
        let is_across =
            |name: &&&str| comparisons.iter().any(|c| c.across && c.structure == **name);
        Self {
            across: structures.iter().filter(is_across).map(|name| (*name).to_owned()).collect(),
            overall: of(Group::All),
            boxes: of_kind(StructureKind::Box),
            landmarks: of_kind(StructureKind::Landmark),
            structures: structures.iter().map(|name| of(Group::Structure(name))).collect(),
            tolerances_mm: comparisons
                .iter()
                .filter_map(|c| c.tolerance_mm)
                .map(|mm| [mm, mm])
                .reduce(|[a, b], [c, d]| [a.min(c), b.max(d)]),
        }
    }
}

/// Which comparisons figures are about.
#[derive(Debug, Clone, Copy)]
enum Group<'a> {
    All,
    Kind(StructureKind),
    Structure(&'a str),
}

/// The figures of one structure, or of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The structure; null for several together.
    pub structure: Option<String>,
    /// Box or landmark; null for both together, and of a structure in no case.
    pub kind: Option<StructureKind>,
    /// Cases in which it is annotated and there.
    pub annotated: usize,
    /// Annotated ones that were found.
    pub found: usize,
    /// Annotated ones that were found with doubt.
    pub doubtful: usize,
    /// Annotated ones that were not found.
    pub missed: usize,
    /// Those whose position is within the tolerance.
    #[serde(default)]
    pub right: usize,
    /// Those of them that were found without doubt.
    #[serde(default)]
    pub found_right: usize,
    /// Cases in which it is marked as outside the field of view.
    pub out_of_view: usize,
    /// Those of them in which it was found all the same.
    #[serde(rename = "false")]
    pub falsely_found: usize,
    /// Those of them in which it was found with doubt.
    pub doubtful_out_of_view: usize,
    /// Success detection rates.
    pub success_rates: SuccessRates,
    /// Whether it was taken for another one; null where there is no other one of its kind.
    pub identification: Option<Identification>,
    /// How well instances were counted; null of a structure that occurs once.
    #[serde(default)]
    pub instances: Option<InstanceFigures>,
    /// Whether its scores can be believed; null without scores.
    pub confidence: Option<Confidence>,
    /// Whether its radii hold what they say; null where results have none.
    pub coverage: Option<Coverage>,
    /// Distance of the centres, mm, over found and doubtful ones, as all that follow. Null where
    /// there are none.
    pub center_mm: Option<Summary>,
    /// Angle between the orientations, degrees.
    pub angle_deg: Option<Summary>,
    /// Mean error of the edge lengths, per cent.
    pub size_percent: Option<Summary>,
    /// Length of the difference of the size vectors, mm.
    pub size_mm: Option<Summary>,
    /// Largest distance of corresponding corners, mm.
    pub corner_mm: Option<Summary>,
    /// Largest distance of the end-points of the first axis, mm.
    pub line_mm: Option<Summary>,
}

/// Shares, 0 to 1, of the annotated structures whose centre was found within a distance; a missed
/// one lies within none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SuccessRates {
    /// Within 1 mm.
    pub within_1_mm: f64,
    /// Within 2 mm.
    pub within_2_mm: f64,
    /// Within 3 mm.
    pub within_3_mm: f64,
    /// Within 4 mm.
    pub within_4_mm: f64,
}

/// Look-alikes told apart, as vertebra by vertebra, over cases in which another structure of the
/// same kind is annotated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Identification {
    /// Structures that are annotated.
    pub annotated: usize,
    /// Share of them that was found less than 20 mm away and nearer to itself than to any other
    /// annotated one of its kind: the identification rate of Sekuboyina et al. 2021 (VerSe). In
    /// pixels the distance does not count. A missed one counts against it.
    pub rate: f64,
    /// Share of those found, with or without doubt, that are nearer to themselves than to any
    /// other; null where none was found.
    pub nearest_is_right: Option<f64>,
    /// Those that were found without doubt where another one is.
    pub wrong_without_doubt: usize,
}

impl Identification {
    fn new(comparisons: &[&Comparison], unit: LengthUnit) -> Option<Self> {
        let identified: Vec<bool> =
            comparisons.iter().filter_map(|c| c.is_identified(unit)).collect();
        let nearest: Vec<bool> = comparisons.iter().filter_map(|c| c.is_nearest_right()).collect();
        let share = |list: &[bool]| {
            (!list.is_empty())
                .then(|| list.iter().filter(|&&yes| yes).count() as f64 / list.len() as f64)
        };
        Some(Self {
            annotated: identified.len(),
            rate: share(&identified)?,
            nearest_is_right: share(&nearest),
            wrong_without_doubt: comparisons
                .iter()
                .filter(|c| c.answer == Answer::Found && c.is_nearest_right() == Some(false))
                .count(),
        })
    }
}

/// Found structures whose radius of 90 % is known, and how many lie within.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Number of them.
    pub n: usize,
    /// Those that lie within their radius.
    pub within: usize,
    /// Exact 95 % interval of the share that lies within (Clopper and Pearson 1934). Structures of
    /// one case are taken for independent, which makes it rather too narrow.
    pub interval: [f64; 2],
    /// Mean radius, mm.
    pub mean_radius_mm: f64,
}

impl Coverage {
    fn new(comparisons: &[&Comparison]) -> Option<Self> {
        let with_radius: Vec<(f64, f64)> = comparisons
            .iter()
            .filter_map(|c| Some((c.radius_90_mm?, c.error.as_ref()?.center_mm())))
            .collect();
        let mut within = Proportion::default();
        with_radius.iter().for_each(|(radius, error)| within.add(error <= radius));
        (within.all > 0).then(|| Self {
            n: within.all,
            within: within.good,
            interval: within.interval(),
            mean_radius_mm: with_radius.iter().map(|r| r.0).sum::<f64>() / within.all as f64,
        })
    }
}

impl Figures {
    fn new(group: Group<'_>, comparisons: &[Comparison], unit: LengthUnit) -> Self {
        let is_mine = |c: &&Comparison| match group {
            Group::All => true,
            Group::Kind(kind) => c.kind == kind,
            Group::Structure(name) => c.structure == name,
        };
        let structure = match group {
            Group::Structure(name) => Some(name.to_owned()),
            Group::All | Group::Kind(_) => None,
        };
        let mine: Vec<&Comparison> = comparisons.iter().filter(is_mine).collect();
        let present: Vec<&Comparison> =
            mine.iter().copied().filter(|c| c.truth == Truth::Present).collect();
        let answered = |answer: Answer| present.iter().filter(|c| c.answer == answer).count();
        let center = |c: &Comparison| c.error.as_ref().map(Distance::center_mm);
        let centers: Vec<f64> = present.iter().filter_map(|c| center(c)).collect();
        let with_missed: Vec<f64> =
            present.iter().map(|c| center(c).unwrap_or(f64::INFINITY)).collect();
        let rates = success_rates(&with_missed, &LIMITS_MM);
        let right = || present.iter().filter(|c| c.right);
        let boxes: Vec<&BoxError> =
            present.iter().filter_map(|c| c.error.as_ref()?.of_box()).collect();
        let over_boxes = |measure: fn(&BoxError) -> f64| {
            Summary::new(&boxes.iter().map(|b| measure(b)).collect::<Vec<_>>())
        };
        let kind = match group {
            Group::All => None,
            Group::Kind(kind) => Some(kind),
            Group::Structure(_) => mine.first().map(|c| c.kind),
        };
        let absent = || mine.iter().filter(|c| c.truth == Truth::Absent && c.instance.is_none());
        let judged: Vec<_> = mine.iter().filter_map(|c| c.judged()).collect();
        Self {
            structure,
            kind,
            annotated: present.len(),
            found: answered(Answer::Found),
            doubtful: answered(Answer::Doubtful),
            missed: present.iter().filter(|c| c.is_missed()).count(),
            right: right().count(),
            found_right: right().filter(|c| c.answer == Answer::Found).count(),
            out_of_view: absent().count(),
            falsely_found: absent().filter(|c| c.is_false()).count(),
            doubtful_out_of_view: absent().filter(|c| c.answer == Answer::Doubtful).count(),
            success_rates: SuccessRates {
                within_1_mm: rates[0],
                within_2_mm: rates[1],
                within_3_mm: rates[2],
                within_4_mm: rates[3],
            },
            identification: Identification::new(&mine, unit),
            instances: InstanceFigures::new(&mine),
            confidence: Confidence::new(&judged),
            coverage: Coverage::new(&present),
            center_mm: Summary::new(&centers),
            angle_deg: over_boxes(|e| e.angle_deg),
            size_percent: over_boxes(|e| e.size_percent),
            size_mm: over_boxes(|e| e.size_mm),
            corner_mm: over_boxes(|e| e.corner_mm),
            line_mm: over_boxes(|e| e.line_mm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(
        structure: &str,
        truth: Truth,
        answer: Answer,
        center_mm: Option<f64>,
    ) -> Comparison {
        let error = center_mm.map(|center_mm| Distance::Point { center_mm });
        Comparison {
            case: "c".into(),
            structure: structure.into(),
            kind: StructureKind::Landmark,
            truth,
            answer,
            score: None,
            error,
            across: false,
            radius_90_mm: None,
            tolerance_mm: Some(3.0),
            right: center_mm.is_some_and(|mm| mm <= 3.0),
            rivals: 0,
            nearest: None,
            instance: None,
            overlap: None,
        }
    }

    fn example() -> Vec<Comparison> {
        vec![
            comparison("nose", Truth::Present, Answer::Found, Some(0.5)),
            comparison("nose", Truth::Present, Answer::Doubtful, Some(2.5)),
            comparison("nose", Truth::Present, Answer::Absent, None),
            comparison("nose", Truth::Present, Answer::NoResult, None),
            comparison("nose", Truth::Absent, Answer::Found, None),
            comparison("nose", Truth::Absent, Answer::Doubtful, None),
            comparison("nose", Truth::Absent, Answer::Absent, None),
            comparison("ear", Truth::Present, Answer::Found, Some(3.5)),
        ]
    }

    #[test]
    fn missed_ones_count_against_the_rates_and_not_in_the_errors() {
        let all = example();
        let nose = Figures::new(Group::Structure("nose"), &all, LengthUnit::Mm);
        assert_eq!((nose.annotated, nose.found, nose.doubtful, nose.missed), (4, 1, 1, 2));
        assert_eq!((nose.out_of_view, nose.falsely_found, nose.doubtful_out_of_view), (3, 1, 1));
        let center = nose.center_mm.unwrap();
        assert_eq!((center.n, center.mean, center.max), (2, 1.5, 2.5));
        assert_eq!((nose.success_rates.within_1_mm, nose.success_rates.within_3_mm), (0.25, 0.5));
        assert!(
            nose.angle_deg.is_none() && nose.identification.is_none() && nose.confidence.is_none()
        );
        let both = Figures::new(Group::All, &all, LengthUnit::Mm);
        assert_eq!((both.annotated, both.success_rates.within_4_mm), (5, 0.6));
    }

    #[test]
    fn identification_counts_the_missed_and_what_is_elsewhere() {
        let mut all = vec![
            comparison("L1", Truth::Present, Answer::Found, Some(2.0)),
            comparison("L2", Truth::Present, Answer::Found, Some(33.0)),
            comparison("L3", Truth::Present, Answer::Doubtful, Some(34.0)),
            comparison("L4", Truth::Present, Answer::Absent, None),
            // Nearest to itself, but 20 mm and more away.
            comparison("L5", Truth::Present, Answer::Found, Some(20.0)),
        ];
        for (c, nearest) in
            all.iter_mut().zip([Some("L1"), Some("L3"), Some("L2"), None, Some("L5")])
        {
            (c.rivals, c.nearest) = (4, nearest.map(str::to_owned));
        }
        let of = |unit| Figures::new(Group::All, &all, unit).identification.unwrap();
        let i = of(LengthUnit::Mm);
        assert_eq!(
            (i.annotated, i.rate, i.nearest_is_right, i.wrong_without_doubt),
            (5, 0.2, Some(0.5), 1)
        );
        assert_eq!(of(LengthUnit::Pixels).rate, 0.4);
    }

    #[test]
    fn kinds_are_summed_up_where_there_are_both() {
        let mut all = example();
        let landmarks = Summaries::new(["nose", "ear"].into_iter(), &all, LengthUnit::Mm);
        assert!(landmarks.boxes.is_none() && landmarks.landmarks.is_none());
        all[7].kind = StructureKind::Box;
        let both = Summaries::new(["nose", "ear"].into_iter(), &all, LengthUnit::Mm);
        assert_eq!(
            (both.boxes.as_ref().unwrap().annotated, both.landmarks.as_ref().unwrap().annotated),
            (1, 4)
        );
    }
}
