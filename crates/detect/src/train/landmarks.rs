//! Training of the landmarks of a structure, in frames as detection finds them.

use super::structure::StructureTraining;
use crate::DetectError;
use crate::data::training_data::TrainingData;
use crate::landmarks::annotated::AnnotatedLandmark;
use crate::landmarks::close_up::CloseUp;
use crate::landmarks::stage::LandmarkStage;
use crate::landmarks::training;
use crate::refine::held_out_refinement::HeldOutOnce;
use crate::stages::input::StageInput;
use crate::stages::verification::VerificationStage;
use crate::working::choice::smallest_spacing_mm;
use crate::working::spec::WorkingSpec;
use pbt_evaluate::BoxError;
use pbt_tree::Backend;
use pbt_volume::{PointLps, Pose};
use std::time::Instant;

impl<B: Backend, D: TrainingData + ?Sized> StructureTraining<'_, B, D> {
    /// Trains the landmarks, where the structure has any.
    pub(super) fn landmarks(
        &mut self,
        held_out: &HeldOutOnce<'_, B>,
        verification: &VerificationStage,
    ) -> Result<(), D::Error> {
        let landmarks = self.annotated_landmarks();
        if landmarks.is_empty() {
            return Ok(());
        }
        let input = held_out.input;
        let cases = input.cases;
        let frames = self.get_or_train(
            ("frames", 0.9),
            |checkpoint| &mut checkpoint.frames,
            || {
                Ok(match held_out.get()? {
                    Some(measured) => measured.frames(input, verification),
                    // A single subject: there is nothing to hold out.
                    None => cases.iter().map(|case| case.pose).collect(),
                })
            },
        )?;
        let errors = frames
            .iter()
            .zip(cases)
            .map(|(frame, case)| BoxError::new(frame, &case.pose).center_mm)
            .collect();
        self.distances("frames", Instant::now(), "held-out pose", errors);
        self.begin("landmarks", 0.95)?;
        let (_, annotated) = &self.structures[self.index];
        let close_up = training::close_up(
            input,
            &self.config.landmarks,
            &landmarks,
            &frames,
            smallest_spacing_mm(self.data),
        );
        let near_working = close_up.as_ref().map(|close_up| close_up.working(input.working));
        let near_images: Vec<B::Image> = match &close_up {
            Some(close_up) => self.close_ups(close_up, input.working, &frames)?,
            None => Vec::new(),
        };
        let near_images: Vec<&B::Image> = near_images.iter().collect();
        let input = match &near_working {
            Some(working) => StageInput { images: &near_images, working, ..*input },
            None => StageInput { ..*input },
        };
        let (stage, contradicted) =
            LandmarkStage::train(&input, &self.config.landmarks, &landmarks, &frames)?;
        let stage = LandmarkStage { close_up, ..stage };
        for c in contradicted.iter().filter(|c| !cases[c.case].copy) {
            self.warnings.push(format!(
                "{}: landmark {}: {:.2} {} from where the other cases expect it; not learned from \
                 (check the annotation)",
                self.data.list().id(annotated[c.case].0),
                landmarks[c.landmark].0,
                c.distance_d * cases[c.case].pose.mean_size_mm(),
                self.data.list().unit
            ));
        }
        let started = Instant::now();
        let found: Vec<_> = input
            .images
            .iter()
            .zip(&frames)
            .map(|(image, frame)| stage.detect(self.backend, image, frame))
            .collect::<Result<_, _>>()?;
        let errors = landmarks.iter().enumerate().flat_map(|(l, (_, points))| {
            let found = &found;
            points.iter().map(move |&(case, truth)| found[case][l].point.distance_mm(&truth))
        });
        self.distances("landmarks", started, "landmarks", errors.collect());
        self.checkpoint.frames = None;
        self.checkpoint.landmarks = Some(stage);
        Ok(self.progress.keep(self.index, &self.checkpoint)?)
    }

    /// Close-ups of the boxes, uploaded. One image is read after the other, since all of them would
    /// need as much memory again.
    fn close_ups(
        &self,
        close_up: &CloseUp,
        working: &WorkingSpec,
        frames: &[Pose],
    ) -> Result<Vec<B::Image>, D::Error> {
        let layout = close_up.layout(working);
        let (_, annotated) = &self.structures[self.index];
        let mut images = Vec::with_capacity(frames.len());
        for (&(case, pose), &frame) in annotated.iter().zip(frames) {
            if self.progress.interrupted() {
                return Err(DetectError::Interrupted.into());
            }
            let unusable = |e: DetectError| {
                DetectError::training(format!("case {}", self.data.list().id(case)), e.to_string())
            };
            // Regressors learn from points about the truth, and are judged where detection begins.
            let pyramid = close_up
                .pyramid(working, &self.data.channels(case)?, &[pose, frame])
                .map_err(unusable)?;
            let uploaded = self.backend.upload(pyramid.volumes(), &layout);
            images.push(uploaded.map_err(DetectError::from)?);
        }
        Ok(images)
    }

    /// The landmarks of the structure, by the numbers of its own cases.
    fn annotated_landmarks(&self) -> Vec<AnnotatedLandmark> {
        let (name, annotated) = &self.structures[self.index];
        let number = |case: usize| annotated.iter().position(|&(c, _)| c == case);
        let own = |points: Vec<(usize, PointLps)>| {
            points.into_iter().filter_map(|(case, point)| Some((number(case)?, point))).collect()
        };
        let landmarks = self.data.landmarks(name).into_iter();
        landmarks.map(|(name, points)| (name, own(points))).collect()
    }
}
