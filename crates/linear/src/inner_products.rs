//! Inner products of some vectors with some others: what regressions spend their time on.
//!
//! A block of products reads each value once for all of its sums, which stay in registers.
//! Compilers do not find the instructions for it: plain loops reach a third of the speed (integers)
//! or a quarter. Both ways give the same bits: integers are exact, and real sums keep one order.

/// Largest magnitude of an integer that [`InnerProducts::of_integers`] takes.
pub(crate) const LARGEST: i16 = 4095;

/// Sums of real products that go on side by side.
pub const SUMS: usize = 4;

/// Vectors of integers after which sums of 32 bits are emptied: each takes two products of twice 12
/// bits a vector.
#[cfg(target_arch = "x86_64")]
const INTEGER_RUN: usize = 32;

/// The instructions at hand.
#[derive(Clone, Copy)]
pub(crate) struct InnerProducts {
    #[cfg(target_arch = "x86_64")]
    avx2: Option<pulp::x86::V3>,
}

impl InnerProducts {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            avx2: pulp::x86::V3::try_new(),
        }
    }

    /// Of every `a` with every `b`, exactly. All are of one length, with values within
    /// ±[`LARGEST`].
    pub(crate) fn of_integers<const A: usize, const B: usize>(
        self,
        a: [&[i16]; A],
        b: [&[i16]; B],
    ) -> [[i64; B]; A] {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = self.avx2 {
            return avx2.vectorize(Integers { avx2, a, b });
        }
        integers(a, b)
    }

    /// Of every `a` with every `b`, as four interleaved sums. All are of one length.
    pub(crate) fn of_reals<const A: usize, const B: usize>(
        self,
        a: [&[f64]; A],
        b: [&[f64]; B],
    ) -> [[f64; B]; A] {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = self.avx2 {
            return avx2.vectorize(Reals { avx2, a, b });
        }
        reals(a, b)
    }
}

fn integers<const A: usize, const B: usize>(a: [&[i16]; A], b: [&[i16]; B]) -> [[i64; B]; A] {
    a.map(|a| {
        b.map(|b| a.iter().zip(b).map(|(&x, &y)| i64::from(i32::from(x) * i32::from(y))).sum())
    })
}

fn reals<const A: usize, const B: usize>(a: [&[f64]; A], b: [&[f64]; B]) -> [[f64; B]; A] {
    a.map(|a| {
        b.map(|b| {
            let mut sums = [0.0; SUMS];
            let (x, y) = (a.chunks_exact(SUMS), b.chunks_exact(SUMS));
            let rest = rest(x.remainder(), y.remainder());
            for (x, y) in x.zip(y) {
                for l in 0..SUMS {
                    sums[l] += x[l] * y[l];
                }
            }
            total(sums, rest)
        })
    })
}

