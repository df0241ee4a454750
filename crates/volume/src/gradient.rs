//! The gradient of a quantised volume.

use crate::Volume;
use rayon::prelude::*;

/// `v[i+1] − v[i−1]` along i, j and k at every voxel, in the order of the voxels: twice the central
/// difference per voxel, so that it stays an integer. At the border the missing neighbour is the
/// voxel itself.
///
/// Made for intensities up to [`MAX_INTENSITY`](crate::MAX_INTENSITY); differences beyond `i16`
/// saturate.
pub fn gradient(v: &Volume<u16>) -> Vec<[i16; 3]> {
    let [nx, ny, nz] = v.shape();
    let mut gradient = vec![[0i16; 3]; v.data().len()];
    gradient.par_chunks_mut(nx).enumerate().for_each(|(line, to)| {
        let (j, k) = (line % ny, line / ny);
        let row = |j: usize, k: usize| {
            let start = v.offset(0, j, k);
            &v.data()[start..start + nx]
        };
        let here = row(j, k);
        let (front, back) = (row(j.saturating_sub(1), k), row((j + 1).min(ny - 1), k));
        let (below, above) = (row(j, k.saturating_sub(1)), row(j, (k + 1).min(nz - 1)));
        for (i, to) in to.iter_mut().enumerate() {
            *to = [
                difference(here[(i + 1).min(nx - 1)], here[i.saturating_sub(1)]),
                difference(back[i], front[i]),
                difference(above[i], below[i]),
            ];
        }
    });
    gradient
}

fn difference(a: u16, b: u16) -> i16 {
    (i32::from(a) - i32::from(b)).clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_difference_of_the_clamped_neighbours(
            shape in prop::array::uniform3(1usize..7),
            values in prop::collection::vec(0u16..4096, 216),
        ) {
            let geometry = Geometry::isotropic(shape, 1.0).unwrap();
            let v = Volume::new(geometry.clone(), values[..geometry.len()].to_vec());
            let gradient = gradient(&v);
            Volume::from_fn(geometry, |i, j, k| {
                let at = |di, dj, dk| i32::from(v.at_clamped(i as i64 + di, j as i64 + dj, k as i64 + dk));
                let expected = [at(1, 0, 0) - at(-1, 0, 0), at(0, 1, 0) - at(0, -1, 0), at(0, 0, 1) - at(0, 0, -1)];
                assert_eq!(gradient[v.offset(i, j, k)].map(i32::from), expected);
                0u8
            });
        }
    }

    #[test]
    fn saturates_beyond_twelve_bits() {
        let v = Volume::new(Geometry::isotropic([2, 1, 1], 1.0).unwrap(), vec![0, 65535]);
        assert_eq!(gradient(&v), [[i16::MAX, 0, 0]; 2]);
    }
}
