//! Disjoint sets of numbers, each known by its smallest member.

/// A part of the numbers, `base..`, and for each a smaller one of the same set or itself. As the root
/// of a set is its smallest member, the sets do not depend on the order in which they were joined.
pub(super) struct DisjointSets<'a> {
    parent: &'a mut [u32],
    base: u32,
}

impl<'a> DisjointSets<'a> {
    /// Each number a set of its own; `parent` is overwritten.
    pub(super) fn alone(parent: &'a mut [u32], base: u32) -> Self {
        for (n, parent) in (base..).zip(parent.iter_mut()) {
            *parent = n;
        }
        Self { parent, base }
    }

    /// The sets that earlier ones left in `parent`, which holds all numbers from 0 on.
    pub(super) fn joined(parent: &'a mut [u32]) -> Self {
        Self { parent, base: 0 }
    }

    fn parent(&self, n: u32) -> u32 {
        self.parent[(n - self.base) as usize]
    }

    /// The smallest number of the set of `n`.
    pub(super) fn root(&self, mut n: u32) -> u32 {
        loop {
            let parent = self.parent(n);
            if parent == n {
                return n;
            }
            n = parent;
        }
    }

    /// Climbs from the number whose parent is the greater one, which gets the lesser one: Rem's
    /// algorithm with splicing (Patwary, Blair and Manne, "Experiments on union-find algorithms for
    /// the disjoint-set data structure", SEA 2010). Most numbers that touch have the same parent
    /// already.
    pub(super) fn join(&mut self, mut a: u32, mut b: u32) {
        let (mut of_a, mut of_b) = (self.parent(a), self.parent(b));
        while of_a != of_b {
            if of_a < of_b {
                (a, of_a, b, of_b) = (b, of_b, a, of_a);
            }
            self.parent[(a - self.base) as usize] = of_b;
            if of_a == a {
                return;
            }
            a = of_a;
            of_a = self.parent(a);
        }
    }
}
