//! What a model knows of its regions.

use crate::table::row;
use pbt_detect::RegionForest;
use pbt_features::Filter;
use pbt_tree::{LEAF, Outside, Vote};
use pbt_volume::{IntensityPolicy, LengthUnit};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct RegionsInfo<'a> {
    names: Vec<&'a str>,
    /// Values in label maps.
    values: Vec<u16>,
    cases: usize,
    spacing_mm: f64,
    intensity: IntensityPolicy,
    outside: Outside,
    /// How often the features of a channel are asked.
    channels: Vec<ChannelUse<'a>>,
    trees: usize,
    nodes: usize,
    features: usize,
    /// How far a voxel's label depends on its neighbourhood, mm.
    reach_mm: f64,
    vote: Vote,
}

#[derive(Serialize)]
struct ChannelUse<'a> {
    #[serde(flatten)]
    filter: &'a Filter,
    /// Tests of features whose first box is in the channel.
    tests: usize,
}

impl<'a> RegionsInfo<'a> {
    pub(super) fn new(regions: &'a RegionForest) -> Self {
        let RegionForest { bank, forest, .. } = regions;
        let mut tests = vec![0; bank.filters.len()];
        let nodes = || forest.trees.iter().flat_map(|tree| &tree.nodes);
        for node in nodes().filter(|node| node.feature != LEAF) {
            // Loading has checked that feature and channel are there.
            tests[usize::from(forest.features[node.feature as usize].first.channel)] += 1;
        }
        let of = |(filter, tests)| ChannelUse { filter, tests };
        Self {
            names: regions.regions.iter().map(|region| region.name.as_str()).collect(),
            values: regions.regions.iter().map(|region| region.value).collect(),
            cases: regions.cases,
            spacing_mm: bank.spacing_mm,
            intensity: regions.intensity,
            outside: bank.outside,
            channels: bank.filters.iter().zip(tests).map(of).collect(),
            trees: forest.trees.len(),
            nodes: nodes().count(),
            features: forest.features.len(),
            reach_mm: bank.reach as f64 * bank.spacing_mm,
            vote: forest.vote,
        }
    }

    /// The same as rows of a table.
    pub(super) fn lines(&self, unit: LengthUnit) -> Vec<Vec<String>> {
        let named = self.names.iter().zip(&self.values);
        let names: Vec<String> = named.map(|(name, value)| format!("{name} ({value})")).collect();
        let mut lines = vec![
            row(["regions".to_owned(), names.join(", ")]),
            row(["cases".to_owned(), self.cases.to_string()]),
            row(["working grid".to_owned(), format!("{:.3} {unit}", self.spacing_mm)]),
            row([
                "forest".to_owned(),
                format!("{} trees, {} nodes, {} features", self.trees, self.nodes, self.features),
            ]),
            row(["reach".to_owned(), format!("{:.1} {unit}", self.reach_mm)]),
        ];
        let all: usize = self.channels.iter().map(|channel| channel.tests).sum();
        lines.extend(self.channels.iter().map(|channel| {
            let share = 100.0 * channel.tests as f64 / all.max(1) as f64;
            row(["tests in".to_owned(), format!("{share:4.1} % {}", words(channel.filter, unit))])
        }));
        lines
    }
}

/// What a channel shows.
fn words(filter: &Filter, unit: LengthUnit) -> String {
    let axis = |axis: u8| ["i", "j", "k"][usize::from(axis.min(2))];
    match *filter {
        Filter::Intensity => "intensities".to_owned(),
        Filter::Gradient { axis: a } => format!("gradient along {}", axis(a)),
        Filter::GradientMagnitude => "length of the gradient".to_owned(),
        Filter::Gaussian { sigma_mm } => format!("Gaussian of {sigma_mm:.1} {unit}"),
        Filter::Laplacian { sigma_mm } => {
            format!("Laplacian of a Gaussian of {sigma_mm:.1} {unit}")
        }
        Filter::LocalMean { radius_mm } => format!("mean within {radius_mm:.1} {unit}"),
        Filter::Place { axis: a } => format!("place along {}", axis(a)),
        Filter::Layer { layer } => format!("layer {layer}"),
    }
}
