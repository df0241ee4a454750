//! A device that fails ends training and detection with its error, wherever it fails.

use crate::support::{SMALL, Silent, listed};
use nalgebra::UnitQuaternion;
use pbt_cpu::{Cpu, CpuChannels, CpuImage};
use pbt_detect::{CaseList, DetectError, Model, RegionName, TrainConfig, TrainingData, train};
use pbt_features::BoxMeanFeature;
use pbt_tree::{
    Backend, BinTree, BinnedMatrix, Block, BoostParams, Booster, ChannelBank, Classifier, Device,
    DeviceError, Edges, Evaluate, FeatureFamily, GrownNode, HostBoosting, ImageLayout,
    LabelBackend, LabelBooster, LabelForest, LabelMatrix, Layered, Patch, PoseSite, Score,
    TreeTask, Weak,
};
use pbt_volume::{Level, PointLps, Pose, RealVolume, Volume};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The CPU until so many calls are made, and then a device that is lost.
struct Failing {
    calls: AtomicUsize,
    most: usize,
}

impl Failing {
    fn after(most: usize) -> Self {
        Self { calls: AtomicUsize::new(0), most }
    }

    fn call(&self) -> Result<Cpu, DeviceError> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.most {
            Ok(Cpu)
        } else {
            Err(DeviceError::new(std::io::Error::other("the device is lost")))
        }
    }
}

impl Booster for Failing {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError> {
        self.call()?.boost(matrix, labels, weights, params)
    }
}

impl Device for Failing {
    type Image = CpuImage;

    fn upload(&self, levels: &[Level], layout: &ImageLayout) -> Result<CpuImage, DeviceError> {
        self.call()?.upload(levels, layout)
    }
}

impl<F: FeatureFamily> Evaluate<F> for Failing
where
    Cpu: Evaluate<F, Image = CpuImage>,
{
    fn responses(
        &self,
        images: &[&CpuImage],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        self.call()?.responses(images, family, features, sites, out)
    }

    fn score(
        &self,
        image: &CpuImage,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
    ) -> Result<Vec<Score>, DeviceError> {
        self.call()?.score(image, family, features, classifier, targets)
    }
}

impl Backend for Failing {
    fn patches(
        &self,
        images: &[&CpuImage],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), DeviceError> {
        self.call()?.patches(images, patch, sites, out)
    }

    fn ridge_solutions(
        &self,
        vectors: (&[i16], usize),
        ridges: &[f64],
        right: &[Vec<f64>],
    ) -> Result<Vec<Vec<Vec<f64>>>, DeviceError> {
        self.call()?.ridge_solutions(vectors, ridges, right)
    }
}

impl LabelBackend for Failing {
    type Channels = CpuChannels;

    fn channels(
        &self,
        image: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<CpuChannels, DeviceError> {
        self.call()?.channels(image, bank, block)
    }

    fn respond(
        &self,
        channels: &CpuChannels,
        features: &[BoxMeanFeature],
        voxels: &[[usize; 3]],
        out: &mut [i64],
    ) -> Result<(), DeviceError> {
        self.call()?.respond(channels, features, voxels, out)
    }

    fn bins(
        &self,
        channels: &CpuChannels,
        features: &[BoxMeanFeature],
        edges: &[Edges],
        voxels: &[[usize; 3]],
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.call()?.bins(channels, features, edges, voxels, out)
    }

    fn distributions(
        &self,
        channels: &CpuChannels,
        forest: &LabelForest,
    ) -> Result<Vec<u32>, DeviceError> {
        self.call()?.distributions(channels, forest)
    }

    fn distributions_at(
        &self,
        channels: &CpuChannels,
        forest: &LabelForest,
        voxels: &[[usize; 3]],
    ) -> Result<Vec<u32>, DeviceError> {
        self.call()?.distributions_at(channels, forest, voxels)
    }
}

impl LabelBooster for Failing {
    type Boosting<'a> = HostBoosting<'a>;

