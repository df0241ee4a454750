//! Detection in one image.

use crate::DetectError;
use crate::case::WorkingSpec;
use crate::model::{Model, StructureModel};
use crate::position::Candidate;
use pbt_tree::{Backend, ImageLayout};
use pbt_volume::{Pose, Pyramid, Volume};
use std::time::Instant;

/// Whether the structure is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Yes.
    Found,
    /// Perhaps; the pose is the best guess.
    Doubtful,
    /// No; the pose means nothing.
    Absent,
}

/// One structure in one image.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Name of the structure.
    pub name: String,
    /// Whether it is there.
    pub status: Status,
    /// Probability that the pose is right, as the verification stage sees it.
    pub score: f64,
    /// The best pose; for `Absent` too, for those who compare.
    pub pose: Pose,
    /// What each stage found.
    pub trace: Trace,
}

/// What each stage of a detection found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Position candidates, best first.
    pub candidates: Vec<Candidate>,
    /// Modes of the orientation stage.
    pub modes: Vec<Pose>,
    /// Where the finish brought each mode.
    pub converged: Vec<Pose>,
}

/// The detections of an image with the time that each stage took, milliseconds, in order.
#[derive(Debug, Clone)]
pub struct Detections {
    /// In the model's order.
    pub detections: Vec<Detection>,
    /// Stage and milliseconds.
    pub timing_ms: Vec<(String, f64)>,
}

impl Model {
    /// Finds every structure of the model in an image.
    ///
    /// # Errors
    /// [`DetectError::Image`] when the image cannot be brought to the working grid or is smaller than the feature window.
    pub fn detect<B: Backend>(&self, backend: &B, image: &Volume<f32>) -> Result<Detections, DetectError> {
        let mut clock = Clock::default();
        let mut prepared: Vec<(&WorkingSpec, Pyramid)> = Vec::new();
        let mut detections = Vec::with_capacity(self.structures.len());
        for structure in &self.structures {
            if !prepared.iter().any(|(spec, _)| *spec == &structure.working) {
                prepared.push((&structure.working, structure.working.pyramid(image)?));
                clock.stop("prepare");
            }
            if let Some((_, pyramid)) = prepared.iter().find(|(spec, _)| *spec == &structure.working) {
                detections.push(structure.detect_in(backend, pyramid, &mut clock)?);
            }
        }
        Ok(Detections { detections, timing_ms: clock.stages })
    }
}

impl StructureModel {
    /// What a case needs for detection.
    pub(crate) fn layout(&self) -> ImageLayout {
        let all = (0..self.working.levels).collect();
        ImageLayout { channels: all, ..self.position.spec.layout(&self.working) }
    }

    fn detect_in<B: Backend>(&self, backend: &B, pyramid: &Pyramid, clock: &mut Clock) -> Result<Detection, DetectError> {
        let level = pyramid.levels()[self.position.spec.level].geometry();
        let middle = pyramid.levels()[0].geometry().center();
        check_window(level.shape(), self.position.spec.radius, level.spacing_mm()[0])?;
        let image = backend.upload(pyramid.levels(), &self.layout());
        clock.stop("upload");
        let candidates = self.position.detect(backend, &image, level);
        clock.stop("position");
        let modes = self.orientation.detect(backend, &image, &candidates, &self.prior, middle);
        clock.stop("orientation");
        let converged = self.finish.apply(backend, &image, &modes);
        clock.stop("finish");
        let expected = self.prior.expected(middle);
        let best = self.verification.best(backend, &image, &converged, expected.as_ref());
        clock.stop("verification");
        let Some((pose, score)) = best else { return Err(DetectError::image("voxels", "no candidate position in the image")) };
        let score = self.verification.probability(score);
        let status = if score < self.verification.spec.absent_below {
            Status::Absent
        } else if score < self.verification.spec.doubtful_below {
            Status::Doubtful
        } else {
            Status::Found
        };
        Ok(Detection { name: self.name.clone(), status, score, pose, trace: Trace { candidates, modes, converged } })
    }
}

/// An image that is narrower than the reach of the features shows them mostly padding.
pub(crate) fn check_window(shape: [usize; 3], radius: usize, spacing_mm: f64) -> Result<(), DetectError> {
    if shape.iter().any(|&s| s < radius) {
        return Err(DetectError::image(
            "shape",
            format!(
                "the image has {} x {} x {} voxels at the model's {spacing_mm} mm, fewer than the {radius} that its features reach (give a larger image)",
                shape[0], shape[1], shape[2]
            ),
        ));
    }
    Ok(())
}

struct Clock {
    last: Instant,
    stages: Vec<(String, f64)>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { last: Instant::now(), stages: Vec::new() }
    }
}

impl Clock {
    /// Adds the time since the last stop to a stage.
    fn stop(&mut self, stage: &str) {
        let now = Instant::now();
        let ms = (now - self.last).as_secs_f64() * 1e3;
        self.last = now;
        match self.stages.iter_mut().find(|(name, _)| name == stage) {
            Some((_, sum)) => *sum += ms,
            None => self.stages.push((stage.to_owned(), ms)),
        }
    }
}
