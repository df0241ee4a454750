//! Masks of structures in label maps: whether each is in one piece.

use super::finding::Finding;
use super::images::few;
use super::robust::{FEWEST_TO_COMPARE, median};
use pbt_io::{CaseSpec, Dataset, box_from_labels, read_labels};
use pbt_volume::{
    Component, Components, ComponentsError, Connectivity, Geometry, Instances, Joining, LengthUnit,
    Pose, StructureKind, Volume, sha256_hex,
};
use std::collections::{BTreeMap, BTreeSet};

/// A mask is in pieces when its largest one has less than this share of its voxels …
const SHARE: f64 = 0.98;

/// … or when another one is farther from it than this share of its mean extent.
const FAR: f64 = 0.25;

/// So many cases are described in a finding; all are listed in JSON.
const DESCRIBED: usize = 5;

/// What is remembered of a label map.
pub(super) struct MaskFacts {
    pub(super) geometry: Geometry,
    /// The values that it holds.
    pub(super) values: BTreeSet<u16>,
    /// SHA-256 of its voxels.
    sha256: String,
    /// Structures whose mask is in pieces.
    in_pieces: Vec<InPieces>,
}

/// A mask in pieces.
struct InPieces {
    structure: String,
    count: usize,
    /// The share of the largest piece.
    share: f64,
    /// How far away the farthest other piece is, mm, by the boxes about both.
    far_mm: f64,
    /// Whether that is so near that their boxes touch or overlap.
    is_beside: bool,
    /// The box of the largest piece.
    largest: Option<Pose>,
}

/// A mask in pieces, with the box of its largest piece: what to look at.
pub(super) struct BrokenMask {
    pub(super) case: usize,
    pub(super) structure: String,
    pub(super) largest: Option<Pose>,
    pub(super) why: String,
}

/// Reads the label map of a case; `None` where there is none.
pub(super) fn look_at_masks(
    dataset: &Dataset,
    case: &CaseSpec,
) -> Option<Result<MaskFacts, Finding>> {
    let path = case.labels.as_ref()?;
    let labels = match read_labels(path) {
        Ok(labels) => labels,
        Err(error) => return Some(Err(Finding::error(error))),
    };
    let boxes: Vec<&str> = dataset
        .structures
        .iter()
        // The voxels of several instances are in pieces by right.
        .filter(|s| s.kind == StructureKind::Box && s.instances == Instances::One)
        .map(|s| s.name.as_str())
        .collect();
    let broken_mask = |name: &&str| {
        let values: BTreeSet<u16> =
            dataset.label_names.iter().filter(|(_, n)| n == name).map(|(&v, _)| v).collect();
        match (values.is_empty(), boxes.len()) {
            (false, _) => broken(&labels, name, |value| values.contains(&value)),
            // As boxes are derived: without a label of its name, the only box has all voxels.
            (true, 1) => broken(&labels, name, |value| value != 0),
            (true, _) => Ok(None),
        }
    };
    let in_pieces: Result<Vec<_>, _> =
        boxes.iter().filter_map(|name| broken_mask(name).transpose()).collect();
    Some(match in_pieces {
        Ok(in_pieces) => Ok(MaskFacts::of(&labels, in_pieces)),
        Err(error) => Err(Finding::error(Finding::of(path, format!("voxel data: {error}")))),
    })
}

impl MaskFacts {
    fn of(labels: &Volume<u16>, in_pieces: Vec<InPieces>) -> Self {
        let bytes: Vec<u8> = labels.data().iter().flat_map(|value| value.to_le_bytes()).collect();
        let (geometry, sha256) = (labels.geometry().clone(), sha256_hex(&[&bytes]));
        Self { geometry, values: held(labels), sha256, in_pieces }
    }
}

