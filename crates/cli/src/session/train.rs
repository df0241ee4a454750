//! Training once: on cases of a data set, to a model and its files.

use crate::session::training_report::learned_labels_sha256;
use crate::session::{
    AnnotatedCase, Device, Failure, LoadedModel, TrainedOn, TrainingCases, TrainingNeeds, Wanted,
};
use pbt_detect::{
    Model, Observer, StageFigure, Suspicion, TrainConfig, Trained, check_checkpoint,
    difference_from_training,
};
use pbt_io::{Dataset, FileKind, IoError, read_file, write_atomically};
use pbt_volume::{is_box_of_landmarks, sha256_hex};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The configuration in a file, or the default.
///
/// # Errors
/// Exit code 4 when it cannot be read or is no configuration.
pub fn read_config(path: Option<&Path>) -> Result<TrainConfig, Failure> {
    let Some(path) = path else { return Ok(TrainConfig::default()) };
    let bytes = read_file(path, FileKind::Settings)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        IoError::input(path, "file", "is not UTF-8", "save it as UTF-8, or give a TOML file")
    })?;
    TrainConfig::from_toml(&text).map_err(|e| Failure::from(e).about(path))
}

/// A training to be done.
pub struct Training<'a> {
    /// Where the cases are from.
    pub dataset: &'a Dataset,
    /// The cases.
    pub cases: Vec<AnnotatedCase>,
    /// The structures.
    pub wanted: &'a Wanted,
    /// The settings.
    pub config: &'a TrainConfig,
    /// Of all random choices.
    pub seed: u64,
    /// What an earlier run of the same training has finished.
    pub resume: Option<&'a Resume>,
}

/// The finished stages of a training that was interrupted.
pub struct Resume {
    /// Their file.
    pub path: PathBuf,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// A model that was trained just now.
pub struct TrainedModel {
    /// The model.
    pub model: Model,
    /// The bytes of its file.
    pub bytes: Vec<u8>,
    /// Their hash.
    pub sha256: String,
    /// What each stage took and reached.
    pub figures: Vec<StageFigure>,
    /// The cases that it was trained on.
    pub cases: Vec<TrainedOn>,
    /// Hash over the label maps of these cases, where it was trained on boxes or landmarks.
    pub labels_sha256: Option<String>,
    /// Annotations that held-out detections contradict.
    pub suspicions: Vec<Suspicion>,
    /// What a person should look at, the suspicions among it.
    pub warnings: Vec<String>,
}

impl Resume {
    /// What lies in a checkpoint; none where there is no such file.
    ///
    /// # Errors
    /// Exit code 4 when it cannot be read.
    pub fn from(checkpoint: &Path) -> Result<Option<Self>, Failure> {
        if !checkpoint.exists() {
            return Ok(None);
        }
        let bytes = read_file(checkpoint, FileKind::Model)?;
        Ok(Some(Self { path: checkpoint.to_owned(), bytes }))
    }
}

impl Training<'_> {
    /// What it will take on so many threads of the CPU, where that can be told.
    pub fn needs(&self, threads: usize) -> Option<TrainingNeeds> {
        let (data, _) = TrainingCases::new(self.dataset, self.cases.clone(), self.wanted.clone());
        TrainingNeeds::of(&data, self.config, threads)
    }

    /// In what the training of a model differed from this one; none where the model is what this training would
    /// make, so that nothing is left to do.
    ///
    /// # Errors
    /// A case or a label map that cannot be read.
    pub fn difference_from(&self, loaded: &LoadedModel) -> Result<Option<String>, Failure> {
        let (data, faults) =
            TrainingCases::new(self.dataset, self.cases.clone(), self.wanted.clone());
        if let Some((_, fault)) = faults.into_iter().next() {
            return Err(fault);
        }
        let provenance = &loaded.model.provenance;
        let labels = || -> Result<_, Failure> {
            Ok(match learned_labels_sha256(loaded) {
                Some(learned) if learned == labels_sha256(&self.cases)? => None,
                Some(_) => Some("other label maps".to_owned()),
                None => {
                    let report = beside(&loaded.path, "train.json");
                    let name = report.file_name().unwrap_or_default().display();
                    Some(format!(
                        "label maps that nobody knows, since {name} is missing, damaged or of another model"
                    ))
                }
            })
        };
        match difference_from_training(&data, self.config, self.seed, provenance) {
            None => labels(),
            difference => Ok(difference),
        }
    }

    /// Whether this training can go on from what an earlier run has finished.
    ///
    /// # Errors
    /// Exit code 5 when that was another training, or is damaged; a case that cannot be read.
    pub fn check(&self, resume: &Resume) -> Result<(), Failure> {
        let (data, faults) =
            TrainingCases::new(self.dataset, self.cases.clone(), self.wanted.clone());
        if let Some((_, fault)) = faults.into_iter().next() {
            return Err(fault);
        }
        check_checkpoint(&data, self.config, self.seed, &resume.bytes)
            .map_err(|e| Failure::from(e).about(&resume.path))
    }

