//! Combinations of values of settings.

use crate::Failure;
use pbt_detect::TrainConfig;
use pbt_volume::Random;
use toml::{Table, Value};

/// Most combinations that may be tried.
const MOST: usize = 10_000;

/// Settings to try.
pub(super) struct Combination {
    /// The values that vary, by key.
    pub(super) values: Vec<(String, Value)>,
    /// All settings that differ from the defaults.
    pub(super) text: String,
    /// The same, checked.
    pub(super) config: TrainConfig,
}

/// A setting and the values to try.
struct Variation {
    key: String,
    values: Vec<Value>,
}

impl Variation {
    /// `KEY=VALUE,VALUE`; what is no value of TOML is text.
    fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::usage(format!("--vary {text}: {what}"));
        let (key, values) =
            text.split_once('=').ok_or_else(|| wrong("expected KEY=VALUE,VALUE"))?;
        let parts = || key.split('.').map(str::trim);
        if parts().any(str::is_empty) {
            return Err(wrong("the key has an empty part (write table.key)"));
        }
        let value = |text: &str| {
            let text = text.trim();
            let read = toml::from_str::<Table>(&format!("v = {text}")).ok();
            read.and_then(|mut table| table.remove("v"))
                .unwrap_or_else(|| Value::String(text.to_owned()))
        };
        let values: Vec<Value> =
            values.split(',').filter(|v| !v.trim().is_empty()).map(value).collect();
        if values.is_empty() {
            return Err(wrong("there is no value"));
        }
        Ok(Self { key: parts().collect::<Vec<_>>().join("."), values })
    }
}

/// The combinations of `vary`, each on top of the settings of a file, which have been checked, or so many of
/// them, drawn at random. The last variation changes fastest.
///
/// # Errors
/// Exit code 2 for what is no variation, for too many combinations and for settings that cannot be.
pub(super) fn combinations(
    vary: &[String],
    base: &str,
    draws: Option<u32>,
    seed: u64,
) -> Result<Vec<Combination>, Failure> {
    let variations =
        vary.iter().map(|text| Variation::parse(text)).collect::<Result<Vec<_>, _>>()?;
    for (n, variation) in variations.iter().enumerate() {
        if variations[..n].iter().any(|other| other.key == variation.key) {
            let what =
                format!("--vary {}: is given twice (give all values at once)", variation.key);
            return Err(Failure::usage(what));
        }
    }
    let count = variations.iter().try_fold(1usize, |n, v| n.checked_mul(v.values.len()));
    let count = count.filter(|&n| n <= MOST || draws.is_some()).ok_or_else(|| {
        Failure::usage(format!(
            "--vary: more than {MOST} combinations (try some of them with --draws)"
        ))
    })?;
    let wanted = draws.map_or(count, |n| (n as usize).min(count)).min(MOST);
    let mut numbers: Vec<usize> = Vec::with_capacity(wanted);
    let mut random = Random::from_seed(seed);
    while numbers.len() < wanted {
        let number = if wanted == count { numbers.len() } else { random.below(count) };
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let base: Table = toml::from_str(base).map_err(Failure::other)?;
    let of = |mut number: usize| -> Result<Combination, Failure> {
        let (mut values, mut table) = (Vec::new(), base.clone());
        for variation in variations.iter().rev() {
            let value = variation.values[number % variation.values.len()].clone();
            number /= variation.values.len();
            set(&mut table, &variation.key, value.clone())?;
            values.push((variation.key.clone(), value));
        }
        values.reverse();
        let text = toml::to_string(&table).map_err(Failure::other)?;
        let config =
            TrainConfig::from_toml(&text).map_err(|e| Failure::usage(format!("--vary: {e}")))?;
        Ok(Combination { values, text, config })
    };
    numbers.into_iter().map(of).collect()
}

/// Gives a key, `table.key`, a value.
fn set(table: &mut Table, key: &str, value: Value) -> Result<(), Failure> {
    let Some((first, rest)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return Ok(());
    };
    let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
    match inner {
        Value::Table(inner) => set(inner, rest, value),
        _ => Err(Failure::usage(format!("--vary: `{first}` is a value, not a table, in --config"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vary: &[&str], base: &str, draws: Option<u32>) -> Result<Vec<Combination>, Failure> {
        let vary: Vec<String> = vary.iter().map(|&v| v.to_owned()).collect();
        combinations(&vary, base, draws, 3)
    }

    #[test]
    fn every_combination_comes_once_on_top_of_the_rest() {
        let vary = ["regions.forest.depth=3, 5", "regions.sampling=voxel-uniform"];
        let all = of(&vary, "[regions]\nfeatures = 77\nforest = { trees = 9 }\n", None).unwrap();
        let depths: Vec<usize> = all.iter().map(|c| c.config.regions.forest.depth).collect();
        assert_eq!(depths, [3, 5]);
        for combination in &all {
            let regions = &combination.config.regions;
            assert_eq!((regions.features, regions.forest.trees), (77, 9));
            assert_eq!(regions.sampling, pbt_detect::Sampling::VoxelUniform);
            assert_eq!(TrainConfig::from_toml(&combination.text).unwrap(), combination.config);
        }
        let vary = ["regions.features=1,2,3,4,5", "regions.near=1,2,3"];
        let some = of(&vary, "", Some(6)).unwrap();
        let mut pairs: Vec<_> =
            some.iter().map(|c| (c.config.regions.features, c.config.regions.near)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 6);
        assert_eq!(of(&vary, "", Some(99)).unwrap().len(), 15);
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (vary, part) in [
            (&["x"][..], "expected KEY"),
            (&["a..b=1"], "empty part"),
            (&["regions.near="], "no value"),
            (&["regions.near=1", "regions.near=2"], "twice"),
            (&["regions.nearr=1"], "regions.nearr"),
            (&["regions.near=1000"], "regions.near"),
        ] {
            let error = of(vary, "", None).err().unwrap().to_string();
            assert!(error.contains("--vary") && error.contains(part), "{error}");
        }
    }
}
