//! Enhanced multi-frame files: geometry and scaling of each frame from its functional groups, or
//! from those that all frames share (PS3.3, section C.7.6.16).

use super::file::Elements;
use super::plane::{Placement, Plane, Time, field, placement, rescale};
use crate::IoError;
use dicom_core::Tag;
use dicom_dictionary_std::tags;
use std::path::Path;

/// Sequences that hold the type of a frame, one for each kind of image.
const FRAME_TYPES: [Tag; 4] = [
    tags::MR_IMAGE_FRAME_TYPE_SEQUENCE,
    tags::CT_IMAGE_FRAME_TYPE_SEQUENCE,
    tags::PET_FRAME_TYPE_SEQUENCE,
    tags::X_RAY3_D_FRAME_TYPE_SEQUENCE,
];

/// The planes of a file; `first` has what they have in common.
pub(super) fn planes(
    path: &Path,
    elements: Elements,
    first: &Plane,
) -> Result<Vec<Plane>, IoError> {
    let shared = elements.item(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE);
    let frames = elements.items(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE);
    if frames.len() != first.format.frames {
        let problem = format!("has {} items for {} frames", frames.len(), first.format.frames);
        return Err(field(
            path,
            tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE,
            "PerFrameFunctionalGroupsSequence",
            problem,
        ));
    }
    frames.into_iter().enumerate().map(|(n, frame)| plane(path, n, frame, shared, first)).collect()
}

fn plane(
    path: &Path,
    n: usize,
    frame: Elements,
    shared: Option<Elements>,
    first: &Plane,
) -> Result<Plane, IoError> {
    let group = |tag| frame.item(tag).or_else(|| shared.and_then(|shared| shared.item(tag)));
    let needed = |tag, name: &str| {
        group(tag).ok_or_else(|| {
            field(
                path,
                tag,
                name,
                format!("is missing in frame {n}, so nobody knows where it lies in the patient"),
            )
        })
    };
    let placement: Placement = placement(
        path,
        needed(tags::PLANE_POSITION_SEQUENCE, "PlanePositionSequence")?,
        needed(tags::PLANE_ORIENTATION_SEQUENCE, "PlaneOrientationSequence")?,
        needed(tags::PIXEL_MEASURES_SEQUENCE, "PixelMeasuresSequence")?,
    )?;
    let (slope, intercept) = group(tags::PIXEL_VALUE_TRANSFORMATION_SEQUENCE)
        .map_or(Ok((1.0, 0.0)), |group| rescale(path, group))?;
    let content = frame.item(tags::FRAME_CONTENT_SEQUENCE);
    let int = |tag| content.and_then(|content| content.int(tag));
    let frame_type = FRAME_TYPES
        .into_iter()
        .find_map(group)
        .map(|group| group.texts(tags::FRAME_TYPE))
        .unwrap_or_default();
    let echo = group(tags::MR_ECHO_SEQUENCE).and_then(|echo| echo.float(tags::EFFECTIVE_ECHO_TIME));
    let stack = content.and_then(|content| content.text(tags::STACK_ID)).unwrap_or_default();
    let mut key = first.key.clone();
    key.kind = format!(
        "{} echo {} stack {stack}",
        frame_type.get(2..).unwrap_or_default().join("/"),
        echo.unwrap_or_default()
    );
    Ok(Plane {
        frame: n,
        key,
        placement,
        time: Time {
            temporal_position: int(tags::TEMPORAL_POSITION_INDEX).unwrap_or(0),
            acquisition: int(tags::FRAME_ACQUISITION_NUMBER).unwrap_or(0),
            frame: n,
            ..first.time
        },
        slope,
        intercept,
        ..first.clone()
    })
}
