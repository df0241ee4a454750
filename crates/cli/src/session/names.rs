//! Names that users give, held against those that there are.

use crate::session::Failure;
use pbt_io::Dataset;
use pbt_volume::nearest;
use std::collections::BTreeSet;

/// Whether all names are structures of the data set.
///
/// # Errors
/// Exit code 4 for the first that is none.
pub fn check_names(dataset: &Dataset, named: &[String]) -> Result<(), Failure> {
    let known: Vec<&str> = dataset.structures.iter().map(|s| s.name.as_str()).collect();
    let unknown = named.iter().find(|name| !known.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| {
        Err(Failure::input(&dataset.path, format!("structures: {}", there_is_no(name, &known))))
    })
}

/// That a name is not among others, with the one that was probably meant, or else all of them.
pub fn there_is_no(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("there is no `{name}` (did you mean `{meant}`?)"),
        None => format!("there is no `{name}` (there are: {})", known.join(", ")),
    }
}

/// That no case has a split, with the one that was probably meant, or else those that cases have and what to
/// do.
pub fn no_case_of_split(dataset: &Dataset, split: &str, todo: &str) -> Failure {
    let splits: BTreeSet<&str> = dataset.cases.iter().map(|case| &case.split[..]).collect();
    let advice = match nearest(split, splits.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let splits: Vec<String> = splits.iter().map(|split| format!("`{split}`")).collect();
            format!("they have {}; {todo}", splits.join(", "))
        }
    };
    Failure::input(&dataset.path, format!("cases: none has the split `{split}` ({advice})"))
}
