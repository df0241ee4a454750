//! Which level a chain of look-alikes stands at.
//!
//! A spine that is found one level too high looks right to every vertebra's detector and to the
//! priors between neighbours. What tells is the chain as a whole: what lies beyond its ends, and
//! how it changes along it. So the chain that was found is continued at both ends, the names are
//! shifted along it by up to [`SHIFTS`] places, and a linear classifier of coarse context about the
//! chain's ends and middle says which of the shifts looks like the training cases. Where even the
//! best does not, the answer is doubtful.
//!
//! A structure that is alone is a chain of one: it is tested at each place where its search ended
//! (`surroundings.rs`).

use crate::DetectError;
use crate::network::graph::{BROKEN, Network};
use crate::refine::refinement::Refinement;
use crate::stages::platt_scaling::Calibration;
use crate::stages::sampling::{hidden, hide, normalise};
use crate::working::spec::WorkingSpec;
use pbt_features::BoxGrid;
use pbt_linear::LinearMap;
use pbt_tree::{Backend, Patch, PoseSite};
use pbt_volume::{Geometry, Pose};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Names are shifted along a chain by so many places either way.
pub(crate) const SHIFTS: usize = 2;

/// Fewest structures of a chain.
const FEWEST: usize = 3;

/// A pose that the refinement moves farther than this from where its neighbour expects it, in D,
/// has gone elsewhere.
const ASTRAY: f64 = 0.35;

/// The linear classifier's output becomes a raw score of this many units a unit of its targets, ±½.
const RAW: f64 = 16.0;

/// What the test looks at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelShiftSpec {
    /// Indices of the structures, from one end of the chain to the other; the only one of a model.
    pub members: Vec<usize>,
    /// Context about a structure; extents are multiples of D.
    pub patch: Patch,
    /// Whether patches are brought to one mean and deviation: for images without an absolute scale.
    pub normalise: bool,
    /// D, mm.
    pub scale_mm: f64,
    /// Log-odds that the names are right, by the linear classifier's output.
    pub calibration: Calibration,
    /// Whether it was learned from cut copies, for images that end early along the chain. What an image ends
    /// with tells the level where all are planned alike, and misleads where one is cut.
    #[serde(default, skip_serializing_if = "is_false")]
    pub of_parts: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The trained test of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelShiftTest {
    /// What it looks at.
    pub spec: LevelShiftSpec,
    /// One output, about ½ where the names are right and −½ where they are shifted.
    pub map: LinearMap<i16>,
}

/// Structures of each group of look-alikes that follow one another along the network's arcs, from
/// end to end. `look_alikes[s]` is the first structure that looks like `s`.
pub(crate) fn chains(network: &Network, look_alikes: &[usize]) -> Vec<Vec<usize>> {
    let group = |first: usize| {
        (0..look_alikes.len()).filter(move |&s| look_alikes[s] == first).collect::<Vec<_>>()
    };
    (0..look_alikes.len())
        .filter(|&s| look_alikes[s] == s)
        .filter_map(|first| chain(network, &group(first)))
        .collect()
}

/// The group in a row, where its arcs make one.
fn chain(network: &Network, group: &[usize]) -> Option<Vec<usize>> {
    let beside = |s: usize| -> Vec<usize> {
        let ends = network.arcs.iter().flat_map(|arc| [(arc.from, arc.to), (arc.to, arc.from)]);
        ends.filter(|&(from, to)| from == s && group.contains(&to)).map(|(_, to)| to).collect()
    };
    if group.len() < FEWEST || group.iter().any(|&s| beside(s).len() > 2) {
        return None;
    }
    let mut row = vec![*group.iter().find(|&&s| beside(s).len() == 1)?];
    while let Some(next) = beside(row[row.len() - 1]).into_iter().find(|s| !row.contains(s)) {
        row.push(next);
    }
    (row.len() == group.len()).then_some(row)
}

/// The members that agree best with their neighbours: the longest run of a chain.
fn longest_run(network: &Network, members: &[usize], poses: &[Pose]) -> std::ops::Range<usize> {
    let mut best = 0..1;
    let mut first = 0;
    for next in 1..=members.len() {
        let joined = next < members.len()
            && network
                .log_density(members[next - 1], members[next], &poses[next - 1], &poses[next])
                .is_some_and(|d| d > BROKEN);
        if !joined {
            if next - first > best.len() {
                best = first..next;
            }
            first = next;
        }
    }
    best
}

