//! Detection in one image.

mod clock;
pub(crate) mod detection;
mod images;
mod instances;
mod kind_of_image;
pub(crate) mod label_boxes;
pub(crate) mod search_order;
mod settle_level;

use crate::DetectError;
use crate::certainty::evidence::{Known, LABELS, landmark_evidence};
use crate::certainty::learned::Certainty;
use crate::certainty::presence::Presence;
use crate::detect::clock::Clock;
use crate::detect::detection::{Detection, Detections, LandmarkDetection, Trace};
use crate::detect::images::{Images, Prepared};
use crate::detect::kind_of_image::KindOfImage;
use crate::detect::search_order::search_together;
use crate::explain::Explanation;
use crate::log_odds::believed;
use crate::masks::stage::{Mask, MaskStage};
use crate::model::{Model, StructureModel};
use crate::network::choice::{Choice, Hypotheses};
use crate::network::fusion::Measured;
use crate::network::search_region::Region;
use crate::side_by_side;
use crate::working::channels::check_channels;
use crate::working::spec::check_slices;
use pbt_tree::{Backend, ImageLayout, LabelBackend, Score};
use pbt_volume::{
    LARGEST_EDGE_MM, PointLps, Pose, Pyramid, RealVolume, SMALLEST_EDGE_MM, Status,
    is_box_of_landmarks, trimmed_channels,
};

/// What is wanted beside the boxes and landmarks.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    explanations: bool,
    masks: bool,
}

impl Model {
    /// Finds every structure of the model in an image, given by its channels: one volume, or as many
    /// as [`Model::channels`] names, in that order. Channels on other grids than the first are
    /// resampled; where they end, what they hold at their border goes on, or zeros
    /// ([`WorkingSpec::padding`](crate::WorkingSpec::padding)).
    ///
    /// # Errors
    /// [`DetectError::Image`] when the image has other channels than the model, cannot be brought to
    /// the working grid or is smaller than the feature window; [`DetectError::Device`] when the
    /// device fails.
    pub fn detect<B: Backend + LabelBackend>(
        &self,
        backend: &B,
        channels: &[RealVolume],
    ) -> Result<Detections, DetectError> {
        Ok(self.run(backend, channels, Asked::default())?.0)
    }

    /// As [`Model::detect`], and labels the voxels about the boxes, where the model has masks; see
    /// [`Model::label_map`].
    ///
    /// # Errors
    /// Those of [`Model::detect`].
    pub fn detect_with_masks<B: Backend + LabelBackend>(
        &self,
        backend: &B,
        channels: &[RealVolume],
    ) -> Result<Detections, DetectError> {
        Ok(self.run(backend, channels, Asked { masks: true, explanations: false })?.0)
    }

    /// As [`Model::detect`], or as [`Model::detect_with_masks`] where `masks` are wanted, and why
    /// each detection came out as it did, in the same order.
    ///
    /// # Errors
    /// Those of [`Model::detect`].
    pub fn explain<B: Backend + LabelBackend>(
        &self,
        backend: &B,
        channels: &[RealVolume],
        masks: bool,
    ) -> Result<(Detections, Vec<Explanation>), DetectError> {
        self.run(backend, channels, Asked { explanations: true, masks })
    }

    /// The detections, and their explanations where they are asked for.
    fn run<B: Backend + LabelBackend>(
        &self,
        backend: &B,
        channels: &[RealVolume],
        asked: Asked,
    ) -> Result<(Detections, Vec<Explanation>), DetectError> {
        check_channels(self.channels(), channels)?;
        let mut channels = trimmed_channels(channels);
        let flat = self.structures.iter().any(|structure| structure.prior.flat);
        let plane = check_slices(channels[0].geometry(), flat)?;
        if let Some(plane) = &plane {
            channels = channels.iter().map(|channel| plane.laid_flat(channel)).collect();
        }
        let mut images = Images::new(&channels);
        let mut kind = KindOfImage::new(self, channels[0].geometry());
        let mut clock = Clock::default();
        let (once, many) = self.structures.split_at(self.once());
        let mut all = Results::default();
        if !once.is_empty() {
            all = self.find_together(backend, once, (&mut images, &mut kind), asked, &mut clock)?;
        }
        for (structure, s) in many.iter().zip(once.len()..) {
            let seen = (&mut images, &mut kind);
            let own = self.list_instances(backend, (structure, s), seen, asked, &mut clock)?;
            all.detections.extend(own.detections);
            all.masks.extend(own.masks);
            all.explanations.extend(own.explanations);
        }
        let Results { mut detections, masks, explanations } = all;
        if let Some(plane) = &plane {
            detections.iter_mut().for_each(|detection| detection.leave(plane));
        }
        clock.stop("verification");
        let mut warnings = kind.warnings();
        warnings.extend(self.cut(&detections));
        if self.scores_mean_little() {
            warnings.push(UNMEASURED.to_owned());
        }
        Ok((Detections { detections, masks, warnings, timing_ms: clock.stages }, explanations))
    }

