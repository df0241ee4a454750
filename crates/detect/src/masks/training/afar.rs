//! Where labels move held-out boxes that no frame of the training shows.

use super::Training;
use crate::data::each_image::each_image;
use crate::data::training_data::{Subjects, TrainingData};
use crate::masks::held_out::HeldOutPose;
use crate::masks::prior::Priors;
use crate::masks::rounds::MaskRound;
use crate::masks::samples::Instance;
use crate::masks::stage::MaskStage;
use pbt_tree::{LabelBackend, LabelBooster};

impl<B: LabelBackend + LabelBooster, D: TrainingData + ?Sized> Training<'_, B, D> {
    /// Moves boxes of held-out cases that no frame of the training shows, as detection does it: those that were
    /// found far off, and those in cases without a label map. `without` are, by part, rounds that have not seen
    /// its subjects.
    pub(super) fn moved_from_afar(
        &self,
        stage: &MaskStage,
        prior: &Priors,
        without: &[Vec<MaskRound>],
    ) -> Result<Vec<HeldOutPose>, D::Error> {
        let data = self.group.data;
        let cases: Vec<(usize, ())> = (0..data.list().len()).map(|case| (case, ())).collect();
        let subjects = Subjects::new(data, &cases);
        let is_near = |found: &HeldOutPose| {
            let same = |i: &&Instance| (i.structure, i.case) == (found.structure, found.case);
            self.instances.iter().find(same).is_some_and(|i| i.found_near().is_some())
        };
        let is_afar = |found: &&HeldOutPose| {
            self.group.members.contains(&found.structure) && !found.absent && !is_near(found)
        };
        let found: Vec<&HeldOutPose> = self.found.iter().filter(is_afar).collect();
        let in_case = |case: usize| {
            self.interrupted()?;
            let subject = subjects.subject(case);
            let held_out = |part: &usize| self.folds.holds_out(*part, subject);
            let Some(part) = (0..without.len()).find(held_out) else { return Ok(Vec::new()) };
            let unseen = MaskStage {
                rounds: without[part].clone(),
                prior: prior.without(subject).to_vec(),
                ..stage.clone()
            };
            let channels = data.channels(case)?;
            let channels = self.group.quantised(case, &channels)?;
            let mut moved = Vec::new();
            for found in found.iter().filter(|found| found.case == case) {
                let mask = unseen.find(self.backend, &channels, &found.pose)?;
                let Some(mask) = mask else { continue };
                let mut landmarks = found.landmarks.clone();
                stage.place_landmarks(&mask, &mut landmarks);
                let pose = if stage.moves_box { mask.pose } else { found.pose };
                moved.push(HeldOutPose {
                    pose,
                    visible: pose.visible_share(data.list().geometry(case)),
                    contradicted: stage.contradicts(&mask.shares).is_some(),
                    labels: stage.evidence(&mask.shares),
                    landmarks,
                    ..(*found).clone()
                });
            }
            Ok::<_, D::Error>(moved)
        };
        let moved = each_image(data, found.iter().map(|found| found.case), in_case)?;
        Ok(moved.into_values().flatten().collect())
    }
}
