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

    fn of(&mut self, n: u32) -> &mut u32 {
        &mut self.parent[(n - self.base) as usize]
    }

    /// The smallest number of the set of `n`. Halves the way there (Tarjan and van Leeuwen 1984).
    pub(super) fn root(&mut self, mut n: u32) -> u32 {
        loop {
            let parent = *self.of(n);
            if parent == n {
                return n;
            }
            let grandparent = *self.of(parent);
            *self.of(n) = grandparent;
            n = grandparent;
        }
    }

    pub(super) fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        *self.of(a.max(b)) = a.min(b);
    }
}
