//! Structures that end where somebody stopped drawing, or where the scan does: a spinal cord, an oesophagus,
//! an aorta.

use pbt_volume::Pose;

/// A structure is long when its longest edge is at least so many times the next.
const LONG: f64 = 2.0;

/// Ends are loose when the logarithm of the long edge has at least this standard deviation without the
/// box that is farthest from the median: one wrong annotation shows nothing. People differ in their
/// lengths by 5 to 10 per cent (hippocampi 0.05, oesophagi drawn through the whole chest 0.08). Spinal cords in
/// clinical contours have 0.23 with all boxes, and aortas that the scan cuts off 0.15.
const LOOSE: f64 = 0.12;

/// Fewest boxes that tell.
const FEWEST: usize = 5;

/// Along which axis of its boxes, 0 to 2, a structure is long and ends at no definite place, if along any. Where its
/// middle lies along that edge then says little, and only the distance across it is right or wrong.
pub fn loose_axis(boxes: &[Pose]) -> Option<usize> {
    if boxes.len() < FEWEST {
        return None;
    }
    let logs = |a: usize| boxes.iter().map(|pose| libm::log(pose.size_mm[a])).collect::<Vec<_>>();
    let mut edges = [0, 1, 2].map(|a| (mean(&logs(a)), a));
    edges.sort_by(|a, b| b.0.total_cmp(&a.0));
    let [(longest, axis), (next, _), _] = edges;
    let is_long = longest - next >= libm::log(LONG);
    (is_long && spread(logs(axis)) >= LOOSE).then_some(axis)
}

/// Standard deviation of values, without the one that is farthest from their median.
fn spread(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (last, median) = (values.len() - 1, values[values.len() / 2]);
    let rest = match median - values[0] > values[last] - median {
        true => &values[1..],
        false => &values[..last],
    };
    let middle = mean(rest);
    let squares: f64 = rest.iter().map(|value| (value - middle).powi(2)).sum();
    (squares / rest.len() as f64).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{PointLps, rotation_from_vector};

    fn boxes(width: f64, lengths: &[f64]) -> Vec<Pose> {
        let pose = |&length: &f64| Pose {
            center: PointLps::new(0.0, 0.0, 0.0),
            orientation: rotation_from_vector([0.0; 3].into()),
            size_mm: [20.0, length, width],
        };
        lengths.iter().map(pose).collect()
    }

    #[test]
    fn long_and_of_any_length() {
        let any = [100.0, 150.0, 80.0, 120.0, 170.0];
        assert_eq!(loose_axis(&boxes(25.0, &any)), Some(1));
        // As wide as it is long, of one length, or too few to tell.
        assert_eq!(loose_axis(&boxes(90.0, &any)), None);
        assert_eq!(loose_axis(&boxes(25.0, &[110.0, 120.0, 105.0, 115.0, 112.0])), None);
        assert_eq!(loose_axis(&boxes(25.0, &any[..4])), None);
    }

    #[test]
    fn one_odd_box_is_no_loose_end() {
        let mut lengths = [110.0, 120.0, 105.0, 115.0, 112.0, 108.0, 118.0, 111.0];
        for odd in [55.0, 230.0] {
            lengths[3] = odd;
            assert_eq!(loose_axis(&boxes(25.0, &lengths)), None, "{odd}");
        }
        // Two are.
        lengths[5] = 60.0;
        assert_eq!(loose_axis(&boxes(25.0, &lengths)), Some(1));
    }
}
