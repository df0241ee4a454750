//! Level shift tests in the model file.

use crate::DetectError;
use crate::model::limits::check_patch;
use crate::model::map_tables::{put_maps, take_maps};
use crate::model::tables::{TableReader, TableWriter};
use crate::network::level_shift::{LevelShiftSpec, LevelShiftTest};

pub(super) fn put(tables: &mut TableWriter, n: usize, test: &LevelShiftTest) -> LevelShiftSpec {
    let name = format!("level_shift{n}");
    put_maps(tables, &name, test.map.means.len(), std::iter::once(&test.map));
    test.spec.clone()
}

pub(super) fn take(
    tables: &mut TableReader<'_>,
    n: usize,
    spec: LevelShiftSpec,
    volumes: usize,
) -> Result<LevelShiftTest, DetectError> {
    let name = format!("level_shift{n}");
    if spec.members.is_empty() {
        return Err(DetectError::model(name, "there are no members"));
    }
    check_patch(&name, &spec.patch, volumes)?;
    let map = take_maps(tables, &name, spec.len(), &[1])?.remove(0);
    Ok(LevelShiftTest { spec, map })
}
