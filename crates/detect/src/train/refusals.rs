//! What a training asks of its data, told from annotations and geometries before a voxel is read.
//! [`super::train`] asks the same before it begins, so that both say the same.

use crate::DetectError;
use crate::config::{RefinementKind, TrainConfig};
use crate::data::look_alikes::alike_in_size;
use crate::data::training_data::{Annotated, FEWEST_CASES, TrainingData, is_flat};
use crate::pose::prior::Prior;
use crate::working::choice::spacing_and_levels;
use crate::working::spec::{check_grid, working_grids};
use pbt_volume::{Geometry, PointLps, Pose};

/// A reason for which a training refuses its data.
#[derive(Debug)]
pub struct Refusal {
    /// The case that cannot be used, as an index; `None` where no single case is to blame.
    pub case: Option<usize>,
    /// What [`super::train`] says.
    pub error: DetectError,
}

/// What a structure asks of the grid of every image, in training and in detection.
#[derive(Debug, Clone, PartialEq)]
pub struct GridDemand {
    /// Its name.
    pub structure: String,
    /// Spacing of the finest level of the working pyramid, mm.
    pub spacing_mm: f64,
    /// Number of levels; each has twice the spacing of the one before, except across thick slices.
    pub levels: usize,
    /// What the features reach on the coarsest level, voxels.
    pub radius: usize,
    /// Whether the image must have one slice.
    pub flat: bool,
}

impl GridDemand {
    /// Volume of a voxel of the finest level over an image, mm³; infinite where the spacing is absurd.
    pub fn voxel_mm3(&self, image: &Geometry) -> f64 {
        working_grids(image, self.spacing_mm, self.levels)
            .map_or(f64::INFINITY, |grids| grids[0].spacing_mm().iter().product())
    }

    /// Whether an image on this grid can be used.
    ///
    /// # Errors
    /// [`DetectError::Image`] when its working pyramid would be absurdly large, or narrower on the
    /// coarsest level than the reach of the features.
    pub fn check(&self, image: &Geometry) -> Result<(), DetectError> {
        let grid = (self.spacing_mm, self.levels);
        check_grid(image, grid, self.levels - 1, (self.radius, self.flat)).map(drop)
    }
}

/// All reasons for which [`super::train`] would refuse these data, as far as annotations and
/// geometries tell, in the order in which it would come upon them. What only voxels tell (an image
/// without contrast) is not among them.
pub fn refusals<D: TrainingData + ?Sized>(data: &D, config: &TrainConfig) -> Vec<Refusal> {
    if let Err(error) = config.check() {
        return vec![Refusal { case: None, error }];
    }
    if is_flat(data) && config.refinement.kind == RefinementKind::Classification {
        let what = "classification is for volumes (use `regression` for 2D images)";
        return vec![Refusal { case: None, error: DetectError::config("refinement.kind", what) }];
    }
    if let Some(error) = unknown_channel(data, config) {
        return vec![Refusal { case: None, error }];
    }
    let structures = data.structures();
    let mut refusals = too_few_cases(data, &structures);
    for (demand, (_, annotated)) in demands(data, config, &structures) {
        let images = annotated.chunk_by(|a, b| a.0 == b.0).map(|of_case| of_case[0].0);
        refusals.extend(images.filter_map(|case| {
            let error = demand.check(data.list().geometry(case)).err()?;
            let field = format!("case {}", data.list().id(case));
            Some(Refusal {
                case: Some(case),
                error: DetectError::training(field, error.to_string()),
            })
        }));
    }
    refusals
}

/// A channel that the configuration names and the data do not have.
fn unknown_channel<D: TrainingData + ?Sized>(
    data: &D,
    config: &TrainConfig,
) -> Option<DetectError> {
    let known = &data.list().channels;
    let named =
        config.working.channels.keys().map(|name| (format!("working.channels.{name}"), name));
    let searched = config.position.channel.iter().map(|name| ("position.channel".to_owned(), name));
    let (key, name) = named.chain(searched).find(|(_, name)| !known.contains(name))?;
    let what = match known.is_empty() {
        true => "the images of the data set have one channel (leave it out)".to_owned(),
        false => {
            format!("`{name}` is none of the data set's channels (they are {})", known.join(", "))
        }
    };
    Some(DetectError::config(key, what))
}

/// What the structures of these data, trained so, ask of the grid of every image. Structures with
/// too few cases ask nothing.
pub fn grid_demands<D: TrainingData + ?Sized>(data: &D, config: &TrainConfig) -> Vec<GridDemand> {
    demands(data, config, &data.structures()).map(|(demand, _)| demand).collect()
}

fn demands<'a, D: TrainingData + ?Sized>(
    data: &'a D,
    config: &'a TrainConfig,
    structures: &'a [Annotated],
) -> impl Iterator<Item = (GridDemand, &'a Annotated)> {
    let alike = alike_in_size(structures);
    structures.iter().zip(alike).filter(|((_, annotated), _)| annotated.len() >= FEWEST_CASES).map(
        move |(structure, first)| {
            // Structures of one size share the working grid of the first.
            let (_, annotated) = &structures[first];
            let poses: Vec<Pose> = annotated.iter().map(|&(_, pose)| pose).collect();
            let middles: Vec<PointLps> =
                annotated.iter().map(|&(case, _)| data.list().geometry(case).center()).collect();
            let prior = Prior::new(&poses, &middles, config.orientation.orientations);
            let (spacing_mm, levels) = spacing_and_levels(data, config, &prior);
            let (radius, flat) = (config.position.haar.radius, is_flat(data));
            let name = structure.0.clone();
            (GridDemand { structure: name, spacing_mm, levels, radius, flat }, structure)
        },
    )
}

