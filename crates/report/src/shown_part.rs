//! Which part of a slice a picture shows.

/// Darker pixels are air and what an image is padded with.
const DARK: u8 = 12;

/// The part of a slice that is shown, by axis from and to, in pixels: without dark margins, but for a little
/// of them, and with the boxes; at least a quarter of each edge.
pub(crate) fn shown_part<'a>(
    pixels: &[u8],
    shape: [usize; 2],
    boxes: impl Iterator<Item = &'a [f64; 2]>,
) -> [[f64; 2]; 2] {
    let mut seen = [[f64::INFINITY, f64::NEG_INFINITY]; 2];
    let mut see = |at: [f64; 2], wide: f64| {
        for (seen, at) in seen.iter_mut().zip(at) {
            *seen = [seen[0].min(at), seen[1].max(at + wide)];
        }
    };
    for (n, _) in pixels.iter().enumerate().filter(|(_, value)| **value > DARK) {
        see([n % shape[0], n / shape[0]].map(|at| at as f64), 1.0);
    }
    boxes.for_each(|&corner| see(corner, 0.0));
    let part = |a: usize| {
        let (edge, [from, to]) = (shape[a] as f64, seen[a]);
        if from >= to {
            return [0.0, edge];
        }
        let half = ((to - from) * 0.54).max(edge / 8.0);
        let middle = (from + to) / 2.0;
        [(middle - half).max(0.0), (middle + half).min(edge)]
    };
    [part(0), part(1)]
}
