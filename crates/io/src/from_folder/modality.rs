//! What made the images, as far as files say it.

use crate::dataset::Modality;
use crate::{list_series, read_image};
use std::path::Path;

/// A modality, and why it is thought to be that.
pub(super) struct Guess {
    pub(super) modality: Modality,
    pub(super) why: String,
}

/// Words of names, and the modality that they stand for.
const WORDS: [(&str, Modality); 13] = [
    ("ct", Modality::Ct),
    ("cta", Modality::Ct),
    ("cbct", Modality::Ct),
    ("mr", Modality::Mr),
    ("mri", Modality::Mr),
    ("t1", Modality::Mr),
    ("t1w", Modality::Mr),
    ("t2", Modality::Mr),
    ("t2w", Modality::Mr),
    ("flair", Modality::Mr),
    ("us", Modality::Us),
    ("ultrasound", Modality::Us),
    ("trus", Modality::Us),
];

/// Air is below it in Hounsfield units, and few other images have so negative values.
const AIR: f32 = -800.0;

/// So much of an image must be air, or something like it, for an image without a word about it to be
/// taken for CT.
const AIR_SHARE: f64 = 0.02;

/// Guesses from what DICOM files say, from words in the names of images and of the folder, and at last
/// from the values of the first image. `names` are those of the folder and of the images in it.
pub(super) fn guess(images: &[&Path], names: &[String]) -> Guess {
    let first = images.first().copied().unwrap_or(Path::new(""));
    let is_photo = |path: &Path| {
        let extensions = ["png", "jpg", "jpeg", "tif", "tiff"];
        path.extension().is_some_and(|e| extensions.iter().any(|x| e.eq_ignore_ascii_case(x)))
    };
    if is_photo(first) {
        let modality = Modality::Other("photograph".to_owned());
        return Guess { modality, why: "the images are 2D files".to_owned() };
    }
    if first.is_dir() || first.extension().is_some_and(|e| e.eq_ignore_ascii_case("zip")) {
        let series = list_series(first).unwrap_or_default();
        let said = series.first().map(|series| series.modality.as_str()).unwrap_or_default();
        let modality = match said {
            "CT" => Some(Modality::Ct),
            "MR" => Some(Modality::Mr),
            "US" => Some(Modality::Us),
            "" => None,
            other => Some(Modality::Other(other.to_owned())),
        };
        if let Some(modality) = modality {
            return Guess { modality, why: "the DICOM files say so".to_owned() };
        }
    }
    for name in names {
        let word = |word: &str| WORDS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known));
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        if let Some((_, modality)) = words.find_map(word) {
            return Guess { modality: modality.clone(), why: format!("of the name `{name}`") };
        }
    }
    let values = read_image(first);
    let air = values.as_ref().map_or(0.0, |image| {
        let numbers = image.volume.numbers();
        let data = numbers.data();
        data.iter().filter(|&&v| v < AIR).count() as f64 / data.len().max(1) as f64
    });
    if air > AIR_SHARE {
        let why = format!("{:.0} % of the first image is below {AIR} as air is in CT", 100.0 * air);
        return Guess { modality: Modality::Ct, why };
    }
    let why = "nothing says otherwise, and the values are no Hounsfield units; if they are, \
               shifted alike in all scans, say --modality CT"
        .to_owned();
    Guess { modality: Modality::Mr, why }
}