/// Cases whose label maps are the same, voxel for voxel, a finding for each such group: nobody draws
/// twice alike.
pub(super) fn same_label_maps(dataset: &Dataset, facts: &[Option<&MaskFacts>]) -> Vec<Finding> {
    let mut groups: BTreeMap<([usize; 3], &str), Vec<&CaseSpec>> = BTreeMap::new();
    for (case, facts) in dataset.cases.iter().zip(facts) {
        // An empty map may well be that of several cases.
        if let Some(facts) = facts.filter(|facts| facts.values.iter().any(|&value| value != 0)) {
            groups.entry((facts.geometry.shape(), &facts.sha256)).or_default().push(case);
        }
    }
    let mut groups: Vec<Vec<&CaseSpec>> = groups.into_values().filter(|g| g.len() > 1).collect();
    let place = |id: &str| dataset.cases.iter().position(|case| case.id == id);
    groups.sort_by_key(|group| place(&group[0].id));
    let finding = |group: Vec<&CaseSpec>| {
        let ids = || group.iter().map(|case| case.id.as_str());
        let what = format!(
            "labels: the label maps of {} cases have the same voxels: {} (give each its own)",
            group.len(),
            few(ids())
        );
        let path = group[0].labels.as_ref().unwrap_or(&dataset.path);
        Finding::warning(Finding::of(path, what)).in_cases(ids())
    };
    groups.into_iter().map(finding).collect()
}

/// The values in label maps that the data set names and that none of them holds.
pub(super) fn unused_labels(dataset: &Dataset, facts: &[Option<&MaskFacts>]) -> Option<Finding> {
    // A map that cannot be read may hold them.
    let unread = dataset.cases.iter().zip(facts).any(|(c, f)| c.labels.is_some() && f.is_none());
    let maps: Vec<_> = facts.iter().flatten().collect();
    if unread || maps.is_empty() {
        return None;
    }
    let held = maps.into_iter().flat_map(|facts| facts.values.iter().copied()).collect();
    dataset.unused_labels(&held).map(Finding::warning)
}

/// The values of a label map.
fn held(labels: &Volume<u16>) -> BTreeSet<u16> {
    let mut values = BTreeSet::new();
    // Neighbours are mostly alike.
    let mut last = None;
    for &value in labels.data() {
        if last != Some(value) {
            values.insert(value);
            last = Some(value);
        }
    }
    values
}

/// `None` where the mask is empty or in one piece, crumbs at its side aside.
fn broken(
    labels: &Volume<u16>,
    name: &str,
    inside: impl Fn(u16) -> bool + Sync,
) -> Result<Option<InPieces>, ComponentsError> {
    let components = Components::new(labels, &inside, Connectivity::TwentySix, Joining::default())?;
    let mut pieces = components.statistics(None)?;
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.voxels));
    let Some((largest, others)) = pieces.split_first() else { return Ok(None) };
    let spacing = labels.geometry().spacing_mm();
    let extent_mm = (0..3)
        .map(|a| (largest.last[a] - largest.first[a] + 1) as f64 * spacing[a])
        .product::<f64>()
        .cbrt();
    let all: u64 = pieces.iter().map(|piece| piece.voxels).sum();
    let share = largest.voxels as f64 / all as f64;
    let far_mm = others.iter().map(|other| gap_mm(largest, other, spacing)).fold(0.0, f64::max);
    if share >= SHARE && far_mm <= FAR * extent_mm {
        return Ok(None);
    }
    Ok(Some(InPieces {
        structure: name.to_owned(),
        count: pieces.len(),
        share,
        far_mm,
        is_beside: far_mm < 0.5 * spacing.iter().copied().fold(f64::INFINITY, f64::min),
        largest: box_of(labels, largest, inside),
    }))
}

/// How far apart the bounding boxes of two pieces are, mm.
fn gap_mm(a: &Component, b: &Component, spacing: [f64; 3]) -> f64 {
    let gap = |n: usize| {
        let voxels = b.first[n].saturating_sub(a.last[n]).max(a.first[n].saturating_sub(b.last[n]));
        (voxels as f64 * spacing[n]).powi(2)
    };
    (0..3).map(gap).sum::<f64>().sqrt()
}

/// The box of what lies in a piece's bounding box: of the piece, and of crumbs within it.
fn box_of(labels: &Volume<u16>, piece: &Component, inside: impl Fn(u16) -> bool) -> Option<Pose> {
    let shape: [usize; 3] = std::array::from_fn(|a| piece.last[a] - piece.first[a] + 1);
    let part = labels.geometry().part(piece.first, shape);
    let [i0, j0, k0] = piece.first;
    let mask =
        Volume::from_fn(part, |i, j, k| u16::from(inside(labels.at(i0 + i, j0 + j, k0 + k))));
    box_from_labels(&mask, |value| value == 1)
}

