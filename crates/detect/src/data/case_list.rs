//! What is known of a data set without reading its images again.

use pbt_volume::{Geometry, LabelShape, LengthUnit};
use std::collections::BTreeMap;

/// Names of a data set and its cases.
#[derive(Debug, Clone, Default)]
pub struct CaseList {
    /// Name of the data set.
    pub name: String,
    /// `CT`, `MR`, `US` or another word.
    pub modality: String,
    /// Names of the channels of every image, where there are several; else none.
    pub channels: Vec<String>,
    /// What the images' lengths count; everything that is called mm counts the same.
    pub unit: LengthUnit,
    /// Of boxes that follow from label maps, the mean shapes by name of the structure.
    pub label_shapes: BTreeMap<String, LabelShape>,
    /// The cases; everything else counts them from 0 in this order.
    pub cases: Vec<ListedCase>,
}

/// A case by its name and its image.
#[derive(Debug, Clone)]
pub struct ListedCase {
    /// Its name.
    pub id: String,
    /// SHA-256 of the image file, in hexadecimal digits.
    pub image_sha256: String,
    /// Grid of the image as a training reads it.
    pub geometry: Geometry,
}

impl CaseList {
    /// Number of cases.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether there is no case.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Name of a case.
    pub fn id(&self, case: usize) -> &str {
        &self.cases[case].id
    }

    /// Grid of a case's image.
    pub fn geometry(&self, case: usize) -> &Geometry {
        &self.cases[case].geometry
    }

    /// Whether the images are CT, whose values mean the same in every scan.
    pub fn is_ct(&self) -> bool {
        self.modality.eq_ignore_ascii_case("CT")
    }

    /// Whether a channel is CT: it is called so, or the images are CT and none of their channels is.
    pub(crate) fn is_ct_channel(&self, channel: usize) -> bool {
        let is_ct = |name: &String| name.eq_ignore_ascii_case("CT");
        match self.channels.iter().any(is_ct) {
            true => is_ct(&self.channels[channel]),
            false => self.is_ct(),
        }
    }
}

#[cfg(test)]
impl CaseList {
    /// Cases with images on these grids.
    pub(crate) fn made(modality: &str, grids: impl Iterator<Item = Geometry>) -> Self {
        let case = |(n, geometry)| ListedCase {
            id: format!("case {n}"),
            image_sha256: String::new(),
            geometry,
        };
        let cases = grids.enumerate().map(case).collect();
        Self {
            name: "made".to_owned(),
            modality: modality.to_owned(),
            channels: Vec::new(),
            unit: LengthUnit::Mm,
            label_shapes: BTreeMap::new(),
            cases,
        }
    }
}