    /// A warning that names what is cut by the border of the image, if anything is.
    fn cut(&self, detections: &[Detection]) -> Option<String> {
        let is_cut = |detection: &&Detection| {
            let structure = self.structures.iter().position(|s| s.name == detection.name);
            let certainty = structure.and_then(|s| self.certainty_of(s));
            detection.status != Status::Absent
                && !is_box_of_landmarks(&detection.name)
                && certainty.is_some_and(|c| c.is_cut(detection.visible))
        };
        let named = |d: &Detection| match d.instance {
            Some(n) => format!("{} {n} ({:.0} % in view)", d.name, 100.0 * d.visible),
            None => format!("{} ({:.0} % in view)", d.name, 100.0 * d.visible),
        };
        let cut: Vec<String> = detections.iter().filter(is_cut).map(named).collect();
        (!cut.is_empty()).then(|| {
            format!(
                "cut by the border of the image: {} (held-out cases showed more of it, so how near its box is was not measured, and `radius_90_mm` is null)",
                cut.join(", ")
            )
        })
    }

    /// The structures that occur once, which have their say about each other.
    fn find_together<'a, B: Backend + LabelBackend>(
        &'a self,
        backend: &B,
        structures: &'a [StructureModel],
        (images, kind): (&mut Images<'a, B>, &mut KindOfImage<'a>),
        asked: Asked,
        clock: &mut Clock,
    ) -> Result<Results, DetectError> {
        let channels = images.channels;
        let image = channels[0].geometry();
        let middle = image.center();
        let network = self.network.as_ref().map(|network| network.in_image(image));
        let prepared_for = |structure| images.for_structure(backend, structure, clock);
        let on: Vec<usize> = structures.iter().map(prepared_for).collect::<Result<_, _>>()?;
        let prepared = &images.prepared;
        let largest = prepared.iter().map(Prepared::finest_voxels).max().unwrap_or(0);
        let at_a_time = searches_at_a_time(largest, rayon::current_num_threads());
        let network_here = network.as_ref();
        let image_of = |s: usize| &prepared[on[s]];
        let traces =
            search_together(backend, structures, image_of, network_here, at_a_time, clock)?;
        let mut searches: Vec<(usize, Trace)> = on.into_iter().zip(traces).collect();
        if let Some(network) = &network {
            let proposals = network.proposals(&found(&searches));
            let converged = side_by_side::each(structures.len(), at_a_time, |s| {
                let image = &prepared[searches[s].0].image;
                structures[s].converged(backend, image, &proposals[s])
            })?;
            for ((_, trace), (modes, ends)) in
                searches.iter_mut().zip(proposals.iter().zip(converged))
            {
                trace.extend(modes, ends);
            }
        }
        let mut choices = match &network {
            Some(network) => {
                let mut found = found(&searches);
                if let Some(test) = self.level_shifts.iter().find(|test| test.is_of_one()) {
                    // As scores are: n cases make nobody surer than (n + 1) / (n + 2).
                    let most = libm::log(structures[0].cases as f64 + 1.0);
                    let seen = (&prepared[0].image, image);
                    let odds = test.log_odds(backend, seen, &found[0].poses)?;
                    found[0].surroundings =
                        odds.into_iter().map(|odds| odds.clamp(-most, most)).collect();
                }
                network.choose(&found, middle)
            }
            None => searches.iter().map(|(_, trace)| Choice::best(&trace.scores)).collect(),
        };
        if let Some(network) = &network {
            for test in &self.level_shifts {
                let on = &prepared[searches[test.spec.members[0]].0].image;
                self.settle_level(
                    backend,
                    (on, image),
                    network,
                    test,
                    &mut searches,
                    &mut choices,
                )?;
            }
        }
        clock.stop("network");
        let (mut settled, mut measured) =
            (Vec::with_capacity(searches.len()), Vec::with_capacity(searches.len()));
        for ((s, (n, trace)), choice) in searches.into_iter().enumerate().zip(choices) {
            let (structure, certainty) = (&structures[s], self.certainty_of(s));
            let (detection, own) = structure.settle(trace, choice, certainty);
            settled.push((n, detection));
            measured.push(own);
        }
        if let Some(network) = &network {
            for ((_, detection), fused) in settled.iter_mut().zip(network.fused(&measured)) {
                detection.pose = fused.unwrap_or(detection.pose);
            }
        }
        clock.stop("verification");
        // Landmarks were learned in frames as the stages before leave them.
        let frames: Vec<Pose> = settled.iter().map(|(_, detection)| detection.pose).collect();
        let boxes: Vec<&mut Detection> =
            settled.iter_mut().map(|(_, detection)| detection).collect();
        let masks = self.find_masks(backend, channels, boxes, asked.masks)?;
        if masks.iter().any(Option::is_some) {
            clock.stop("masks");
        }
        let (mut detections, mut explanations) = (Vec::with_capacity(settled.len()), Vec::new());
        let spacing_mm = image.spacing_mm();
        for (s, (n, mut detection)) in settled.into_iter().enumerate() {
            let (structure, certainty) = (&structures[s], self.certainty_of(s));
            let on = &prepared[n];
            check_pose(&structure.name, &detection.pose)?;
            let is_outside = image.is_outside(detection.pose.center);
            // Labels that move nothing take long, and are there only if asked for, on which the status
            // must not depend.
            let moving = self.masks_of(s).map(|(stage, _)| stage).filter(|stage| stage.moves());
            let labelled = moving.zip(masks[s].as_ref());
            if let Some((stage, mask)) = labelled {
                detection.trace.evidence[LABELS] = stage.evidence(&mask.shares);
                structure.weigh(&mut detection, certainty);
            }
            let contradicted = labelled.and_then(|(stage, mask)| stage.contradicts(&mask.shares));
            contradicted.inspect(|&dice| kind.note_contradicted(structure, dice));
            let is_other = kind.is_other(backend, &on.image, structure, &detection.pose)?;
            if is_other || is_outside || contradicted.is_some() {
                detection.doubt();
            }
            detection.visible = detection.pose.visible_share(image);
            detection.precision = certainty
                .map(|c| c.precision(detection.pose.size_mm, spacing_mm, detection.visible));
            clock.stop("verification");
            detection.landmarks = structure.find_landmarks(
                backend,
                on,
                (channels, &frames[s]),
                self.masks_of(s).map(|(stage, _)| stage).zip(masks[s].as_ref()),
                &detection,
                certainty,
            )?;
            if !detection.landmarks.is_empty() {
                clock.stop("landmarks");
            }
            if asked.explanations {
                explanations.push(structure.explain(backend, &on.image, &detection)?);
            }
            detections.push(detection);
        }
        clock.stop("verification");
        Ok(Results { detections, masks, explanations })
    }
}

