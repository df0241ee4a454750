//! Limits far beyond any use, so that a damaged file cannot ask for absurd amounts of memory.

use crate::DetectError;
use pbt_features::BoxGrid;
use pbt_tree::Patch;

/// Most levels of a pyramid.
pub(super) const MOST_LEVELS: usize = 8;

pub(super) fn check_grid(name: &str, grid: &BoxGrid) -> Result<(), DetectError> {
    let points = grid.points.iter().all(|p| (1..=32).contains(p));
    if points && grid.extent.iter().all(|e| (0.01..=100.0).contains(e)) {
        return Ok(());
    }
    Err(DetectError::model(name, "the grid has no points, too many, or no extent"))
}

/// Checks what regression samples: its grid and its pyramid levels.
pub(super) fn check_patch(name: &str, patch: &Patch, levels: usize) -> Result<(), DetectError> {
    check_grid(name, &patch.grid)?;
    if patch.levels.is_empty()
        || patch.levels.len() > MOST_LEVELS
        || patch.levels.iter().any(|&l| usize::from(l) >= levels)
    {
        return Err(DetectError::model(name, "a pyramid level is out of range"));
    }
    Ok(())
}
