//! A data set as its file describes it. The JSON is kept as it is, so that every field reaches the
//! folds, those that this program does not know too.

use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A data set and its cases for training.
pub(super) struct Set {
    /// Its name.
    pub(super) name: String,
    /// The cases of the split `train`, or of `dev` where there is none; paths are absolute.
    pub(super) cases: Vec<Value>,
    /// Everything else in the file.
    root: Value,
}

impl Set {
    /// Reads a folder with `dataset.json`, or such a file under any name.
    ///
    /// # Errors
    /// A file that cannot be read, is no data set, or has no cases for training.
    pub(super) fn load(path: &Path) -> anyhow::Result<Self> {
        let file = if path.is_dir() { path.join("dataset.json") } else { path.to_path_buf() };
        let at = || file.display().to_string();
        let file = file.canonicalize().with_context(at)?;
        let mut root: Value =
            serde_json::from_slice(&std::fs::read(&file).with_context(at)?).with_context(at)?;
        if root["schema"] != "pbt-dataset/1" {
            bail!("{}: schema: is not `pbt-dataset/1` (convert the data set)", at());
        }
        let name = root["name"].as_str().with_context(|| format!("{}: name: is missing", at()))?;
        let name = name.to_owned();
        let all =
            root["cases"].as_array().with_context(|| format!("{}: cases: is missing", at()))?;
        let of = |split| all.iter().filter(|case| case["split"] == split).cloned().collect();
        let train: Vec<Value> = of("train");
        let mut cases: Vec<Value> = if train.is_empty() { of("dev") } else { train };
        if cases.is_empty() {
            bail!("{}: cases: none has the split `train` or `dev`", at());
        }
        let folder = file.parent().unwrap_or(Path::new("/"));
        cases.iter_mut().for_each(|case| make_absolute(case, folder));
        root["cases"] = Value::Null;
        Ok(Self { name, cases, root })
    }

    /// Names of the structures that are no landmarks, in the file's order.
    pub(super) fn without_landmarks(&self) -> Vec<String> {
        let structures = self.root["structures"].as_array().into_iter().flatten();
        structures
            .filter(|s| s["kind"] != "landmark")
            .filter_map(|s| s["name"].as_str().map(str::to_owned))
            .collect()
    }

    /// Names of all structures, in the file's order.
    pub(super) fn structures(&self) -> impl Iterator<Item = &str> {
        let structures = self.root["structures"].as_array().into_iter().flatten();
        structures.filter_map(|s| s["name"].as_str())
    }

    /// The data set of one fold: its cases have the split `test`, all others `train`. `folds` are
    /// the folds of the cases.
    pub(super) fn fold(&self, folds: &[usize], fold: usize) -> Value {
        let cases = self.cases.iter().zip(folds).map(|(case, &of)| {
            let mut case = case.clone();
            case["split"] = json!(if of == fold { "test" } else { "train" });
            case
        });
        let mut root = self.root.clone();
        root["cases"] = cases.collect();
        root
    }
}

/// The files that a case names.
pub(super) fn files(case: &Value) -> Vec<PathBuf> {
    let fields = ["image", "annotations", "labels"].into_iter().map(|key| &case[key]);
    let values = fields.flat_map(|value| match value {
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    });
    values.filter_map(|value| value.as_str().map(PathBuf::from)).collect()
}

/// Paths are relative to the folder of the file.
fn make_absolute(case: &mut Value, folder: &Path) {
    let absolute = |value: &mut Value| {
        if let Some(path) = value.as_str() {
            *value = json!(folder.join(path));
        }
    };
    for key in ["image", "annotations", "labels"] {
        match case.get_mut(key) {
            Some(Value::Array(list)) => list.iter_mut().for_each(absolute),
            Some(one) => absolute(one),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_keep_every_field_and_have_absolute_paths() {
        let folder = tempfile::tempdir().unwrap();
        let case = |id: &str, split: &str| json!({ "id": id, "image": "a.nii", "annotations": ["b.json", "/c.json"], "split": split, "new": 1 });
        let dataset = json!({
            "schema": "pbt-dataset/1", "name": "set", "modality": "MR", "newer": true,
            "structures": [{ "name": "box", "kind": "box" }, { "name": "tip", "kind": "landmark" }],
            "cases": [case("1", "dev"), case("2", "test"), case("3", "dev")],
        });
        std::fs::write(folder.path().join("dataset.json"), dataset.to_string()).unwrap();
        let set = Set::load(folder.path()).unwrap();
        assert_eq!((set.name.as_str(), set.cases.len()), ("set", 2));
        assert_eq!(set.without_landmarks(), ["box"]);
        let fold = set.fold(&[0, 1], 1);
        assert!(fold["newer"] == true && fold["cases"][1]["new"] == 1);
        assert_eq!(fold["cases"][0]["split"], "train");
        assert_eq!(fold["cases"][1]["split"], "test");
        let at = folder.path().canonicalize().unwrap();
        let expected = [at.join("a.nii"), at.join("b.json"), "/c.json".into()];
        assert_eq!(files(&fold["cases"][0]), expected);
    }
}