/// The poses of a chain's longest run, continued at both ends to [`SHIFTS`] places beyond the whole
/// chain. Each new one starts where its neighbour expects it and is brought to the image by the
/// refinement.
pub(crate) fn ladder<B: Backend>(
    backend: &B,
    image: &B::Image,
    network: &Network,
    refinement: &Refinement,
    members: &[usize],
    poses: &[Pose],
) -> Result<Vec<Pose>, DetectError> {
    let run = longest_run(network, members, poses);
    // Beyond an end of the chain its last step goes on.
    let link = |place: usize| place.saturating_sub(SHIFTS).min(members.len() - 2);
    let next = |from: usize, to: usize, pose: &Pose| {
        let expected = network.beside(from, to, pose).unwrap_or(*pose);
        let end = refinement.apply(backend, image, &[expected])?[0];
        let d = libm::cbrt(expected.size_mm.iter().product());
        let near = end.center.distance_mm(&expected.center) < ASTRAY * d;
        Ok::<_, DetectError>(if near { end } else { expected })
    };
    let mut down = vec![poses[run.start]];
    for place in (0..run.start + SHIFTS).rev() {
        let n = link(place);
        let pose = next(members[n + 1], members[n], &down[down.len() - 1])?;
        down.push(pose);
    }
    let mut rungs: Vec<Pose> = down.into_iter().rev().collect();
    rungs.extend_from_slice(&poses[run.start + 1..run.end]);
    while rungs.len() < members.len() + 2 * SHIFTS {
        let n = link(rungs.len() - 1);
        let pose = next(members[n], members[n + 1], &rungs[rungs.len() - 1])?;
        rungs.push(pose);
    }
    Ok(rungs)
}

impl LevelShiftSpec {
    /// Context of the coarsest level about each member: a cube of this edge, in D, with so many points
    /// along it. Not calibrated yet.
    pub(super) fn new(
        members: Vec<usize>,
        (extent, points): (f64, u8),
        working: &WorkingSpec,
        scale_mm: f64,
    ) -> Self {
        let patch = Patch {
            grid: BoxGrid { points: [points; 3], extent: [extent; 3] },
            levels: working.volumes_of(&[(working.levels - 1) as u8]),
            edges: true,
        };
        let calibration = Calibration { slope: 1.0, intercept: 0.0 };
        let normalise = working.is_relative();
        Self { members, patch, normalise, scale_mm, calibration, of_parts: false }
    }

    /// The members that are looked at: both ends and the middle.
    fn views(&self) -> Vec<usize> {
        let last = self.members.len() - 1;
        let mut views = vec![0, last / 2, last];
        views.dedup();
        views
    }

    /// Values a chain.
    pub(crate) fn len(&self) -> usize {
        self.views().len() * self.patch.len()
    }

    /// Where to look for a chain that starts at a place of a ladder.
    pub(crate) fn sites(
        &self,
        image: u32,
        rungs: &[Pose],
        first: usize,
    ) -> impl Iterator<Item = PoseSite> {
        let size_mm = [self.scale_mm; 3];
        let at =
            move |view: usize| PoseSite { image, pose: Pose { size_mm, ..rungs[first + view] } };
        self.views().into_iter().map(at)
    }

    /// What is seen there, chain after chain; where `views` are given, one for each, nothing of what lies
    /// outside them. Beyond the borders of an image these go on.
    pub(crate) fn see<B: Backend>(
        &self,
        backend: &B,
        images: &[&B::Image],
        sites: &[PoseSite],
        views: Option<&[Geometry]>,
    ) -> Result<Vec<i16>, DetectError> {
        let mut seen = vec![0i16; sites.len() * self.patch.len()];
        backend.patches(images, &self.patch, sites, &mut seen)?;
        let each = self.views().len();
        let all = seen.par_chunks_exact_mut(self.patch.len()).zip(sites).enumerate();
        all.for_each(|(n, (values, site))| match views {
            Some(views) => {
                let hidden = hidden(&self.patch.grid, &site.pose, &views[n / each]);
                hide(&self.patch, values, &hidden, self.normalise);
            }
            None if self.normalise => normalise(&self.patch, values),
            None => {}
        });
        Ok(seen)
    }
}

impl LevelShiftTest {
    /// Whether it is the one for an image; `is_part`, where the image ends early along the chain, and
    /// `all` of a model, of which older ones have none for such an image.
    pub(crate) fn serves(&self, is_part: bool, all: &[Self]) -> bool {
        let other =
            all.iter().any(|t| t.spec.members == self.spec.members && t.spec.of_parts == is_part);
        !self.is_of_one() && (self.spec.of_parts == is_part || !other)
    }

    /// Whether it is of a structure that is alone.
    pub(crate) fn is_of_one(&self) -> bool {
        self.spec.members.len() == 1
    }

