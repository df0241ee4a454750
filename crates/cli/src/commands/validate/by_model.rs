//! Annotations that a model contradicts: it is sure of another place.

use super::finding::Finding;
use super::images::ImageFacts;
use super::suspect::Suspect;
use crate::Failure;
use crate::args::Global;
use crate::commands::open_device::open_device;
use crate::output::say;
use crate::progress::CaseProgress;
use crate::session::{Device, HeldOut, LoadedModel, Watcher, detect_file};
use pbt_detect::Suspicion;
use pbt_evaluate::loose_axis;
use pbt_io::{Annotations, CaseSpec, Dataset, DetectionRecord};
use pbt_volume::{Instances, Pose, Status, StructureKind, StructureSpec};
use std::path::Path;

/// A model that is asked where the structures of a data set are.
pub(super) struct AskedModel {
    model: LoadedModel,
    device: Device,
    global: Global,
}

/// A case whose image and annotations could be read and belong together.
pub(super) struct SoundCase<'a> {
    pub(super) spec: &'a CaseSpec,
    pub(super) image: &'a ImageFacts,
    pub(super) annotations: &'a Annotations,
}

/// A structure that both the model and the data set have.
struct Shared<'a> {
    /// Its number in the model.
    number: usize,
    name: &'a str,
    loose_ends: bool,
}

impl AskedModel {
    /// Reads a model and opens the device that the arguments ask for.
    ///
    /// # Errors
    /// Those of [`LoadedModel::open`] and [`open_device`].
    pub(super) fn open(path: &Path, global: &Global) -> Result<Self, Failure> {
        let model = LoadedModel::open(path)?;
        Ok(Self { model, device: open_device(global)?, global: global.clone() })
    }

    /// The data set with boxes of label maps as they were in the model's training.
    pub(super) fn data_set_as_learned(&self, dataset: &Dataset) -> Dataset {
        dataset.with_label_shapes(&self.model.model.provenance.label_shapes)
    }