/// One finding a structure for the masks in pieces, the worst described first, and those to look
/// at. The cases are those of the data set, in its order.
pub(super) fn masks_in_pieces(
    dataset: &Dataset,
    facts: &[Option<&MaskFacts>],
    unit: LengthUnit,
) -> (Vec<Finding>, Vec<BrokenMask>) {
    let (mut findings, mut to_look_at) = (Vec::new(), Vec::new());
    for structure in &dataset.structures {
        let of_structure =
            |f: &&MaskFacts| f.in_pieces.iter().position(|p| p.structure == structure.name);
        let mut broken: Vec<(usize, &InPieces)> = facts
            .iter()
            .enumerate()
            .filter_map(|(n, f)| f.as_ref().and_then(|f| Some((n, &f.in_pieces[of_structure(f)?]))))
            .collect();
        if broken.is_empty() {
            continue;
        }
        broken.sort_by(|(_, a), (_, b)| a.share.total_cmp(&b.share));
        let ids = || broken.iter().map(|&(n, _)| dataset.cases[n].id.as_str());
        let all = facts.iter().flatten().count();
        if all >= FEWEST_TO_COMPARE && 2 * broken.len() >= all {
            let pieces = median(broken.iter().map(|(_, mask)| mask.count as f64)).unwrap_or(0.0);
            let what = format!(
                "structures: {}: its mask is in pieces in {} of {all} label maps, mostly in {pieces:.0} or so (does it have several parts? its box is about all of them)",
                structure.name,
                broken.len(),
            );
            findings.push(Finding::warning(Finding::of(&dataset.path, what)).in_cases(ids()));
            continue;
        }
        let describe = |&(n, mask): &(usize, &InPieces)| {
            format!("{} ({})", dataset.cases[n].id, mask.words(unit))
        };
        let mut described: Vec<String> = broken.iter().take(DESCRIBED).map(describe).collect();
        if broken.len() > DESCRIBED {
            described.push("...".to_owned());
        }
        let what = format!(
            "structures: {}: its mask is in pieces in {} of {all} label maps: {} (take the stray pieces away, or check that they belong to it)",
            structure.name,
            broken.len(),
            described.join(", ")
        );
        findings.push(Finding::warning(Finding::of(&dataset.path, what)).in_cases(ids()));
        to_look_at.extend(broken.into_iter().map(|(case, mask)| BrokenMask {
            case,
            structure: structure.name.clone(),
            largest: mask.largest,
            why: format!("its mask is in {}", mask.words(unit)),
        }));
    }
    (findings, to_look_at)
}

