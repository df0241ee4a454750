//! Classifiers in the model file: features, nodes, weak classifiers.

use crate::DetectError;
use crate::model::card::ClassifierCard;
use crate::model::limits::check_grid;
use crate::model::tables::{TableReader, TableWriter};
use crate::stages::classifier::{HaarClassifier, PoseClassifier};
use pbt_features::{Channel, Cuboid, HaarFeature, Modifier, SteerableFeature};
use pbt_tree::{Bounds, Classifier, Evaluator, Haar, Node, Steerable, Tree, Weak};

pub(super) fn put_haar(tables: &mut TableWriter, name: &str, c: &HaarClassifier) -> ClassifierCard {
    let row = |f: &HaarFeature| -> Vec<i16> {
        let mut row: Vec<i16> = f
            .cuboids()
            .flat_map(|c| {
                let [i, j, k] = c.min.map(i16::from);
                let [x, y, z] = c.size.map(i16::from);
                [i, j, k, x, y, z, c.weight]
            })
            .collect();
        // Unused places of four are all zero.
        row.resize(28, 0);
        row
    };
    tables.put(format!("{name}.features"), 28, c.features.iter().flat_map(row));
    put_trees(tables, name, &c.classifier);
    ClassifierCard { eval: c.classifier.eval.params(), grid: None }
}

pub(super) fn take_haar(
    tables: &mut TableReader<'_>,
    name: &str,
    card: &ClassifierCard,
    radius: usize,
) -> Result<HaarClassifier, DetectError> {
    let field = format!("{name}.features");
    let wrong = |what: String| DetectError::model(field.clone(), what);
    let values: Vec<i16> = tables.take(&field, 28)?;
    let features = values
        .chunks_exact(28)
        .map(|row| {
            let cuboids = row
                .chunks_exact(7)
                .filter(|c| c.iter().any(|&v| v != 0))
                .map(|c| {
                    let min = [c[0], c[1], c[2]].map(i8::try_from);
                    let size = [c[3], c[4], c[5]].map(u8::try_from);
                    match (min, size) {
                        ([Ok(i), Ok(j), Ok(k)], [Ok(x), Ok(y), Ok(z)]) => {
                            Ok(Cuboid { min: [i, j, k], size: [x, y, z], weight: c[6] })
                        }
                        _ => Err(wrong("a cuboid is out of range".to_owned())),
                    }
                })
                .collect::<Result<Vec<_>, _>>()?;
            let feature = HaarFeature::new(&cuboids).map_err(|e| wrong(e.to_string()))?;
            if feature.radius() > radius {
                return Err(wrong(format!(
                    "a feature reaches {} voxels, the window {radius}",
                    feature.radius()
                )));
            }
            Ok(feature)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let classifier = take_trees(tables, name, card, features.len())?;
    Ok(HaarClassifier { family: Haar, features, classifier })
}

pub(super) fn put_pose(tables: &mut TableWriter, name: &str, c: &PoseClassifier) -> ClassifierCard {
    let row = |f: &SteerableFeature| {
        let [i, j, k] = f.point;
        [i, j, k, f.level, f.channel as u8, f.modifier as u8]
    };
    tables.put(format!("{name}.features"), 6, c.features.iter().flat_map(row));
    put_trees(tables, name, &c.classifier);
    ClassifierCard { eval: c.classifier.eval.params(), grid: Some(c.family.grid) }
}

pub(super) fn take_pose(
    tables: &mut TableReader<'_>,
    name: &str,
    card: &ClassifierCard,
    volumes: usize,
) -> Result<PoseClassifier, DetectError> {
    let Some(grid) = card.grid else {
        return Err(DetectError::model(name, "the card has no grid"));
    };
    check_grid(name, &grid)?;
    let field = format!("{name}.features");
    let values: Vec<u8> = tables.take(&field, 6)?;
    let features = values
        .chunks_exact(6)
        .map(|row| {
            let point = [row[0], row[1], row[2]];
            let inside = (0..3).all(|a| point[a] < grid.points[a]) && usize::from(row[3]) < volumes;
            match (Channel::from_u8(row[4]), Modifier::from_u8(row[5])) {
                (Some(channel), Some(modifier)) if inside => {
                    Ok(SteerableFeature { point, level: row[3], channel, modifier })
                }
                _ => Err(DetectError::model(
                    field.clone(),
                    "a feature lies outside the grid or is of an unknown type",
                )),
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let classifier = take_trees(tables, name, card, features.len())?;
    Ok(PoseClassifier { family: Steerable { grid }, features, classifier })
}

fn put_trees(tables: &mut TableWriter, name: &str, c: &Classifier) {
    let lengths = c.trees.iter().flat_map(|t| [t.nodes.len() as u32, t.weaks.len() as u32]);
    tables.put(format!("{name}.trees"), 2, lengths);
    let node = |n: &Node| [n.first_weak, n.weak_count, n.left, n.right, n.positive];
    tables.put(format!("{name}.nodes"), 5, c.trees.iter().flat_map(|t| &t.nodes).flat_map(node));
    let weaks = || c.trees.iter().flat_map(|t| &t.weaks);
    tables.put(
        format!("{name}.weak"),
        4,
        weaks().flat_map(|w| [w.feature as i32, w.bounds.lo, w.bounds.hi, w.alpha]),
    );
    tables.put(format!("{name}.votes"), 1, weaks().map(|w| w.votes));
}

fn take_trees(
    tables: &mut TableReader<'_>,
    name: &str,
    card: &ClassifierCard,
    features: usize,
) -> Result<Classifier, DetectError> {
    let lengths: Vec<u32> = tables.take(&format!("{name}.trees"), 2)?;
    let nodes: Vec<u32> = tables.take(&format!("{name}.nodes"), 5)?;
    let weaks: Vec<i32> = tables.take(&format!("{name}.weak"), 4)?;
    let votes: Vec<u64> = tables.take(&format!("{name}.votes"), 1)?;
    let wrong = |what: String| {
        DetectError::model(name, format!("{what}; the model is damaged (train or copy it again)"))
    };
    let total = |n: usize| lengths.iter().skip(n).step_by(2).map(|&l| l as usize).sum::<usize>();
    if total(0) != nodes.len() / 5 || total(1) != weaks.len() / 4 || total(1) != votes.len() {
        return Err(wrong("the tables of the trees disagree in length".to_owned()));
    }
    let mut nodes = nodes.chunks_exact(5).map(|n| Node {
        first_weak: n[0],
        weak_count: n[1],
        left: n[2],
        right: n[3],
        positive: n[4],
    });
    let mut weaks = weaks.chunks_exact(4).zip(votes).map(|(w, votes)| {
        // A feature below zero becomes far too large and is refused with the others.
        Weak { feature: w[0] as u32, bounds: Bounds { lo: w[1], hi: w[2] }, votes, alpha: w[3] }
    });
    let trees = lengths
        .chunks_exact(2)
        .map(|l| Tree {
            nodes: nodes.by_ref().take(l[0] as usize).collect(),
            weaks: weaks.by_ref().take(l[1] as usize).collect(),
        })
        .collect();
    if !card.eval.is_valid() {
        return Err(wrong("e1 or e2 is out of range".to_owned()));
    }
    let classifier = Classifier { trees, eval: Evaluator::new(card.eval) };
    classifier.validate(features).map_err(|e| wrong(e.to_string()))?;
    Ok(classifier)
}
