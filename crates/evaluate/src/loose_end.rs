//! Structures that end where somebody stopped drawing: a spinal cord, an oesophagus.

use pbt_volume::Pose;

/// A structure is long when its longest edge is at least so many times the next.
const LONG: f64 = 2.0;

/// Ends are loose when the logarithm of the long edge has at least this standard deviation: people
/// differ in their lengths by some 5 to 10 per cent. Clinical contours of spinal cords have 0.24 and
/// of oesophagi 0.31, those of the long axis of the brainstem 0.16.
const LOOSE: f64 = 0.2;

/// Fewest boxes that tell.
const FEWEST: usize = 5;

/// Whether a structure with these boxes is long and ends at no definite place. Where its middle
/// lies along its longest edge then says little, and only the distance across it is right or wrong.
pub fn has_loose_end(boxes: &[Pose]) -> bool {
    if boxes.len() < FEWEST {
        return false;
    }
    let n = boxes.len() as f64;
    let logs = |a: usize| boxes.iter().map(move |pose| libm::log(pose.size_mm[a]));
    let mean = |a: usize| logs(a).sum::<f64>() / n;
    let mut edges = [0, 1, 2].map(|a| (mean(a), a));
    edges.sort_by(|a, b| b.0.total_cmp(&a.0));
    let [(longest, a), (next, _), _] = edges;
    let variance = logs(a).map(|log| (log - longest).powi(2)).sum::<f64>() / n;
    longest - next >= libm::log(LONG) && variance >= LOOSE * LOOSE
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{PointLps, rotation_from_vector};

    #[test]
    fn long_and_of_any_length() {
        let boxes = |width: f64, lengths: &[f64]| -> Vec<Pose> {
            let pose = |&length: &f64| Pose {
                center: PointLps::new(0.0, 0.0, 0.0),
                orientation: rotation_from_vector([0.0; 3].into()),
                size_mm: [20.0, length, width],
            };
            lengths.iter().map(pose).collect()
        };
        let any = [100.0, 150.0, 80.0, 120.0, 170.0];
        assert!(has_loose_end(&boxes(25.0, &any)));
        // As wide as it is long, of one length, or too few to tell.
        assert!(!has_loose_end(&boxes(90.0, &any)));
        assert!(!has_loose_end(&boxes(25.0, &[110.0, 120.0, 105.0, 115.0, 112.0])));
        assert!(!has_loose_end(&boxes(25.0, &any[..4])));
    }
}
