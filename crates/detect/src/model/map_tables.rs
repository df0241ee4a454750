//! Linear maps in the model file: means, weights, and the outputs' fractional bits and biases.

use crate::DetectError;
use crate::model::tables::{Element, TableReader, TableWriter};
use pbt_linear::{LinearMap, Weight};

/// Maps of patches of one length, one after another.
pub(super) fn put_maps<'a, W: Element + 'a>(
    tables: &mut TableWriter,
    name: &str,
    length: usize,
    maps: impl Iterator<Item = &'a LinearMap<W>> + Clone,
) {
    let means = maps.clone().flat_map(|map| map.means.iter().copied());
    tables.put(format!("{name}.means"), length, means);
    let weights = maps.clone().flat_map(|map| map.weights.iter().copied());
    tables.put(format!("{name}.weights"), length, weights);
    let outputs = maps.flat_map(|map| {
        map.weight_bits.iter().zip(&map.bias).flat_map(|(&bits, &bias)| [bits, bias])
    });
    tables.put(format!("{name}.outputs"), 2, outputs);
}

/// Targets lie within ±1, with 20 fractional bits.
const MOST_BIAS: i32 = 1 << 20;

/// As many maps as `outputs` has entries, each with so many outputs.
pub(super) fn take_maps<W: Element + Weight>(
    tables: &mut TableReader<'_>,
    name: &str,
    length: usize,
    outputs: &[usize],
) -> Result<Vec<LinearMap<W>>, DetectError> {
    let wrong = |what: &str| Err(DetectError::model(name, what));
    let rows: usize = outputs.iter().sum();
    let means: Vec<i16> = tables.take(&format!("{name}.means"), length)?;
    let weights: Vec<W> = tables.take(&format!("{name}.weights"), length)?;
    let scales: Vec<i32> = tables.take(&format!("{name}.outputs"), 2)?;
    if means.len() != outputs.len() * length
        || weights.len() != rows * length
        || scales.len() != 2 * rows
    {
        return wrong("the tables do not fit the patch");
    }
    if scales.chunks_exact(2).any(|scale| !(0..=60).contains(&scale[0]))
        || means.iter().any(|mean| !(-4095..=4095).contains(mean))
    {
        return wrong("fractional bits or means are out of range");
    }
    let most = 1 << (W::BITS + 1);
    if weights.iter().any(|weight| weight.wide().abs() > most)
        || scales.iter().skip(1).step_by(2).any(|bias| !(-MOST_BIAS..=MOST_BIAS).contains(bias))
    {
        return wrong("weights or biases are out of range");
    }
    let mut first = 0;
    let map = |(&count, means): (&usize, &[i16])| {
        let own = first..first + count;
        first = own.end;
        let scales = &scales[2 * own.start..2 * own.end];
        LinearMap {
            means: means.to_vec(),
            weights: weights[own.start * length..own.end * length].to_vec(),
            weight_bits: scales.iter().step_by(2).copied().collect(),
            bias: scales.iter().skip(1).step_by(2).copied().collect(),
        }
    };
    Ok(outputs.iter().zip(means.chunks_exact(length)).map(map).collect())
}