    fn boosting<'a>(
        &self,
        matrix: &'a LabelMatrix,
        start: &[i32],
    ) -> Result<HostBoosting<'a>, DeviceError> {
        self.call()?.boosting(matrix, start)
    }

    fn grow(
        &self,
        boosting: &mut HostBoosting<'_>,
        task: &TreeTask<'_>,
    ) -> Result<Vec<Vec<GrownNode>>, DeviceError> {
        self.call()?.grow(boosting, task)
    }

    fn add(&self, boosting: &mut HostBoosting<'_>, tree: &BinTree) -> Result<(), DeviceError> {
        self.call()?.add(boosting, tree)
    }
}

/// A row of three boxes of one size, brighter from one to the next, in each of six images; the
/// first box has a landmark.
struct Rows {
    list: CaseList,
    labels: Vec<RegionName>,
}

const SIZE_MM: [f64; 3] = [10.0, 8.0, 6.0];

impl Rows {
    fn new() -> Self {
        let label = |(name, value): (&str, u16)| RegionName { name: name.to_owned(), value };
        Self {
            list: listed("rows", 6, [24, 24, 48]),
            labels: [("a", 7), ("b", 300), ("c", 2)].map(label).to_vec(),
        }
    }

    /// A little elsewhere in each case.
    fn pose(&self, case: usize, place: usize) -> Pose {
        let off = |factor: usize| (case * factor % 5) as f64 * 0.6 - 1.2;
        let center = self.list.geometry(case).center().0
            + nalgebra::Vector3::new(off(1), off(2), 12.0 * (place as f64 - 1.0) + off(3));
        let orientation = UnitQuaternion::from_euler_angles(0.0, 0.0, 0.05 * off(7));
        Pose { center: PointLps(center), orientation, size_mm: SIZE_MM }
    }

    /// The box that each voxel lies in, from 1; 0 for none.
    fn truth(&self, case: usize) -> Volume<u8> {
        let poses = [0, 1, 2].map(|place| self.pose(case, place));
        Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| {
            let at = nalgebra::Vector3::new(i as f64, j as f64, k as f64);
            let holds = |pose: &Pose| {
                let inside = pose.orientation.inverse() * (at - pose.center.0.coords);
                (0..3).all(|a| inside[a].abs() <= pose.size_mm[a] / 2.0)
            };
            poses.iter().position(holds).map_or(0, |place| place as u8 + 1)
        })
    }
}

impl TrainingData for Rows {
    type Error = DetectError;

    fn list(&self) -> &CaseList {
        &self.list
    }

    fn image(&self, case: usize) -> Result<RealVolume, DetectError> {
        let truth = self.truth(case);
        Ok(Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| {
            let noise = ((i * 7 + j * 13 + k * 29 + case * 31) % 17) as f32;
            match truth.at(i, j, k) {
                0 => noise,
                class => 40.0 + 40.0 * f32::from(class) + noise,
            }
        })
        .into())
    }

    fn structures(&self) -> Vec<(String, Vec<(usize, Pose)>)> {
        let of = |place| (0..6).map(|case| (case, self.pose(case, place))).collect();
        ["a", "b", "c"].iter().zip(0..).map(|(name, place)| (name.to_string(), of(place))).collect()
    }

    fn label_names(&self) -> &[RegionName] {
        &self.labels
    }

    fn has_classes(&self, _: usize) -> bool {
        true
    }

    fn classes(&self, case: usize) -> Result<Option<Volume<u8>>, DetectError> {
        Ok(Some(self.truth(case)))
    }

    fn landmarks(&self, structure: &str) -> Vec<(String, Vec<(usize, PointLps)>)> {
        if structure != "a" {
            return Vec::new();
        }
        vec![("tip".to_owned(), (0..6).map(|c| (c, self.pose(c, 0).corners()[0])).collect())]
    }
}