    /// The annotated boxes that sure detections are far from, as findings and as suspects. `known`
    /// is what is wrong with the data set otherwise.
    ///
    /// Cases that the model was trained on are not searched: it learned from these annotations. What
    /// was found there when they were held out is compared in place of it.
    ///
    /// # Errors
    /// None of the model's structures is in the data set, or the device fails.
    pub(super) fn contradictions(
        &self,
        dataset: &Dataset,
        cases: &[SoundCase<'_>],
        known: &[Finding],
    ) -> Result<(Vec<Finding>, Vec<Suspect>), Failure> {
        let shared = self.shared(dataset, cases)?;
        let held_out = HeldOut::of(&self.model);
        if let Err(why) = &held_out {
            let path = self.model.path.display();
            say(
                self.global.quiet,
                format_args!(
                    "{path}: for training cases the model itself is asked, which learned from these very annotations ({why})"
                ),
            );
        }
        let held_out = held_out.ok();
        let annotated = |case: &&SoundCase<'_>| {
            shared.iter().any(|s| case.annotations.pose(s.name).is_some())
                && !known.iter().any(|finding| finding.is_error_of(&case.spec.id))
        };
        let cases: Vec<&SoundCase<'_>> = cases.iter().filter(annotated).collect();
        let progress = CaseProgress::new(&self.global);
        progress.begin(cases.len());
        let (mut findings, mut suspects) = (Vec::new(), Vec::new());
        let (mut asked, mut unsure) = (0, 0);
        for case in cases {
            let id = case.spec.id.as_str();
            progress.case(id);
            let known = held_out.as_ref().and_then(|held_out| of_training(case, held_out));
            let found = match known {
                Some(found) => Ok(found),
                None => self.ask(case).inspect(|found| {
                    let is_sure = |s: &&Shared<'_>| {
                        found.iter().any(|d| d.name == s.name && d.status == Status::Found)
                    };
                    let annotated =
                        shared.iter().filter(|s| case.annotations.pose(s.name).is_some());
                    asked += annotated.clone().count();
                    unsure += annotated.filter(|s| !is_sure(s)).count();
                }),
            };
            match found {
                Ok(found) => {
                    for (suspicion, annotated) in self.suspicions(case, &shared, &found) {
                        findings.push(Finding::warning(&suspicion).in_cases([id]));
                        suspects.push(self.suspect(case.spec, suspicion, annotated));
                    }
                }
                Err(failure) if failure.is_input() => {
                    findings.push(Finding::error(failure).in_cases([id]));
                }
                Err(failure) => return Err(failure),
            }
            progress.done();
        }
        progress.end();
        if unsure > 0 {
            let path = self.model.path.display();
            let what = format!(
                "{path}: of {asked} boxes annotated in the cases that were searched {unsure} are not compared: \
                 the model is not sure of them"
            );
            say(self.global.quiet, what);
        }
        Ok((findings, suspects))
    }

    /// The boxes that both have; which of the model's the data set lacks is told.
    fn shared(
        &self,
        dataset: &Dataset,
        cases: &[SoundCase<'_>],
    ) -> Result<Vec<Shared<'_>>, Failure> {
        let model = &self.model.model;
        let is_box = |name: &str| {
            let is_it = |s: &&StructureSpec| s.name == name && s.kind == StructureKind::Box;
            dataset.structures.iter().find(is_it).is_some_and(|s| s.instances == Instances::One)
        };
        let (mut shared, mut lacking) = (Vec::new(), Vec::new());
        for (number, structure) in model.structures.iter().enumerate() {
            let name = structure.name.as_str();
            if !is_box(name) {
                lacking.push(name);
                continue;
            }
            let loose_ends = match model.certainty_of(number) {
                Some(certainty) => certainty.loose_ends,
                None => {
                    let boxes = cases.iter().filter_map(|case| case.annotations.pose(name));
                    loose_axis(&boxes.copied().collect::<Vec<_>>()).is_some()
                }
            };
            shared.push(Shared { number, name, loose_ends });
        }
        let lacking = lacking.join(", ");
        if shared.is_empty() {
            let has_box = dataset.structures.iter().any(|s| s.kind == StructureKind::Box);
            let what = match has_box {
                true => format!(
                    "structures: none of the model's is a box of the data set that occurs once: {lacking} (give a model of its structures)"
                ),
                false => "structures: has no boxes, and models are held against boxes alone (leave out --model)".to_owned(),
            };
            return Err(Failure::input(&dataset.path, what));
        }
        if !lacking.is_empty() {
            let path = self.model.path.display();
            say(
                self.global.quiet,
                format_args!("{path}: structures: not among the boxes of the data set: {lacking}"),
            );
        }
        Ok(shared)
    }

    /// What the model finds in a case.
    fn ask(&self, case: &SoundCase<'_>) -> Result<Vec<DetectionRecord>, Failure> {
        Ok(detect_file(&self.model, case.spec.into(), &self.device)?.detections)
    }

    /// The sure detections that are far from the annotations, with what is annotated.
    fn suspicions(
        &self,
        case: &SoundCase<'_>,
        shared: &[Shared<'_>],
        found: &[DetectionRecord],
    ) -> Vec<(Suspicion, Pose)> {
        let spacing_mm = case.image.geometry.spacing_mm();
        let suspicion = |s: &Shared<'_>| {
            let annotated = *case.annotations.pose(s.name)?;
            let sure = found.iter().find(|d| d.name == s.name && d.status == Status::Found)?;
            let pose = sure.pose()?;
            let structure = &self.model.model.structures[s.number];
            let off_mm = structure.far_mm(&pose, &annotated, spacing_mm, s.loose_ends)?;
            let suspicion = Suspicion {
                case: case.spec.id.clone(),
                structure: s.name.to_owned(),
                found: pose,
                off_mm,
                unit: case.image.unit,
                score: sure.score,
            };
            Some((suspicion, annotated))
        };
        shared.iter().filter_map(suspicion).collect()
    }

    /// How the picture shows it: the farther, in D, the sooner.
    fn suspect(&self, case: &CaseSpec, suspicion: Suspicion, annotated: Pose) -> Suspect {
        let Suspicion { structure, found, off_mm, unit, score, .. } = suspicion;
        let of_model = self.model.model.structures.iter().find(|s| s.name == structure);
        Suspect {
            case: case.clone(),
            structure,
            annotated,
            expected: Some(found),
            score: 1.0 + of_model.map_or(0.0, |s| off_mm / s.prior.scale_mm),
            why: format!("a model finds it {off_mm:.1} {unit} away, with a score of {score:.2}"),
        }
    }
}

/// Of a case that a model was trained on, what contradicted its annotations when it was held out.
fn of_training(case: &SoundCase<'_>, held_out: &HeldOut) -> Option<Vec<DetectionRecord>> {
    held_out.training_cases.iter().find(|learned| {
        learned.case == case.spec.id && learned.image_sha256 == case.image.sha256
    })?;
    let own = held_out.suspicions.iter().filter(|s| s.case == case.spec.id);
    Some(own.map(|s| s.detection.clone()).collect())
}