/// What was found of some structures; masks are by detection, and explanations where they are asked for.
#[derive(Default)]
struct Results {
    detections: Vec<Detection>,
    masks: Vec<Option<Mask>>,
    explanations: Vec<Explanation>,
}

/// A model's steps compound: those of a damaged model may end in an infinite pose, or in none.
fn check_pose(name: &str, pose: &Pose) -> Result<(), DetectError> {
    if is_pose(pose) {
        return Ok(());
    }
    let what = format!("the model turns {name} into no box (train it again, or check its source)");
    Err(DetectError::image("pose", what))
}

/// Whether a pose is finite and its box has edges that a box may have.
fn is_pose(pose: &Pose) -> bool {
    let edges = pose.size_mm.iter().all(|mm| (SMALLEST_EDGE_MM..=LARGEST_EDGE_MM).contains(mm));
    let place = pose.center.0.iter().all(|mm| mm.is_finite());
    edges && place && pose.orientation.coords.iter().all(|x| x.is_finite())
}

/// Said of every image where [`Model::scores_mean_little`].
pub const UNMEASURED: &str = "score: was not measured on held-out cases, so that neither it nor `found` means much (train on \
     more cases, and without --quick)";

/// Log of the odds against the next choice from which the evidence for a choice is strong: 20 (Kass
/// and Raftery 1995, section 3.2). With 10 training spines and no centre prior, a threshold of 16
/// accepted one wrong level among 24 held-out spines; 20 accepts none, with 10 spines or all.
pub(crate) const STRONG: f64 = 2.995_732_273_553_991;

