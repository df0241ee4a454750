//! How well two masks on one grid agree, counted in voxels: Dice's coefficient and volumes.

/// Voxels of a true mask, of a found one, and of both.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overlap {
    /// In the true mask.
    pub truth: u64,
    /// In the found mask.
    pub found: u64,
    /// In both.
    pub both: u64,
}

impl Overlap {
    /// 2·|A ∩ B| / (|A| + |B|); `None` where neither has a voxel.
    pub fn dice(&self) -> Option<f64> {
        let sum = self.truth + self.found;
        (sum > 0).then(|| 2.0 * self.both as f64 / sum as f64)
    }

    /// (found − true) / true in percent; `None` where the true mask is empty.
    pub fn volume_error_percent(&self) -> Option<f64> {
        let (truth, found) = (self.truth as f64, self.found as f64);
        (self.truth > 0).then(|| 100.0 * (found - truth) / truth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let overlap = Overlap { truth: 4, found: 3, both: 2 };
        assert_eq!(overlap.dice(), Some(4.0 / 7.0));
        assert_eq!(overlap.volume_error_percent(), Some(-25.0));
        let nothing = Overlap::default();
        assert_eq!((nothing.dice(), nothing.volume_error_percent()), (None, None));
    }
}