    /// Trains. `observer` is told of every stage.
    ///
    /// # Errors
    /// Exit code 4 for data or settings that cannot be used, 130 when the observer interrupts.
    pub fn run(self, device: &Device, observer: &dyn Observer) -> Result<TrainedModel, Failure> {
        let Self { dataset, cases, wanted, config, seed, resume } = self;
        let known: Vec<TrainedOn> = cases.iter().map(TrainedOn::from).collect();
        let labels_sha256 = Some(labels_sha256(&cases)?);
        let (data, faults) = TrainingCases::new(dataset, cases, wanted.clone());
        if let Some((_, fault)) = faults.into_iter().next() {
            return Err(fault);
        }
        let bytes = resume.map(|resume| &resume.bytes[..]);
        let Trained { model, figures, suspicions, mut warnings } =
            device.train(&data, config, seed, bytes, observer).map_err(|failure| {
                failure.about(resume.map_or(&dataset.path, |resume| &resume.path))
            })?;
        warnings.extend(rarely_found(&model, !suspicions.is_empty()));
        let bytes = model.to_bytes()?;
        Ok(TrainedModel {
            sha256: sha256_hex(&[&bytes]),
            model,
            bytes,
            figures,
            cases: known,
            labels_sha256,
            suspicions,
            warnings,
        })
    }
}

/// Hash over the files of the cases' label maps, in their order.
fn labels_sha256(cases: &[AnnotatedCase]) -> Result<String, Failure> {
    let mut hashes = String::new();
    for path in cases.iter().filter_map(|case| case.spec.labels.as_ref()) {
        hashes.push_str(&sha256_hex(&[&read_file(path, FileKind::Image)?]));
    }
    Ok(sha256_hex(&[hashes.as_bytes()]))
}

/// More of them are only counted.
const NAMED: usize = 8;

/// What held-out cases say of new images, where that is that hardly anything will be `found`.
fn rarely_found(model: &Model, has_suspicions: bool) -> Option<String> {
    let structures = model.structures.iter().zip(&model.certainty);
    let known = structures.filter_map(|(structure, own)| Some((structure, own.as_ref()?)));
    let all = known.flat_map(|(structure, certainty)| {
        // A box that follows from landmarks is no structure.
        let own = (!is_box_of_landmarks(&structure.name))
            .then_some((&structure.name, certainty.held_out));
        let names = structure.landmarks().iter().map(|landmark| &landmark.name);
        own.into_iter().chain(names.zip(certainty.landmarks.iter().map(|l| l.held_out)))
    });
    let rare: Vec<_> = all.filter(|(_, held_out)| held_out.is_rarely_found()).collect();
    let (name, held_out) = rare.first()?;
    let names: Vec<&str> = rare[1..].iter().map(|(name, _)| name.as_str()).collect();
    let others = match names.len() {
        0 => String::new(),
        1..=NAMED => format!("; much the same goes for {}", names.join(", ")),
        n => format!("; much the same goes for {n} more"),
    };
    let advice = match has_suspicions {
        true => "look at the annotations named before, or annotate more cases",
        false => "annotate more cases, and the same places in all",
    };
    Some(format!(
        "{name}: of {} held-out cases {} are right and {} would be called `found`{others}: in new images \
         expect `doubtful` or `absent` ({advice})",
        held_out.subjects, held_out.right, held_out.found
    ))
}

impl TrainedModel {
    /// Writes `MODEL.pbt`.
    ///
    /// # Errors
    /// Exit code 1 when it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        Ok(write_atomically(path, |w| w.write_all(&self.bytes))?)
    }

    /// Writes `MODEL.train.toml`: every setting, as resolved.
    ///
    /// # Errors
    /// Exit code 1 when it cannot be written.
    pub fn write_settings(&self, model: &Path) -> Result<(), Failure> {
        let resolved =
            toml::to_string_pretty(&self.model.resolved_config()).map_err(Failure::other)?;
        Ok(write_atomically(&beside(model, "train.toml"), |w| w.write_all(resolved.as_bytes()))?)
    }

    /// The model ready for detection; results name it by `path`.
    pub fn loaded(self, path: PathBuf) -> LoadedModel {
        LoadedModel {
            model: self.model,
            path,
            sha256: self.sha256,
            bytes: self.bytes.len(),
            built_in: None,
        }
    }
}

/// The file beside a model: `skull.pbt` → `skull.train.toml`.
pub fn beside(model: &Path, extension: &str) -> PathBuf {
    model.with_extension(extension)
}

/// Where a training of this model keeps its finished stages.
///
/// # Errors
/// Exit code 2 when the model itself has that name.
pub fn checkpoint_of(model: &Path) -> Result<PathBuf, Failure> {
    let checkpoint = beside(model, "partial");
    // Some file systems take capitals for the same.
    let same = model.extension().is_some_and(|e| e.eq_ignore_ascii_case("partial"));
    if same {
        return Err(Failure::usage(format!(
            "{}: --output: is the name of a checkpoint of the training (let the name end otherwise, as in .pbt)",
            model.display()
        )));
    }
    Ok(checkpoint)
}
