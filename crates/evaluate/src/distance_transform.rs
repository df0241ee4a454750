//! The exact Euclidean distance transform of a grid with its own spacing along each axis.

/// The squared distance in mm² from every voxel to the nearest voxel of `sites`, infinite where there
/// is none. `i` runs fastest. The transform is separable: along each axis in turn, the lower envelope
/// of a parabola for each voxel (P. F. Felzenszwalb, D. P. Huttenlocher: Distance transforms of
/// sampled functions. Theory of Computing 8, 2012, section 2).
pub(crate) fn squared_distances(
    sites: &[bool],
    shape: [usize; 3],
    spacing_mm: [f64; 3],
) -> Vec<f64> {
    let mut squared: Vec<f64> =
        sites.iter().map(|&site| if site { 0.0 } else { f64::INFINITY }).collect();
    let strides = [1, shape[0], shape[0] * shape[1]];
    for ((stride, length), spacing_mm) in strides.into_iter().zip(shape).zip(spacing_mm) {
        let mut line = vec![0.0; length];
        let mut envelope = Envelope::default();
        for first in (0..squared.len()).filter(|voxel| (voxel / stride) % length == 0) {
            for (n, value) in line.iter_mut().enumerate() {
                *value = squared[first + n * stride];
            }
            envelope.minimise(&mut line, spacing_mm);
            for (n, value) in line.iter().enumerate() {
                squared[first + n * stride] = *value;
            }
        }
    }
    squared
}

/// The lower envelope of parabolas (x − p)² + f(p) along a line, from left to right.
#[derive(Default)]
struct Envelope {
    parabolas: Vec<Parabola>,
}

#[derive(Clone, Copy)]
struct Parabola {
    /// Place p of the lowest point, mm.
    at_mm: f64,
    /// Value f(p) there, mm².
    height: f64,
    /// Where it becomes the lowest of all, mm.
    from_mm: f64,
}

impl Envelope {
    /// Replaces each value of the line by the lowest parabola there. Infinite values have none.
    fn minimise(&mut self, line: &mut [f64], spacing_mm: f64) {
        self.parabolas.clear();
        for (n, &height) in line.iter().enumerate().filter(|(_, height)| height.is_finite()) {
            self.push(n as f64 * spacing_mm, height);
        }
        if self.parabolas.is_empty() {
            return;
        }
        let mut lowest = 0;
        for (n, value) in line.iter_mut().enumerate() {
            let x = n as f64 * spacing_mm;
            while self.parabolas.get(lowest + 1).is_some_and(|next| next.from_mm < x) {
                lowest += 1;
            }
            let Parabola { at_mm, height, .. } = self.parabolas[lowest];
            *value = (x - at_mm) * (x - at_mm) + height;
        }
    }

    /// Adds a parabola right of all others; those that it hides are dropped.
    fn push(&mut self, at_mm: f64, height: f64) {
        let mut from_mm = f64::NEG_INFINITY;
        while let Some(last) = self.parabolas.last() {
            let rise = (height + at_mm * at_mm) - (last.height + last.at_mm * last.at_mm);
            from_mm = rise / (2.0 * (at_mm - last.at_mm));
            if from_mm > last.from_mm {
                break;
            }
            self.parabolas.pop();
            from_mm = f64::NEG_INFINITY;
        }
        self.parabolas.push(Parabola { at_mm, height, from_mm });
    }
}
