//! Frames of training cases with what they show.

use crate::data::each_image::each_image;
use crate::data::training_data::TrainingData;
use crate::masks::frame::FrameGrid;
use crate::masks::groups::{Group, LoadedCases};
use crate::masks::samples::{Instance, classes_on, frames};
use crate::masks::stage::share_layers;
use pbt_volume::{Geometry, Padding, Pose, Random, Volume, resample};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A frame with what it shows.
pub(crate) struct Frame {
    /// Whose.
    pub(crate) instance: usize,
    pub(crate) pose: Pose,
    pub(crate) grid: Geometry,
    /// The first channel of the image, and the others.
    pub(crate) image: Volume<u16>,
    pub(crate) further: Vec<Volume<u16>>,
    /// Classes of its voxels, in truth.
    pub(crate) classes: Vec<u8>,
    /// What the round before said.
    pub(crate) before: Vec<Volume<u16>>,
    /// What this round says, by trees that have not seen the subject.
    pub(crate) shares: Vec<u32>,
    /// The box as that moves it.
    pub(crate) moved: Pose,
}

impl<D: TrainingData + ?Sized> Group<'_, D> {
    /// Frames as wrong as detection makes them, and by case what they show.
    pub(crate) fn first_frames(
        &self,
        instances: &[Instance],
        grid: &FrameGrid,
        random: &mut Random,
    ) -> Result<(Vec<Frame>, LoadedCases), D::Error> {
        let poses = frames(instances, random);
        let mut by_case: BTreeMap<usize, Vec<Geometry>> = BTreeMap::new();
        let mut placed = Vec::with_capacity(poses.len());
        for (instance, pose) in poses {
            if let Some(about) = grid.about(&pose) {
                by_case.entry(instances[instance].case).or_default().push(about.clone());
                placed.push((instance, pose, about));
            }
        }
        let load = |case| self.load(case, &by_case[&case]);
        let all = each_image(self.data, by_case.keys().copied(), load)?;
        let shown = |(case, loaded): (usize, Option<_>)| Some((case, loaded?));
        let loaded: LoadedCases = all.into_iter().filter_map(shown).collect();
        let frame = |(instance, pose, about): (usize, Pose, Geometry)| {
            let of = &instances[instance];
            let shown = loaded.get(&of.case)?;
            let own = self.own_classes(of.structure);
            Some(Frame {
                instance,
                pose,
                image: resample(&shown.channels[0], &about, self.padding()),
                further: self.further(&shown.channels, &about),
                classes: classes_on(&shown.classes, &about, &own),
                grid: about,
                before: Vec::new(),
                shares: Vec::new(),
                moved: pose,
            })
        };
        let frames = placed.into_par_iter().filter_map(frame).collect();
        Ok((frames, loaded))
    }

    /// The channels after the first on the grid of a frame.
    fn further(&self, channels: &[Volume<u16>], about: &Geometry) -> Vec<Volume<u16>> {
        channels[1..].iter().map(|channel| resample(channel, about, self.padding())).collect()
    }

    /// Frames about the boxes as the last round moved them, with what it said as layers. Where a box
    /// cannot be laid out there is none.
    pub(crate) fn moved_frames(
        &self,
        instances: &[Instance],
        (grid, classes): (&FrameGrid, usize),
        loaded: &LoadedCases,
        frames: &[Frame],
    ) -> Vec<Frame> {
        let moved = |frame: &Frame| {
            let of = &instances[frame.instance];
            let (about, shown) = (grid.about(&frame.moved)?, loaded.get(&of.case)?);
            let said = share_layers(&frame.grid, &frame.shares, classes);
            let before = said.iter().map(|layer| resample(layer, &about, Padding::Zero)).collect();
            let own = self.own_classes(of.structure);
            Some(Frame {
                instance: frame.instance,
                pose: frame.moved,
                image: resample(&shown.channels[0], &about, self.padding()),
                further: self.further(&shown.channels, &about),
                classes: classes_on(&shown.classes, &about, &own),
                grid: about,
                before,
                shares: Vec::new(),
                moved: frame.moved,
            })
        };
        frames.par_iter().filter_map(moved).collect()
    }
}
