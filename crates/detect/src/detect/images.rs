//! An image as the stages of structures need it: on their working grids, on the device.

use crate::DetectError;
use crate::detect::clock::Clock;
use crate::model::StructureModel;
use crate::working::spec::{WorkingSpec, check_window};
use pbt_tree::{Backend, ImageLayout};
use pbt_volume::{Geometry, PointLps, Pyramid, RealVolume};

/// An image in every preparation that a structure needs, each made once.
pub(super) struct Images<'a, B: Backend> {
    pub(super) channels: &'a [RealVolume],
    /// By working grid.
    pyramids: Vec<(&'a WorkingSpec, Pyramid)>,
    pub(super) prepared: Vec<Prepared<'a, B>>,
}

impl<'a, B: Backend> Images<'a, B> {
    pub(super) fn new(channels: &'a [RealVolume]) -> Self {
        Self { channels, pyramids: Vec::new(), prepared: Vec::new() }
    }

    /// Index of what is prepared for a structure.
    pub(super) fn for_structure(
        &mut self,
        backend: &B,
        structure: &'a StructureModel,
        clock: &mut Clock,
    ) -> Result<usize, DetectError> {
        if let Some(n) = self.prepared.iter().position(|p| p.serves(structure)) {
            return Ok(n);
        }
        let pyramid = self.pyramid(&structure.working)?;
        let middle = self.channels[0].geometry().center();
        self.prepared.push(Prepared::new(backend, structure, (&pyramid, middle), clock)?);
        Ok(self.prepared.len() - 1)
    }

    /// The working pyramid, one for all structures with the same grid.
    fn pyramid(&mut self, working: &'a WorkingSpec) -> Result<Pyramid, DetectError> {
        let image = self.channels[0].geometry();
        let same = self.pyramids.iter_mut().find(|(other, pyramid)| {
            other.is_same_grid(working) && working.has_finest(image, pyramid)
        });
        if let Some((_, pyramid)) = same {
            if pyramid.levels() < working.levels {
                *pyramid = pyramid.with_levels(working.levels);
            }
            return Ok(pyramid.clone());
        }
        let pyramid = working.pyramid(self.channels)?;
        self.pyramids.push((working, pyramid.clone()));
        Ok(pyramid)
    }
}

/// An image made ready for structures with the same working grid and tables.
pub(super) struct Prepared<'a, B: Backend> {
    working: &'a WorkingSpec,
    layout: ImageLayout,
    /// Grids of the levels, finest first.
    levels: Vec<Geometry>,
    /// Middle of the image.
    pub(super) middle: PointLps,
    pub(super) image: B::Image,
}

impl<'a, B: Backend> Prepared<'a, B> {
    pub(super) fn new(
        backend: &B,
        structure: &'a StructureModel,
        (pyramid, middle): (&Pyramid, PointLps),
        clock: &mut Clock,
    ) -> Result<Self, DetectError> {
        let levels: Vec<Geometry> =
            (0..pyramid.levels()).map(|level| pyramid.geometry(level).clone()).collect();
        let spec = &structure.position.spec;
        let window = (spec.radius, structure.prior.flat);
        check_window(levels[spec.level].shape(), window, levels[spec.level].spacing_mm()[0])?;
        clock.stop("prepare");
        let layout = structure.layout();
        let image = backend.upload(&pyramid.volumes()[..layout.channels.len()], &layout)?;
        clock.stop("upload");
        Ok(Self { working: &structure.working, layout, levels, middle, image })
    }

    /// Grid of the level on which positions are searched.
    pub(super) fn level(&self, structure: &StructureModel) -> &Geometry {
        &self.levels[structure.position.spec.level]
    }

    /// Voxels of the finest level.
    pub(super) fn finest_voxels(&self) -> usize {
        self.levels[0].len()
    }

    fn serves(&self, structure: &StructureModel) -> bool {
        *self.working == structure.working && self.layout == structure.layout()
    }
}
