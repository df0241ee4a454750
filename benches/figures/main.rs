//! The accuracy figures of `docs/benchmarks.md` on real data: `cargo xtask figures` runs them one
//! by one.
//!
//! `figures accuracy MODEL DATASET SPLIT ROTATIONS`: every case of the split as it is stored and in
//! so many random rotations, the whole image resampled each time; errors of the box, and what each
//! stage found on the way.
//!
//! `figures absence MODEL DATASET SPLIT CROPS [DATASET]…`: what is said of structures that a crop
//! leaves out, so many crops of each case, and of the test volumes of other data sets.
#![forbid(unsafe_code)]

mod absence;
mod accuracy;
mod rotate;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["accuracy", model, dataset, split, rotations] => {
            accuracy::run(model, dataset, split, rotations.parse()?)
        }
        ["absence", model, dataset, split, crops, ref others @ ..] => {
            absence::run(model, dataset, split, crops.parse()?, others)
        }
        _ => anyhow::bail!(
            "usage: figures accuracy MODEL DATASET SPLIT ROTATIONS | absence MODEL DATASET SPLIT CROPS [DATASET]..."
        ),
    }
}
