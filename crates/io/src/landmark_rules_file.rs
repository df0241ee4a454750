//! Reads the rules by which landmarks follow from label maps: `structures[].from_labels`.

use crate::IoError;
use crate::dataset::Dataset;
use crate::json::Node;
use crate::landmark_rules::{DEFAULT_SHARE, Direction, LandmarkRule, Side};
use pbt_volume::{StructureKind, did_you_mean};

const RULES: [&str; 3] = ["centroid", "tip", "interface"];

/// Adds the rules in the file's list of structures to a data set whose structures, label names and
/// cases are known. Returns what is wrong; structures that could not be read are left out.
pub(crate) fn add_rules(
    list: &Node,
    dataset: &mut Dataset,
    warnings: &mut Vec<String>,
) -> Vec<IoError> {
    let mut faults = Vec::new();
    for node in list.items().unwrap_or_default() {
        let Ok(Some(rule)) = node.optional("from_labels") else { continue };
        let name = node.get("name").and_then(|name| name.text()).unwrap_or_default();
        let Some(spec) = dataset.structures.iter().find(|s| s.name == name) else { continue };
        let read = if spec.kind == StructureKind::Landmark {
            Reader { dataset, warnings }.rule(&rule)
        } else {
            let advice = match spec.kind {
                StructureKind::Box => {
                    "leave it out: boxes follow from label maps without a rule, and rules are for \
                     landmarks"
                }
                _ => "leave it out: rules are for landmarks",
            };
            Err(rule.error(format!("is there for a {}", spec.kind), advice))
        };
        match read {
            Ok(rule) => {
                dataset.landmark_rules.insert(name.to_owned(), rule);
            }
            Err(fault) => faults.push(fault),
        }
    }
    faults
}

/// What a rule is read with.
struct Reader<'a> {
    dataset: &'a Dataset,
    warnings: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn rule(&mut self, node: &Node) -> Result<LandmarkRule, IoError> {
        let kind = node.get_among("rule", &["rule"])?;
        let mut known = |keys: &[&str]| node.warn_unknown(keys, self.warnings);
        let rule = match kind.text()? {
            "centroid" => {
                known(&["rule", "label", "labels"])?;
                LandmarkRule::Centroid { labels: self.labels(node)? }
            }
            "tip" => {
                known(&["rule", "label", "labels", "direction", "share"])?;
                LandmarkRule::Tip {
                    labels: self.labels(node)?,
                    direction: self.direction(node)?,
                    share: share(node)?,
                }
            }
            "interface" => {
                known(&["rule", "between"])?;
                LandmarkRule::Interface { between: self.between(node)? }
            }
            other => {
                let problem = format!("is `{other}`{}", did_you_mean(other, RULES));
                return Err(kind.error(problem, "write `centroid`, `tip` or `interface`"));
            }
        };
        let has_map = |dataset: &Dataset| dataset.cases.iter().any(|case| case.labels.is_some());
        if has_map(self.dataset) || self.dataset.cases.is_empty() {
            return Ok(rule);
        }
        let problem = "is there, and no case has a label map";
        Err(node.error(problem, "give the cases `labels`, or leave the rule out"))
    }

    /// `label`, or `labels`.
    fn labels(&self, node: &Node) -> Result<Vec<String>, IoError> {
        match (node.optional("label")?, node.optional("labels")?) {
            (Some(label), None) => Ok(vec![self.label(&label)?]),
            (None, Some(list)) => {
                let labels = list.items()?;
                if labels.is_empty() {
                    return Err(list.error("is empty", "name at least one label"));
                }
                labels.iter().map(|label| self.label(label)).collect()
            }
            (Some(_), Some(list)) => {
                Err(list.error("is there beside `label`", "write one of the two"))
            }
            (None, None) => {
                node.get_among("label", &["rule", "direction", "share"])?;
                Ok(Vec::new())
            }
        }
    }

    /// The name of a label that the data set knows.
    fn label(&self, node: &Node) -> Result<String, IoError> {
        let name = node.text()?;
        if self.dataset.values_of(name).contains(&true) {
            return Ok(name.to_owned());
        }
        let names = self.dataset.label_names.values().chain(&self.dataset.every_label);
        let meant = did_you_mean(name, names.map(String::as_str).chain(self.dataset.only_box()));
        Err(node.error(
            format!("`{name}` is no name under `labels`{meant}"),
            "name a label as the data set's `labels` does",
        ))
    }

    fn direction(&self, node: &Node) -> Result<Direction, IoError> {
        const ADVICE: &str = "write `left`, `right`, `anterior`, `posterior`, `superior`, `inferior`, \
                              or {\"from\": LABEL, \"to\": LABEL}";
        let Some(direction) = node.optional("direction")? else {
            return Err(node.child_error("direction", "is missing", ADVICE));
        };
        if direction.raw().is_object() {
            let end = |key| self.label(&direction.get_among(key, &["from", "to"])?);
            let (from, to) = (end("from")?, end("to")?);
            return match from == to {
                true => Err(direction.error("goes from a label to itself", "name two labels")),
                false => Ok(Direction::Labels { from, to }),
            };
        }
        let word = direction.text()?;
        match Side::ALL.iter().find(|(name, ..)| *name == word) {
            Some(&(_, side, _)) => Ok(Direction::Patient(side)),
            None => {
                let meant = did_you_mean(word, Side::ALL.map(|(name, ..)| name));
                Err(direction.error(format!("is `{word}`{meant}"), ADVICE))
            }
        }
    }

    fn between(&self, node: &Node) -> Result<[String; 2], IoError> {
        const ADVICE: &str = "name the two labels that touch, as in [\"A\", \"B\"]";
        let list = node.get_among("between", &["rule", "between"])?;
        let names = list.items()?;
        let [a, b] = &names[..] else {
            return Err(list.error(format!("is a list of {}", names.len()), ADVICE));
        };
        let between = [self.label(a)?, self.label(b)?];
        let [a, b] = between.each_ref().map(|name| self.dataset.values_of(name));
        if a.iter().zip(b).any(|(&a, b)| a && b) {
            let problem = format!("`{}` and `{}` have values in common", between[0], between[1]);
            return Err(list.error(problem, ADVICE));
        }
        Ok(between)
    }
}

fn share(node: &Node) -> Result<f64, IoError> {
    let Some(share) = node.optional("share")? else { return Ok(DEFAULT_SHARE) };
    let number = share.raw().as_f64().filter(|&share| share > 0.0 && share <= 1.0);
    number.ok_or_else(|| {
        let problem = format!("is {}, not a number above 0 and at most 1", share.raw());
        share.error(problem, "0.05 takes the outermost 5 % of the voxels")
    })
}