/// Every structure and landmark needs a few cases.
fn too_few_cases<D: TrainingData + ?Sized>(data: &D, structures: &[Annotated]) -> Vec<Refusal> {
    let refusal = |field: &str, what: String| {
        let error = DetectError::training(field, what);
        Refusal { case: None, error }
    };
    if structures.is_empty() {
        return vec![refusal("structures", "there is no structure to train".to_owned())];
    }
    let advice = match structures.len() {
        1 => "annotate more",
        _ => "annotate more, or name the other structures with --structure",
    };
    let mut refusals = Vec::new();
    for (name, cases) in structures {
        if cases.len() < FEWEST_CASES {
            let count = cases.len();
            let what = format!(
                "{count} annotated training case(s); at least {FEWEST_CASES} are needed \
                     ({advice})"
            );
            refusals.push(refusal(&format!("structures: {name}"), what));
        }
        for (landmark, points) in data.landmarks(name) {
            let both =
                points.iter().filter(|(case, _)| cases.iter().any(|(c, _)| c == case)).count();
            if both < FEWEST_CASES {
                let what = format!(
                    "{both} training case(s) with this landmark and its box {name}; at least \
                     {FEWEST_CASES} are needed (annotate more, or name the other structures with --structure)"
                );
                refusals.push(refusal(&format!("structures: {landmark}"), what));
            }
        }
    }
    refusals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::case_list::CaseList;
    use crate::working::choice::{intensities, working_spec};
    use nalgebra::{Matrix3, UnitQuaternion, Vector3};
    use pbt_volume::{RealVolume, Volume};

    /// Boxes of 40 mm in images of so many slices.
    struct Data {
        list: CaseList,
        annotated: usize,
    }

    impl TrainingData for Data {
        type Error = DetectError;

        fn list(&self) -> &CaseList {
            &self.list
        }

        fn image(&self, case: usize) -> Result<RealVolume, DetectError> {
            Ok(Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| (i + j + k) as f32)
                .into())
        }

        fn structures(&self) -> Vec<Annotated> {
            let pose = |case: usize| Pose {
                center: self.list.geometry(case).center(),
                orientation: UnitQuaternion::identity(),
                size_mm: [40.0; 3],
            };
            vec![("heart".into(), (0..self.annotated).map(|case| (case, pose(case))).collect())]
        }
    }

    fn data(slices: &[usize], annotated: usize) -> Data {
        let geometry = |&slices: &usize| {
            let matrix = Matrix3::from_diagonal(&Vector3::new(1.5, 1.5, 8.0));
            Geometry::new([64, 64, slices], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap()
        };
        Data { list: CaseList::made("MR", slices.iter().map(geometry)), annotated }
    }

    #[test]
    fn every_case_with_too_few_slices_is_named_and_no_other() {
        let mut config = TrainConfig::default();
        config.position.haar.radius = 24;
        let data = data(&[30, 7, 30, 2], 4);
        let found: Vec<(Option<usize>, String)> =
            refusals(&data, &config).into_iter().map(|r| (r.case, r.error.to_string())).collect();
        let refused: Vec<usize> = found.iter().filter_map(|(case, _)| *case).collect();
        // The truth: the pyramids themselves.
        let (_, annotated) = data.structures().remove(0);
        let poses: Vec<Pose> = annotated.iter().map(|&(_, pose)| pose).collect();
        let middles = vec![PointLps::new(0.0, 0.0, 0.0); 4];
        let prior = Prior::new(&poses, &middles, config.orientation.orientations);
        let working = working_spec(&data, &config, &prior, &intensities(&data, &config).unwrap());
        let is_narrow = |&case: &usize| {
            let pyramid = working.pyramid(&data.channels(case).unwrap()).unwrap();
            let coarsest = pyramid.geometry(working.levels - 1).shape();
            let radius = config.position.haar.radius;
            let volume = coarsest.iter().product::<usize>();
            coarsest.iter().any(|&n| 4 * n < radius) || 8 * volume < radius.pow(3)
        };
        let narrow: Vec<usize> = (0..4).filter(is_narrow).collect();
        assert_eq!(refused, narrow);
        assert!(refused.contains(&3) && !refused.contains(&0), "{found:?}");
        assert!(found.iter().all(|(_, text)| text.contains("features reach")), "{found:?}");
        assert!(found[0].1.starts_with(&format!("case case {}: shape: ", refused[0])), "{found:?}");
        let demands = grid_demands(&data, &config);
        assert!(demands[0].check(data.list().geometry(0)).is_ok());
        assert!(demands[0].check(data.list().geometry(3)).is_err());
    }

    #[test]
    fn too_few_cases_are_refused_and_ask_nothing_of_grids() {
        let config = TrainConfig::default();
        let found = refusals(&data(&[30, 3], 1), &config);
        assert!(found.len() == 1 && found[0].case.is_none());
        let alone = found[0].error.to_string();
        assert!(alone.contains("1 annotated training case(s)"), "{alone}");
        assert!(alone.ends_with(" are needed (annotate more)"), "{alone}");
        // `--structure` selects, so it helps only where there are others.
        let two = data(&[30, 30], 2);
        let structures = [two.structures().remove(0), ("liver".into(), Vec::new())];
        let [refusal] = &too_few_cases(&two, &structures)[..] else { panic!("one is refused") };
        let beside = refusal.error.to_string();
        assert!(beside.ends_with("or name the other structures with --structure)"), "{beside}");
        assert!(refusals(&data(&[30, 30], 2), &config).is_empty());
    }
}
