//! Which voxels are foreground, and which neighbours belong together.

/// What makes voxels one component, beside being neighbours. Voxels are named by their place in
/// memory.
pub(super) trait Rule: Sync {
    /// Whether all neighbours in the foreground belong together.
    const ALWAYS: bool;
    /// Whether voxels of one run may differ, so that one pair does not speak for two runs.
    const PAIRWISE: bool;

    /// Bit `b` says whether voxel `n + b` is foreground, for `count` ≤ 64 voxels.
    fn inside(&self, n: usize, count: usize) -> u64;

    /// Whether two neighbours in the foreground belong together.
    fn joins(&self, a: usize, b: usize) -> bool;
}

/// All foreground belongs together.
pub(super) struct Mask<'a, T, F> {
    pub(super) values: &'a [T],
    pub(super) foreground: F,
}

impl<T: Copy + Sync, F: Fn(T) -> bool + Sync> Rule for Mask<'_, T, F> {
    const ALWAYS: bool = true;
    const PAIRWISE: bool = false;

    fn inside(&self, n: usize, count: usize) -> u64 {
        let mut flags = [0; 64];
        for (flag, &value) in flags.iter_mut().zip(&self.values[n..n + count]) {
            *flag = u8::from((self.foreground)(value));
        }
        packed(&flags)
    }

    fn joins(&self, _: usize, _: usize) -> bool {
        true
    }
}

/// Foreground of the same value belongs together.
pub(super) struct SameLabel<'a, T, F>(pub(super) Mask<'a, T, F>);

impl<T: Copy + PartialEq + Sync, F: Fn(T) -> bool + Sync> Rule for SameLabel<'_, T, F> {
    const ALWAYS: bool = false;
    const PAIRWISE: bool = false;

    fn inside(&self, n: usize, count: usize) -> u64 {
        self.0.inside(n, count)
    }

    fn joins(&self, a: usize, b: usize) -> bool {
        self.0.values[a] == self.0.values[b]
    }
}

/// As another rule has it, if the intensities of the two differ by at most a step.
pub(super) struct WithinStep<'a, R> {
    pub(super) rule: R,
    pub(super) intensity: &'a [f32],
    pub(super) step: f64,
}

impl<R: Rule> Rule for WithinStep<'_, R> {
    const ALWAYS: bool = false;
    const PAIRWISE: bool = true;

    fn inside(&self, n: usize, count: usize) -> u64 {
        self.rule.inside(n, count)
    }

    /// A value that is no number differs from all others.
    fn joins(&self, a: usize, b: usize) -> bool {
        let difference = f64::from(self.intensity[a]) - f64::from(self.intensity[b]);
        self.rule.joins(a, b) && difference.abs() <= self.step
    }
}

/// 64 bytes of 0 or 1 as bits: the product gathers the lowest bits of eight bytes in the highest
/// byte, the first one lowest. Compilers turn comparisons into bytes with vector instructions, but
/// not into bits.
fn packed(flags: &[u8; 64]) -> u64 {
    let (eights, _) = flags.as_chunks::<8>();
    eights.iter().rev().fold(0, |word, &eight| {
        word << 8 | u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_its_bit() {
        for bit in 0..64 {
            let mut flags = [0; 64];
            flags[bit] = 1;
            assert_eq!(packed(&flags), 1 << bit);
        }
        assert_eq!(packed(&[1; 64]), u64::MAX);
    }
}