/// The converged poses as the network sees them.
fn found(searches: &[(usize, Trace)]) -> Vec<Hypotheses> {
    let candidates = |trace: &Trace| Hypotheses {
        poses: trace.converged.clone(),
        log_odds: trace.scores.iter().map(|score| score.log_odds()).collect(),
        surroundings: Vec::new(),
    };
    searches.iter().map(|(_, trace)| candidates(trace)).collect()
}

impl StructureModel {
    /// The tables that an uploaded image must have for this structure.
    pub(crate) fn layout(&self) -> ImageLayout {
        let channels = self.working.volumes();
        ImageLayout { channels, ..self.position.spec.layout(&self.working) }
    }

    /// The structure by itself, in the whole image or a region: position, orientation and refinement.
    fn search<B: Backend>(
        &self,
        backend: &B,
        on: &Prepared<'_, B>,
        region: Option<&Region>,
        clock: &mut Clock,
    ) -> Result<Trace, DetectError> {
        let searched = (on.level(self), region);
        let candidates = self.position.detect(backend, &on.image, searched, self.prior.scale_mm)?;
        clock.stop("position");
        let modes = match self.most_instances() {
            None => {
                self.orientation.detect(backend, &on.image, &candidates, &self.prior, on.middle)?
            }
            Some(_) => {
                self.orientation.detect_each(backend, &on.image, &candidates, &self.prior)?
            }
        };
        clock.stop("orientation");
        let mut trace = Trace { candidates, own_modes: modes.len(), ..Trace::default() };
        self.converge(backend, &on.image, &modes, &mut trace)?;
        clock.stop("refinement");
        if trace.scores.is_empty() {
            return Err(DetectError::image("voxels", "no candidate position in the image"));
        }
        Ok(trace)
    }

    /// Where its search ends in an image of the training, and the image.
    pub(crate) fn ends<B: Backend>(
        &self,
        backend: &B,
        image: (&Pyramid, PointLps),
    ) -> Result<(B::Image, Vec<Pose>), DetectError> {
        let mut clock = Clock::default();
        let on = Prepared::new(backend, self, image, &mut clock)?;
        let trace = self.search(backend, &on, None, &mut clock)?;
        Ok((on.image, trace.converged))
    }