    /// Log-odds that the names are right where the chain starts at each place of a ladder, as far as
    /// it fits in.
    pub(crate) fn log_odds<B: Backend>(
        &self,
        backend: &B,
        (image, view): (&B::Image, &Geometry),
        rungs: &[Pose],
    ) -> Result<Vec<f64>, DetectError> {
        let places = rungs.len() - self.spec.members.len() + 1;
        let sites: Vec<PoseSite> =
            (0..places).flat_map(|first| self.spec.sites(0, rungs, first)).collect();
        let views = self.spec.of_parts.then(|| vec![view.clone(); places]);
        let seen = self.spec.see(backend, &[image], &sites, views.as_deref())?;
        Ok(seen
            .chunks_exact(self.spec.len())
            .map(|values| self.spec.calibration.log_odds(raw(&self.map, values)))
            .collect())
    }

    /// Whether a file's numbers make sense for so many structures and levels of the working
    /// pyramid.
    pub(crate) fn is_valid(&self, structures: usize, volumes: usize) -> bool {
        let LevelShiftSpec { members, patch, scale_mm, calibration, .. } = &self.spec;
        let mut seen = vec![false; structures];
        (members.len() >= FEWEST || (members.len() == 1 && structures == 1))
            && members.iter().all(|&s| s < structures && !std::mem::replace(&mut seen[s], true))
            && patch.levels.iter().all(|&l| usize::from(l) < volumes)
            && *scale_mm > 0.0
            && scale_mm.is_finite()
            && calibration.slope >= 0.0
            && calibration.slope.is_finite()
            && calibration.intercept.is_finite()
    }
}

/// The linear classifier's output on the scale that is calibrated.
pub(crate) fn raw(map: &LinearMap<i16>, values: &[i16]) -> f64 {
    RAW * map.apply(values)[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pose::prior::Prior;
    use crate::random::test_random;
    use pbt_volume::PointLps;

    const D: f64 = 30.0;

    fn pose(at: [f64; 3]) -> Pose {
        Pose {
            center: PointLps::new(at[0], at[1], at[2]),
            orientation: nalgebra::UnitQuaternion::identity(),
            size_mm: [D; 3],
        }
    }

    /// Learned from cases where each structure lies this far from an earlier one, a little off; the
    /// first lies at the origin.
    fn network(steps: &[(usize, [f64; 3])]) -> Network {
        let mut random = test_random(1);
        let mut poses = vec![Vec::new(); steps.len() + 1];
        for case in 0..20 {
            poses[0].push(Some(pose([0.0; 3].map(|v: f64| v + 8.0 * random.normal()))));
            for (s, &(from, step)) in steps.iter().enumerate() {
                let at = poses[from][case].map_or([0.0; 3], |p: Pose| p.center.0.coords.into());
                poses[s + 1]
                    .push(Some(pose(std::array::from_fn(|a| at[a] + step[a] + random.normal()))));
            }
        }
        let middles = vec![PointLps::new(0.0, 0.0, 0.0); 20];
        let prior = |list: &Vec<Option<Pose>>| {
            Prior::new(
                &list.iter().flatten().copied().collect::<Vec<_>>(),
                &middles,
                crate::Orientations::Training,
            )
        };
        let priors: Vec<Prior> = poses.iter().map(prior).collect();
        Network::train(&poses, &middles, &priors.iter().collect::<Vec<_>>(), true).unwrap()
    }

    const UP: [f64; 3] = [0.0, 0.0, 35.0];

    #[test]
    fn chains_are_rows_of_look_alikes() {
        // The second structure is of another kind, and lies beside the row.
        let network = network(&[(0, [90.0, 0.0, 0.0]), (0, UP), (2, UP), (3, UP)]);
        let row = chains(&network, &[0, 1, 0, 0, 0]);
        assert!(
            row == [vec![0, 2, 3, 4]] || row == [vec![4, 3, 2, 0]],
            "{row:?} of {:?}",
            network.arcs
        );
        // Two are no chain; nor are those that another kind parts.
        assert!(
            chains(&network, &[0, 1, 0, 1, 1]).iter().all(|row| row.len() > 2 && !row.contains(&0))
        );
        assert!(chains(&network, &[0, 1, 0, 3, 0]).is_empty());
    }

    #[test]
    fn the_longest_run_leaves_out_who_stands_elsewhere() {
        let network = network(&[(0, UP), (1, UP), (2, UP), (3, UP)]);
        let members = [0, 1, 2, 3, 4];
        let mut poses: Vec<Pose> = (0..5).map(|i| pose([0.0, 0.0, 35.0 * f64::from(i)])).collect();
        assert_eq!(longest_run(&network, &members, &poses), 0..5);
        // The first two one level too low: a gap between the second and the third.
        poses[0] = pose([0.0, 0.0, -35.0]);
        poses[1] = pose([0.0, 0.0, 0.0]);
        assert_eq!(longest_run(&network, &members, &poses), 2..5);
        // None agrees with its neighbours.
        let scattered: Vec<Pose> = (0..5).map(|i| pose([200.0 * f64::from(i), 0.0, 0.0])).collect();
        assert_eq!(longest_run(&network, &members, &scattered).len(), 1);
    }
}
