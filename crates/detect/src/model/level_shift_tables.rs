//! Level tests in the model file.

use crate::DetectError;
use crate::linear::map::LinearMap;
use crate::model::tables::{TableReader, TableWriter};
use crate::network::level_shift::{LevelSpec, LevelTest};

pub(crate) fn put(tables: &mut TableWriter, n: usize, test: &LevelTest) -> LevelSpec {
    let (name, map) = (format!("levels{n}"), &test.map);
    tables.put(format!("{name}.means"), map.means.len(), map.means.iter().copied());
    tables.put(format!("{name}.weights"), map.means.len(), map.weights.iter().copied());
    tables.put(format!("{name}.outputs"), 2, [map.weight_bits[0], map.bias[0]]);
    test.spec.clone()
}

pub(crate) fn take(
    tables: &mut TableReader<'_>,
    n: usize,
    spec: LevelSpec,
    levels: usize,
) -> Result<LevelTest, DetectError> {
    let name = format!("levels{n}");
    if spec.members.is_empty() {
        return Err(DetectError::model(name, "there are no members"));
    }
    crate::model::file::check_patch(&name, &spec.patch, levels)?;
    let length = spec.len();
    let means: Vec<i16> = tables.take(&format!("{name}.means"), length)?;
    let weights: Vec<i16> = tables.take(&format!("{name}.weights"), length)?;
    let outputs: Vec<i32> = tables.take(&format!("{name}.outputs"), 2)?;
    let (&[bits, bias], true) = (&outputs[..], means.len() == length && weights.len() == length)
    else {
        return Err(DetectError::model(name, "the tables do not fit the patch"));
    };
    if !(0..=60).contains(&bits) || means.iter().any(|m| !(-4095..=4095).contains(m)) {
        return Err(DetectError::model(name, "fractional bits or means are out of range"));
    }
    Ok(LevelTest {
        spec,
        map: LinearMap { means, weights, weight_bits: vec![bits], bias: vec![bias] },
    })
}