#[inline(always)]
fn rest(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[inline(always)]
fn total(sums: [f64; SUMS], rest: f64) -> f64 {
    rest + ((sums[0] + sums[2]) + (sums[1] + sums[3]))
}

#[cfg(target_arch = "x86_64")]
struct Integers<'a, const A: usize, const B: usize> {
    avx2: pulp::x86::V3,
    a: [&'a [i16]; A],
    b: [&'a [i16]; B],
}

#[cfg(target_arch = "x86_64")]
impl<const A: usize, const B: usize> pulp::NullaryFnOnce for Integers<'_, A, B> {
    type Output = [[i64; B]; A];

    /// Sixteen products an instruction.
    #[inline(always)]
    fn call(self) -> Self::Output {
        let avx2 = self.avx2;
        let vectors = self.a[0].len() / 16;
        let whole = 16 * vectors;
        let a: [&[pulp::i16x16]; A] = self.a.map(|a| pulp::bytemuck::cast_slice(&a[..whole]));
        let b: [&[pulp::i16x16]; B] = self.b.map(|b| pulp::bytemuck::cast_slice(&b[..whole]));
        let mut totals = integers(self.a.map(|a| &a[whole..]), self.b.map(|b| &b[whole..]));
        for first in (0..vectors).step_by(INTEGER_RUN) {
            let mut sums = [[avx2.splat_i32x8(0); B]; A];
            for k in first..(first + INTEGER_RUN).min(vectors) {
                let y: [pulp::i16x16; B] = std::array::from_fn(|j| b[j][k]);
                for i in 0..A {
                    for j in 0..B {
                        sums[i][j] = avx2.wrapping_add_i32x8(
                            sums[i][j],
                            avx2.multiply_wrapping_add_adjacent_i16x16(a[i][k], y[j]),
                        );
                    }
                }
            }
            for i in 0..A {
                for j in 0..B {
                    let lanes: [i32; 8] = pulp::cast(sums[i][j]);
                    totals[i][j] += lanes.iter().map(|&lane| i64::from(lane)).sum::<i64>();
                }
            }
        }
        totals
    }
}

#[cfg(target_arch = "x86_64")]
struct Reals<'a, const A: usize, const B: usize> {
    avx2: pulp::x86::V3,
    a: [&'a [f64]; A],
    b: [&'a [f64]; B],
}

#[cfg(target_arch = "x86_64")]
impl<const A: usize, const B: usize> pulp::NullaryFnOnce for Reals<'_, A, B> {
    type Output = [[f64; B]; A];

    /// Products and sums apart: fused ones would give other bits than machines without them.
    #[inline(always)]
    fn call(self) -> Self::Output {
        let avx2 = self.avx2;
        let vectors = self.a[0].len() / SUMS;
        let whole = SUMS * vectors;
        let a: [&[pulp::f64x4]; A] = self.a.map(|a| pulp::bytemuck::cast_slice(&a[..whole]));
        let b: [&[pulp::f64x4]; B] = self.b.map(|b| pulp::bytemuck::cast_slice(&b[..whole]));
        let mut sums = [[avx2.splat_f64x4(0.0); B]; A];
        for k in 0..vectors {
            let y: [pulp::f64x4; B] = std::array::from_fn(|j| b[j][k]);
            for i in 0..A {
                for j in 0..B {
                    sums[i][j] = avx2.add_f64x4(sums[i][j], avx2.mul_f64x4(a[i][k], y[j]));
                }
            }
        }
        std::array::from_fn(|i| {
            std::array::from_fn(|j| {
                total(pulp::cast(sums[i][j]), rest(&self.a[i][whole..], &self.b[j][whole..]))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random;

    /// Lengths about those of vectors and runs.
    const LENGTHS: [usize; 10] = [0, 1, 3, 4, 15, 16, 17, 513, 1030, 4200];

    #[test]
    fn integers_are_exact() {
        let mut random = test_random(9);
        for n in LENGTHS {
            let mut vector = || -> Vec<i16> {
                (0..n).map(|_| random.between(-4095.99, 4095.99) as i16).collect()
            };
            let (a, b) =
                ([vector(), vector(), vector()], [vector(), vec![LARGEST; n], vec![-LARGEST; n]]);
            let most = vec![LARGEST; n];
            let (a, b) = ([&a[0][..], &a[1], &a[2], &most], [&b[0][..], &b[1], &b[2]]);
            let plain = a.map(|a| {
                b.map(|b| a.iter().zip(b).map(|(&x, &y)| i64::from(x) * i64::from(y)).sum::<i64>())
            });
            assert_eq!(InnerProducts::new().of_integers(a, b), plain);
            assert_eq!(integers(a, b), plain);
        }
    }

    #[test]
    fn reals_have_the_same_bits_with_any_instructions() {
        let mut random = test_random(9);
        for n in LENGTHS {
            let mut vector = || -> Vec<f64> { (0..n).map(|_| random.normal()).collect() };
            let (a, b) = ([vector(), vector(), vector()], [vector(), vector()]);
            let (a, b) = ([&a[0][..], &a[1], &a[2]], [&b[0][..], &b[1]]);
            let (fast, plain) = (InnerProducts::new().of_reals(a, b), reals(a, b));
            for (i, a) in a.iter().enumerate() {
                for (j, b) in b.iter().enumerate() {
                    assert_eq!(fast[i][j].to_bits(), plain[i][j].to_bits());
                    let expected: f64 = a.iter().zip(*b).map(|(x, y)| x * y).sum();
                    assert!((plain[i][j] - expected).abs() < 1e-10);
                }
            }
        }
    }
}