/// Settings of landmarks and masks beside the small ones.
const MORE: &str = "\
[landmarks]
perturbations = 4
regressors = [
    { view = \"point\", patches = [{ extent = 3.0, points = 4.0, levels = [0.7] }], edges = true, reach = 1.0, jitter = 0.7, ridge = 0.8 },
]
[segmentation]
samples = 6000
features = 20
first = { trees = 10, depth = 3, features_per_tree = 0.5 }
second = { trees = 10, depth = 3, features_per_tree = 0.5 }
";

fn trained(device: &Failing) -> Result<Model, DetectError> {
    let config = TrainConfig::from_toml(&format!("{SMALL}{MORE}"))?;
    Ok(train(device, &Rows::new(), &config, 1, None, &Silent)?.model)
}

/// Places among so many calls, the first and the last among them.
fn places(calls: usize) -> impl Iterator<Item = usize> {
    const PLACES: usize = 8;
    (0..=PLACES).map(move |n| n * (calls - 1) / PLACES)
}

fn is_of_device<T>(ended: Result<T, DetectError>) -> bool {
    matches!(ended, Err(e @ DetectError::Device(_)) if e.to_string() == "the device is lost")
}

#[test]
fn a_device_that_fails_ends_training_and_detection() {
    let steady = Failing::after(usize::MAX);
    let model = trained(&steady).expect("a model");
    assert!(model.network.is_some() && !model.level_shifts.is_empty(), "all calls are made");
    assert!(!model.masks.is_empty() && model.masks.iter().all(|stage| stage.quality.is_some()));
    let calls = steady.calls.load(Ordering::Relaxed);
    assert!(calls > 200, "{calls} calls");
    for call in places(calls) {
        assert!(is_of_device(trained(&Failing::after(call))), "training, call {call} of {calls}");
    }

    let image = Rows::new().image(0).expect("an image");
    let steady = Failing::after(usize::MAX);
    model.explain(&steady, std::slice::from_ref(&image), true).expect("detections");
    let calls = steady.calls.load(Ordering::Relaxed);
    for call in places(calls) {
        let ended = model.explain(&Failing::after(call), std::slice::from_ref(&image), true);
        assert!(is_of_device(ended), "detection, call {call} of {calls}");
    }
    assert!(is_of_device(model.detect(&Failing::after(3), std::slice::from_ref(&image))));
    let steady = Failing::after(usize::MAX);
    model.detect_with_masks(&steady, std::slice::from_ref(&image)).expect("masks");
    let last = steady.calls.load(Ordering::Relaxed) - 1;
    assert!(is_of_device(
        model.detect_with_masks(&Failing::after(last), std::slice::from_ref(&image))
    ));
}

/// Bright boxes are labelled, by names and values of the data, the same on any number of threads,
/// and by the model as a file holds it.
#[test]
fn voxels_of_found_boxes_get_their_labels() {
    let steady = Failing::after(usize::MAX);
    let model = trained(&steady).expect("a model");
    let again = Model::from_bytes(&model.to_bytes().expect("bytes")).expect("the same model");
    assert_eq!(again, model);
    let rows = Rows::new();
    let image = rows.image(3).expect("an image");
    let label = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            let found =
                again.detect_with_masks(&steady, std::slice::from_ref(&image)).expect("masks");
            again.label_map(image.geometry(), &found).expect("labels")
        })
    };
    let map = label(1);
    assert_eq!(map, label(3));
    let truth = rows.truth(3);
    for (n, region) in rows.labels.iter().enumerate() {
        let found = map.labels.data().iter().map(|&value| value == region.value);
        let voxels = found.clone().zip(truth.data()).filter(|(f, t)| *f || **t == n as u8 + 1);
        let both = voxels.clone().filter(|(f, t)| *f && **t == n as u8 + 1).count();
        let iou = both as f64 / voxels.count() as f64;
        assert!(iou > 0.6, "{}: {iou}", region.name);
        let label = &map.found[n][0];
        assert_eq!((&label.name, label.value), (&region.name, region.value));
        assert_eq!(label.voxels, found.filter(|f| *f).count() as u64);
        assert!((label.volume_ml - label.voxels as f64 / 1000.0).abs() < 1e-12);
        assert!(label.predicted_dice.is_some());
    }
}
