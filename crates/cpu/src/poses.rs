//! Steerable responses and scores of pose hypotheses.

use crate::image::Tables;
use crate::{Cpu, CpuImage};
use pbt_features::{BoxGrid, PoseFrame, SteerableFeature};
use pbt_tree::{Classifier, DeviceError, Evaluate, PoseSite, Score, Steerable};
use pbt_volume::{Geometry, Pose};
use rayon::prelude::*;
use std::sync::Arc;

impl Evaluate<Steerable> for Cpu {
    fn responses(
        &self,
        images: &[&CpuImage],
        family: &Steerable,
        features: &[SteerableFeature],
        sites: &[PoseSite],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        responses(images, &family.grid, features, sites, out);
        Ok(())
    }

    fn score(
        &self,
        image: &CpuImage,
        family: &Steerable,
        features: &[SteerableFeature],
        classifier: &Classifier,
        poses: &[Pose],
    ) -> Result<Vec<Score>, DeviceError> {
        Ok(score(image, &family.grid, features, classifier, poses))
    }
}

/// The tables of the image that was looked at last: as a rule those of the next site, too.
#[derive(Default)]
pub(crate) struct LookedAt(Option<(u32, Arc<Tables>)>);

impl LookedAt {
    pub(crate) fn tables(&mut self, images: &[&CpuImage], image: u32) -> &Tables {
        if self.0.as_ref().is_none_or(|(last, _)| *last != image) {
            self.0 = None;
        }
        &self.0.get_or_insert_with(|| (image, images[image as usize].tables())).1
    }
}

pub(crate) fn frame(image: &CpuImage, grid: &BoxGrid, pose: &Pose) -> PoseFrame {
    let levels: Vec<&Geometry> = image.geometries.iter().collect();
    PoseFrame::new(pose, grid, &levels)
}

fn responses(
    images: &[&CpuImage],
    grid: &BoxGrid,
    features: &[SteerableFeature],
    sites: &[PoseSite],
    out: &mut [i32],
) {
    // Site by site, so that a point is sampled once for all features on it; then turned, block by
    // block, to feature-major.
    const BLOCK: usize = 64;
    let blocks: Vec<Vec<i32>> = sites
        .par_chunks(BLOCK)
        .map(|block| {
            let mut values = vec![0; features.len() * block.len()];
            let mut looked_at = LookedAt::default();
            for (s, site) in block.iter().enumerate() {
                let image = images[site.image as usize];
                let tables = looked_at.tables(images, site.image);
                let frame = frame(image, grid, &site.pose);
                let mut last = None;
                for (f, feature) in features.iter().enumerate() {
                    let sample = match last {
                        Some((level, point, sample))
                            if level == feature.level && point == feature.point =>
                        {
                            sample
                        }
                        _ => tables
                            .channels(feature.level)
                            .sample(frame.point(usize::from(feature.level), feature.point)),
                    };
                    last = Some((feature.level, feature.point, sample));
                    values[f * block.len() + s] = feature.of_sample(sample, &frame);
                }
            }
            values
        })
        .collect();
    out.par_chunks_mut(sites.len().max(1)).enumerate().for_each(|(f, row)| {
        for (part, block) in row.chunks_mut(BLOCK).zip(&blocks) {
            let n = part.len();
            part.copy_from_slice(&block[f * n..(f + 1) * n]);
        }
    });
}

fn score(
    image: &CpuImage,
    grid: &BoxGrid,
    features: &[SteerableFeature],
    classifier: &Classifier,
    poses: &[Pose],
) -> Vec<Score> {
    let tables = image.tables();
    poses
        .par_iter()
        .with_min_len(16)
        .map(|pose| {
            let frame = frame(image, grid, pose);
            classifier.score(&mut |id| {
                let feature = &features[id as usize];
                let at = frame.point(usize::from(feature.level), feature.point);
                feature.of_sample(tables.channels(feature.level).sample(at), &frame)
            })
        })
        .collect()
}
