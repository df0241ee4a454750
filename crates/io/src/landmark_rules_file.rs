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

    fn direction(&mut self, node: &Node) -> Result<Direction, IoError> {
        const ADVICE: &str = "write `left`, `right`, `anterior`, `posterior`, `superior`, `inferior`, \
                              or {\"from\": LABEL, \"to\": LABEL}";
        let Some(direction) = node.optional("direction")? else {
            return Err(node.child_error("direction", "is missing", ADVICE));
        };
        if direction.raw().is_object() {
            direction.warn_unknown(&["from", "to"], self.warnings)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Reads a data set whose landmark `end` has this rule.
    fn read(rule: &Value, change: impl Fn(&mut Value)) -> (Dataset, Vec<IoError>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.nii"), "").unwrap();
        let mut file = json!({
            "schema": "pbt-dataset/1", "name": "set", "modality": "MR",
            "structures": [
                {"name": "organ", "kind": "box"},
                {"name": "end", "kind": "landmark", "from_labels": rule},
            ],
            "labels": {"1": "head", "2": "tail", "3": "tail"},
            "cases": [{"id": "a", "image": "a.nii", "labels": "a.nii", "split": "train"}],
        });
        change(&mut file);
        let path = folder.path().join("dataset.json");
        std::fs::write(&path, file.to_string()).unwrap();
        Dataset::load_with_faults(&path).unwrap()
    }

    #[test]
    fn rules_are_read() {
        let rule = |rule: Value| {
            let (mut set, faults) = read(&rule, |_| {});
            assert!(faults.is_empty() && set.warnings.is_empty(), "{faults:?} {:?}", set.warnings);
            set.landmark_rules.remove("end").unwrap()
        };
        let names = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        // The only box stands for all labels where none has its name.
        for label in ["head", "organ"] {
            let read = rule(json!({"rule": "centroid", "label": label}));
            assert_eq!(read, LandmarkRule::Centroid { labels: names(&[label]) });
        }
        let tip = |direction, share| LandmarkRule::Tip {
            labels: names(&["head", "tail"]),
            direction,
            share,
        };
        let mut written =
            json!({"rule": "tip", "labels": ["head", "tail"], "direction": "inferior"});
        assert_eq!(rule(written.clone()), tip(Direction::Patient(Side::Inferior), 0.05));
        written["share"] = json!(1);
        written["direction"] = json!({"from": "head", "to": "tail"});
        let [from, to] = ["head", "tail"].map(str::to_owned);
        assert_eq!(rule(written), tip(Direction::Labels { from, to }, 1.0));
        let between = ["tail", "head"].map(str::to_owned);
        assert_eq!(
            rule(json!({"rule": "interface", "between": ["tail", "head"]})),
            LandmarkRule::Interface { between }
        );
    }

    #[test]
    fn mistakes_are_named() {
        let tip = |more: Value| {
            let mut rule = json!({"rule": "tip", "label": "head"});
            rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            rule
        };
        for (rule, told) in [
            (json!("tip"), ": is \"tip\", not an object ("),
            (json!({}), ".rule: is missing ("),
            (json!({"rule": "mean"}), ".rule: is `mean` (write `centroid`, `tip` or `interf"),
            (json!({"rule": "centriod"}), ".rule: is `centriod`; did you mean `centroid`? ("),
            (json!({"rule": "centroid"}), ".label: is missing ("),
            (json!({"rule": "centroid", "lable": "head"}), ".label: is missing (`lable` is there"),
            (
                json!({"rule": "centroid", "label": "haed"}),
                ".label: `haed` is no name under `labels`; did you mean `head`? (",
            ),
            (
                json!({"rule": "centroid", "label": "end"}),
                ".label: `end` is no name under `labels` (",
            ),
            (json!({"rule": "centroid", "label": 1}), ".label: is 1, not a text ("),
            (json!({"rule": "centroid", "labels": []}), ".labels: is empty ("),
            (json!({"rule": "centroid", "labels": ["head", "x"]}), ".labels[1]: `x` is no name"),
            (
                json!({"rule": "centroid", "label": "head", "labels": ["tail"]}),
                ".labels: is there beside `label` (",
            ),
            (tip(json!({})), ".direction: is missing (write `left`, "),
            (
                tip(json!({"direction": "infeior"})),
                ".direction: is `infeior`; did you mean `inferior`? (",
            ),
            (tip(json!({"direction": "up"})), ".direction: is `up` (write `left`, "),
            (tip(json!({"direction": {"from": "head"}})), ".direction.to: is missing ("),
            (
                tip(json!({"direction": {"from": "head", "to": "tial"}})),
                ".direction.to: `tial` is no name under `labels`; did",
            ),
            (
                tip(json!({"direction": {"from": "head", "to": "head"}})),
                ".direction: goes from a label to itself (",
            ),
            (
                tip(json!({"direction": "left", "share": 0})),
                ".share: is 0, not a number above 0 and",
            ),
            (tip(json!({"direction": "left", "share": 5})), ".share: is 5, not"),
            (tip(json!({"direction": "left", "share": "5 %"})), ".share: is \"5 %\", not"),
            (json!({"rule": "interface"}), ".between: is missing ("),
            (
                json!({"rule": "interface", "between": ["head"]}),
                ".between: is a list of 1 (name the two",
            ),
            (json!({"rule": "interface", "between": ["head", "x"]}), ".between[1]: `x` is no name"),
            (
                json!({"rule": "interface", "between": ["organ", "tail"]}),
                ".between: `organ` and `tail` have values in common (",
            ),
        ] {
            let (set, faults) = read(&rule, |_| {});
            assert!(set.landmark_rules.is_empty() && faults.len() == 1, "{rule}: {faults:?}");
            let told = format!("dataset.json: structures[1].from_labels{told}");
            assert!(faults[0].to_string().contains(&told), "{} is not {told}", faults[0]);
        }
    }

    #[test]
    fn rules_need_a_landmark_and_a_label_map() {
        let rule = json!({"rule": "centroid", "label": "head"});
        let told = |change: &dyn Fn(&mut Value)| {
            let (_, faults) = read(&rule, change);
            faults.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for kind in ["box", "region"] {
            let lines = told(&|file| file["structures"][1]["kind"] = json!(kind));
            let start = format!("structures[1].from_labels: is there for a {kind} (leave it out: ");
            assert!(lines.len() == 1 && lines[0].contains(&start), "{lines:?}");
        }
        let lines = told(&|file| file["cases"][0]["labels"] = Value::Null);
        assert!(
            lines.len() == 1 && lines[0].contains("no case has a label map (give"),
            "{lines:?}"
        );
        // Each fault once, in the file's order, and no more than follows from it.
        let lines = told(&|file| file["labels"]["1"] = json!(7));
        assert!(lines.len() == 1 && lines[0].contains("labels.1: is 7"), "{lines:?}");
        let lines = told(&|file| file["cases"][0]["labels"] = json!("none.nii"));
        assert!(lines.len() == 1 && lines[0].contains("cases[0].labels: "), "{lines:?}");
        let lines = told(&|file| {
            file["structures"][1]["from_labels"]["label"] = json!("x");
            file["cases"][0]["split"] = json!(4);
        });
        assert!(lines.len() == 2 && lines[0].contains("from_labels.label: "), "{lines:?}");
        // A key that another rule has.
        let (set, faults) =
            read(&json!({"rule": "centroid", "label": "head", "share": 0.1}), |_| {});
        assert!(faults.is_empty() && set.warnings.len() == 1, "{:?}", set.warnings);
        assert!(set.warnings[0].contains("structures[1].from_labels.share: is not a known key"));
    }
}
