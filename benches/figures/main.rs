//! The figures of `docs/results.md` on real data, and of the cards of models: `cargo xtask figures` and
//! `cargo xtask models` build this example and run it. It needs no Cargo itself: on a machine without Rust, copy it and `pbt` there.
#![forbid(unsafe_code)]

mod absence;
mod accuracy;
mod card;
mod cross_validation;
mod rotate;
mod surroundings;

use clap::Parser;

/// Measures what a model is worth on real volumes
#[derive(Debug, Parser)]
#[command(name = "figures")]
enum Arguments {
    /// Errors in the cases of a split, each as it is stored and in random rotations, stage by stage
    Accuracy {
        /// Model
        model: String,
        /// Data set
        dataset: String,
        /// Split
        split: String,
        /// Resampled copies of each volume in random rotations
        rotations: usize,
    },
    /// What is said of structures that a crop leaves out, and in images of other body parts
    Absence {
        /// Model
        model: String,
        /// Data set
        dataset: String,
        /// Split
        split: String,
        /// Crops of each volume, at most
        crops: usize,
        /// Data sets whose test volumes show other body parts
        others: Vec<String>,
    },
    /// Writes the card of a model
    Card(card::Arguments),
    /// Trains and tests on the training cases by turns
    CrossValidation(cross_validation::Arguments),
    /// How much answers change where an image is cut or padded about its structures
    Surroundings {
        /// Model
        model: String,
        /// Data set
        dataset: String,
        /// Split
        split: String,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse() {
        Arguments::Accuracy { model, dataset, split, rotations } => {
            accuracy::run(&model, &dataset, &split, rotations)
        }
        Arguments::Absence { model, dataset, split, crops, others } => {
            absence::run(&model, &dataset, &split, crops, &others)
        }
        Arguments::Card(arguments) => card::run(&arguments),
        Arguments::CrossValidation(arguments) => cross_validation::run(&arguments),
        Arguments::Surroundings { model, dataset, split } => {
            surroundings::run(&model, &dataset, &split)
        }
    }
}