    /// Refines these modes, scores the results, and appends both to the trace.
    fn converge<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        modes: &[Pose],
        trace: &mut Trace,
    ) -> Result<(), DetectError> {
        trace.extend(modes, self.converged(backend, image, modes)?);
        Ok(())
    }

    /// Where the refinement brings these modes, and the scores there.
    fn converged<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        modes: &[Pose],
    ) -> Result<(Vec<Pose>, Vec<Score>), DetectError> {
        if modes.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let converged = self.refinement.apply(backend, image, modes)?;
        let scores = self.scores(backend, image, &converged)?;
        Ok((converged, scores))
    }

    /// Scores of poses.
    fn scores<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
    ) -> Result<Vec<Score>, DetectError> {
        self.verification.score(&self.orientation, (backend, image), poses, &self.prior)
    }

    /// The chosen pose with its score, without landmarks; and the pose with its expected errors, for
    /// fusion with the neighbours'.
    fn settle(
        &self,
        trace: Trace,
        choice: Choice,
        certainty: Option<&Certainty>,
    ) -> (Detection, Option<Measured>) {
        let score = trace.scores[choice.index];
        let log_odds: Vec<f64> = trace.scores.iter().map(|score| score.log_odds()).collect();
        let pose =
            self.verification.settle(&trace.converged, |n| log_odds[n], choice.index, &self.prior);
        let known = Known {
            converged: &trace.converged,
            log_odds: &log_odds,
            own_modes: trace.own_modes,
            chosen: choice.index,
            lead: choice.lead,
            support: choice.support,
        };
        let evidence = known.evidence(&self.prior);
        let own = self.verification.probability(score);
        // Whether anything like the structure is there at all.
        let spec = &self.verification.spec;
        let (there, absent_below) = match certainty.and_then(|c| c.presence.as_ref()) {
            Some(presence) => {
                (presence.probability(&evidence), Presence::absent_below(spec.doubtful_below))
            }
            None => (choice.probability(own), spec.absent_below),
        };
        let at_most = if there < absent_below {
            Some(Status::Absent)
        } else if choice.lead < STRONG && !certainty.is_some_and(|c| c.loose_ends) {
            // Where the evidence against another joint choice is not strong, the best may be a
            // guess; but what has loose ends may lie anywhere along its length.
            Some(Status::Doubtful)
        } else {
            None
        };
        let trace = Trace {
            there,
            chosen: choice.index,
            lead: choice.lead,
            support: choice.support,
            evidence,
            at_most,
            ..trace
        };
        let mut detection = Detection {
            name: self.name.clone(),
            instance: None,
            status: Status::Doubtful,
            score: there,
            pose,
            visible: 1.0,
            precision: None,
            trace,
            landmarks: Vec::new(),
        };
        self.weigh(&mut detection, certainty);
        let measured = self.measured(&detection, own);
        (detection, measured)
    }

    /// Sets the score and the status by what is known of a detection.
    fn weigh(&self, detection: &mut Detection, certainty: Option<&Certainty>) {
        let Trace { evidence, there, at_most, .. } = &detection.trace;
        detection.score = match certainty {
            // Held-out cases may all contain the structure, so that the calibration cannot judge absence.
            Some(certainty) if *there < 0.5 => certainty.score(evidence).min(*there),
            Some(certainty) => certainty.score(evidence),
            None => *there,
        };
        detection.status = at_most.unwrap_or_else(|| self.status(detection.score));
    }

    /// The pose with its errors, where it is one that neighbours can go by; `probability` is its
    /// own detector's.
    fn measured(&self, detection: &Detection, probability: f64) -> Option<Measured> {
        let error = self.verification.spec.error.filter(|_| detection.status != Status::Absent)?;
        Some(Measured { pose: detection.pose, error: error.doubted(probability) })
    }

    /// What a probability means.
    fn status(&self, score: f64) -> Status {
        if score < self.verification.spec.doubtful_below { Status::Doubtful } else { Status::Found }
    }

    /// The landmarks of a box. Their scores start from its score; those of an absent box are absent.
    fn find_landmarks<B: Backend>(
        &self,
        backend: &B,
        on: &Prepared<'_, B>,
        (channels, frame): (&[RealVolume], &Pose),
        labels: Option<(&MaskStage, &Mask)>,
        parent: &Detection,
        certainty: Option<&Certainty>,
    ) -> Result<Vec<LandmarkDetection>, DetectError> {
        let Some(stage) = &self.landmarks else { return Ok(Vec::new()) };
        let found = match &stage.close_up {
            None => stage.detect(backend, &on.image, frame)?,
            Some(close_up) => {
                let near = close_up.pyramid(&self.working, channels, &[*frame])?;
                let near = backend.upload(near.volumes(), &close_up.layout(&self.working))?;
                stage.detect(backend, &near, frame)?
            }
        };
        let mut points: Vec<PointLps> = found.iter().map(|found| found.point).collect();
        if let Some((stage, mask)) = labels {
            stage.place_landmarks(mask, &mut points);
        }
        let image = channels[0].geometry();
        let spacing_mm = image.spacing_mm();
        let all = stage
            .landmarks
            .iter()
            .zip(found.iter().zip(points))
            .enumerate()
            .map(|(n, (prior, (found, point)))| {
                let place =
                    believed(libm::log(found.score.max(1e-9) / (1.0 - found.score).max(1e-9)));
                let certainty = certainty.and_then(|c| c.landmarks.get(n));
                let score = match certainty {
                    Some(certainty) => certainty.score(&[landmark_evidence(parent.score), place]),
                    None => parent.score * found.score,
                };
                // An unlikely place is a reason for doubt, not a sign of absence.
                let status = match parent.status {
                    // What is said of a place outside the image is a guess: it is never found.
                    Status::Found | Status::Doubtful if image.is_outside(point) => Status::Outside,
                    Status::Found => self.status(score),
                    status => status,
                };
                LandmarkDetection {
                    name: prior.name.clone(),
                    status,
                    score,
                    point,
                    place,
                    precision: certainty
                        .map(|c| c.precision(&parent.name, parent.pose.size_mm, spacing_mm)),
                }
            })
            .collect();
        Ok(all)
    }
}

/// Larger images are searched for one structure at a time, since each search holds scores of voxels.
const LARGE_VOXELS: usize = 1 << 24;

/// Structures that are searched for at a time: each leaves threads, or a device, idle for some of its time.
pub(crate) fn searches_at_a_time(voxels: usize, threads: usize) -> usize {
    if voxels > LARGE_VOXELS { 1 } else { threads }
}
