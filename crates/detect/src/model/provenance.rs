//! Where a model comes from.

use crate::config::TrainConfig;
use pbt_volume::{LabelShape, LengthUnit};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Where a model came from: nothing that changes between two trainings on the same data,
/// configuration and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Version of `pbt` that trained it.
    pub pbt_version: String,
    /// Name of the data set.
    pub dataset: String,
    /// Modality of the data set.
    pub modality: String,
    /// SHA-256 over the names, images and poses of the training cases.
    pub training_sha256: String,
    /// Number of training cases.
    pub cases: usize,
    /// Copies of each that it was trained on, too: see
    /// [`AugmentationConfig`](crate::AugmentationConfig).
    pub copies: usize,
    /// The longest edge of a voxel of the training images, mm; absent of 2D images.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub coarsest_mm: Option<f64>,
    /// What lengths count in the training images; absent where these are millimetres.
    #[serde(skip_serializing_if = "LengthUnit::is_mm", default)]
    pub unit: LengthUnit,
    /// Where boxes of the training cases followed from label maps, the mean shapes by name of the
    /// structure: by them the boxes of other label maps mean the same.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub label_shapes: BTreeMap<String, LabelShape>,
    /// Seed of all random streams.
    pub seed: u64,
    /// The configuration as it was resolved.
    pub config: TrainConfig,
}

impl Provenance {
    /// In what a model of this provenance was trained otherwise than one of another; none where they are the
    /// same.
    pub(crate) fn difference_from(&self, expected: &Self) -> Option<String> {
        if self == expected {
            return None;
        }
        let differs = |what: &str, own: &dyn Display, now: &dyn Display| {
            Some(format!("{what}: {own}, now {now}"))
        };
        if self.pbt_version != expected.pbt_version {
            return differs("another version", &self.pbt_version, &expected.pbt_version);
        }
        if self.dataset != expected.dataset {
            return differs("another data set", &self.dataset, &expected.dataset);
        }
        if self.seed != expected.seed {
            return differs("another seed", &self.seed, &expected.seed);
        }
        if self.modality != expected.modality {
            return differs("another modality", &self.modality, &expected.modality);
        }
        if self.config == expected.config {
            return Some("other training cases".to_owned());
        }
        // Of what the user has not set nothing is said.
        if self.config.clone().quick() == expected.config {
            return Some("another configuration: without --quick, now with it".to_owned());
        }
        if expected.config.clone().quick() == self.config {
            return Some("another configuration: with --quick, now without it".to_owned());
        }
        let difference = match [&self.config, &expected.config].map(serde_json::to_value) {
            [Ok(own), Ok(expected)] => first_difference("", &own, &expected),
            _ => None,
        };
        Some(match difference {
            Some(difference) => format!("another configuration: {difference}"),
            None => "another configuration".to_owned(),
        })
    }
}

/// The first key, in alphabetical order, whose value differs, with both values.
fn first_difference(key: &str, found: &Value, expected: &Value) -> Option<String> {
    if found == expected {
        return None;
    }
    let (Value::Object(a), Value::Object(b)) = (found, expected) else {
        return Some(format!("`{key}` is {found}, now {expected}"));
    };
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter().find_map(|name| {
        let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or(Value::Null);
        let dot = if key.is_empty() { "" } else { "." };
        first_difference(&format!("{key}{dot}{name}"), &of(a), &of(b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quick_is_named_as_what_the_user_typed() {
        let made = |config: TrainConfig| Provenance {
            pbt_version: String::new(),
            dataset: String::new(),
            modality: String::new(),
            training_sha256: String::new(),
            cases: 2,
            copies: 0,
            coarsest_mm: None,
            unit: LengthUnit::default(),
            label_shapes: BTreeMap::new(),
            seed: 0,
            config,
        };
        let own = TrainConfig::from_toml("[augmentation]\ncopies = 2").unwrap();
        let (full, quick) = (made(own.clone()), made(own.quick()));
        let said = |a: &Provenance, b: &Provenance| a.difference_from(b).unwrap();
        assert!(said(&full, &quick).ends_with(": without --quick, now with it"));
        assert!(said(&quick, &full).ends_with(": with --quick, now without it"));
        let other = made(TrainConfig::default().quick());
        assert!(said(&full, &other).contains("`augmentation.copies` is 2, now 0"));
    }

    #[test]
    fn the_first_key_that_differs_is_named() {
        let config = |depth: u32, copies: u32| json!({ "classifier": { "pbt": { "depth": depth } }, "position": { "copies": copies } });
        let said = first_difference("", &config(2, 3), &config(4, 5));
        assert_eq!(said.unwrap(), "`classifier.pbt.depth` is 2, now 4");
        assert_eq!(first_difference("", &config(2, 3), &config(2, 3)), None);
        let missing = first_difference("", &json!({ "a": 1 }), &json!({ "a": 1, "b": [2] }));
        assert_eq!(missing.unwrap(), "`b` is null, now [2]");
    }
}