impl InPieces {
    fn words(&self, unit: LengthUnit) -> String {
        let share = 100.0 * self.share;
        let apart = || format!(", {:.1} {unit} apart", self.far_mm);
        let far = if self.is_beside { String::new() } else { apart() };
        // 99.96 is not 100.
        format!("{} pieces, the largest {:.1} %{far}", self.count, (share * 10.0).floor() / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::dataset;

    /// A ball of radius 6 and voxels elsewhere.
    fn ball(strays: &[[usize; 3]]) -> Volume<u16> {
        let geometry = Geometry::isotropic([40, 40, 40], 1.5).unwrap();
        Volume::from_fn(geometry, |i, j, k| {
            let square = |v: usize| (v as f64 - 15.0).powi(2);
            u16::from(square(i) + square(j) + square(k) < 36.0 || strays.contains(&[i, j, k]))
        })
    }

    fn found(labels: &Volume<u16>) -> Option<InPieces> {
        broken(labels, "a", |value| value == 1).unwrap()
    }

    #[test]
    fn strays_are_found_and_crumbs_are_not() {
        assert!(found(&ball(&[])).is_none());
        assert!(found(&ball(&[[15, 15, 22]])).is_none(), "a crumb at its side");
        let far = found(&ball(&[[15, 15, 36]])).unwrap();
        assert!(far.count == 2 && far.share > 0.99 && (far.far_mm - 16.0 * 1.5).abs() < 1e-9);
        // The box of the ball alone.
        assert!(far.largest.unwrap().size_mm.iter().all(|mm| *mm < 18.1), "{:?}", far.largest);
        let crumbs: Vec<[usize; 3]> = (0..40).map(|n| [10 + n % 10, 10 + n / 10, 22]).collect();
        let near = found(&ball(&crumbs)).unwrap();
        assert!(near.share < SHARE && near.count == 2);
        assert!(found(&Volume::filled(ball(&[]).geometry().clone(), 0)).is_none());
    }

    #[test]
    fn the_worst_case_is_named_first() {
        let dataset = dataset(&[("a", StructureKind::Box)], 3);
        let facts = |strays: &[[usize; 3]]| {
            let labels = ball(strays);
            let in_pieces = found(&labels).into_iter().collect();
            MaskFacts::of(&labels, in_pieces)
        };
        let crumbs: Vec<[usize; 3]> = (0..40).map(|n| [10 + n % 10, 10 + n / 10, 22]).collect();
        let all = [facts(&[[15, 15, 36]]), facts(&[]), facts(&crumbs)];
        let all: Vec<Option<&MaskFacts>> = all.iter().map(Some).collect();
        let (findings, broken) = masks_in_pieces(&dataset, &all, LengthUnit::Mm);
        assert!(findings.len() == 1 && findings[0].cases == ["c2", "c0"], "{findings:?}");
        assert!(
            findings[0].message.contains("in 2 of 3 label maps: c2 (2 pieces, the largest 95"),
            "{findings:?}"
        );
        assert_eq!(broken.len(), 2);
        assert!(masks_in_pieces(&dataset, &all[1..2], LengthUnit::Mm).0.is_empty());
    }

    /// Pieces whose boxes overlap are not "0.0 mm apart".
    #[test]
    fn pieces_beside_each_other_have_no_distance() {
        let words = |strays: &[[usize; 3]]| found(&ball(strays)).unwrap().words(LengthUnit::Mm);
        // In the corners of the box about the ball.
        let corner = [[10, 10, 10], [11, 10, 10], [10, 11, 10], [10, 10, 11]];
        let crumbs: Vec<[usize; 3]> = (0..32)
            .map(|n| {
                [0, 1, 2]
                    .map(|a| if n >> a & 1 == 0 { corner[n / 8][a] } else { 30 - corner[n / 8][a] })
            })
            .collect();
        assert!(!words(&crumbs).contains("apart"), "{}", words(&crumbs));
        assert!(words(&[[15, 15, 36]]).ends_with(", 24.0 mm apart"), "{}", words(&[[15, 15, 36]]));
    }

    #[test]
    fn what_is_mostly_in_pieces_is_one_line() {
        let dataset = dataset(&[("a", StructureKind::Box)], 6);
        let facts = |strays: &[[usize; 3]]| {
            let labels = ball(strays);
            let in_pieces = found(&labels).into_iter().collect();
            MaskFacts::of(&labels, in_pieces)
        };
        let (whole, broken) = (facts(&[]), facts(&[[15, 15, 36]]));
        let all = [&broken, &whole, &broken, &whole, &broken, &whole].map(Some);
        let (findings, to_look_at) = masks_in_pieces(&dataset, &all, LengthUnit::Mm);
        assert!(findings.len() == 1 && findings[0].cases == ["c0", "c2", "c4"], "{findings:?}");
        assert!(findings[0].message.contains("in 3 of 6 label maps, mostly in 2"), "{findings:?}");
        assert!(to_look_at.is_empty());
    }

    #[test]
    fn label_maps_that_are_the_same_are_named_together() {
        let dataset = dataset(&[("a", StructureKind::Box)], 5);
        let facts = |labels: &Volume<u16>| MaskFacts::of(labels, Vec::new());
        let (one, other) = (facts(&ball(&[])), facts(&ball(&[[1, 2, 3]])));
        let empty = facts(&Volume::filled(ball(&[]).geometry().clone(), 0));
        let maps = [Some(&empty), Some(&one), Some(&other), Some(&empty), Some(&one)];
        let found = same_label_maps(&dataset, &maps);
        assert!(found.len() == 1 && found[0].cases == ["c1", "c4"], "{found:?}");
        assert!(found[0].message.contains("same voxels: c1, c4"), "{found:?}");
        assert!(same_label_maps(&dataset, &maps[..4]).is_empty());
    }
}
