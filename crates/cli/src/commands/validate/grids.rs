//! Label maps on another grid than their image: made on another series, resampled, cut.

use super::finding::Finding;
use super::images::few;
use crate::session::GridDifference;
use pbt_io::CaseSpec;
use pbt_volume::Geometry;

/// Compares label maps with their images; each with the case that they belong to. Label maps that
/// differ in one way are one finding.
pub(super) fn compare_grids(cases: &[(&CaseSpec, &Geometry, &Geometry)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for kind in [GridDifference::Apart, GridDifference::Region, GridDifference::Spacing] {
        let different: Vec<_> =
            cases.iter().filter(|(_, i, l)| GridDifference::between(i, l) == Some(kind)).collect();
        let Some((first, image, labels)) = different.first() else { continue };
        let ids = || different.iter().map(|(case, ..)| case.id.as_str());
        let (what, todo) = kind.told();
        let message = format!(
            "{}: grid: {what}: {}, where the image has {}; {} of {} label maps differ so: {} ({todo})",
            first.labels.as_ref().unwrap_or(&first.image).display(),
            labels,
            image,
            different.len(),
            cases.len(),
            few(ids())
        );
        let finding = match kind {
            GridDifference::Apart => Finding::error(message),
            _ => Finding::warning(message),
        };
        findings.push(finding.in_cases(ids()));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::case;
    use crate::commands::validate::finding::Severity;
    use nalgebra::Matrix3;
    use pbt_volume::PointLps;

    #[test]
    fn label_maps_that_differ_alike_are_one_finding() {
        let grid = |shape, mm: f64, x| {
            Geometry::new(shape, Matrix3::identity() * mm, PointLps::new(x, 0.0, 0.0)).unwrap()
        };
        let image = grid([40, 30, 20], 1.0, 0.0);
        let beside = grid([40, 30, 20], 1.0, 500.0);
        let half = grid([20, 15, 10], 2.0, 0.0);
        let specs: Vec<CaseSpec> = (0..4).map(case).collect();
        let maps = [&half, &image, &beside, &half];
        let all: Vec<_> = specs.iter().zip(maps).map(|(spec, map)| (spec, &image, map)).collect();
        let found = compare_grids(&all);
        assert_eq!(found.len(), 2);
        assert!(found[0].severity == Severity::Error && found[0].cases == ["c2"], "{found:?}");
        assert!(
            found[1].severity == Severity::Warning && found[1].cases == ["c0", "c3"],
            "{found:?}"
        );
        assert!(found[1].message.contains("2 of 4 label maps differ so: c0, c3"), "{found:?}");
    }
}
