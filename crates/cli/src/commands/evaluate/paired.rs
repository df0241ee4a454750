//! `pbt evaluate --compare A B`: which of two is better on the same cases, and whether so few cases
//! can tell.

use super::side::{Given, SideRecord};
use crate::Failure;
use crate::args::{Evaluate, Global};
use crate::commands::report_file::write_report;
use crate::exit;
use crate::output::print_text;
use crate::session::{Device, check_names};
use crate::table::{row, table};
use pbt_evaluate::{Difference, Interval, Paired};
use pbt_io::{CaseSpec, Dataset};
use serde::Serialize;
use std::process::ExitCode;

/// With fewer cases than this percentile intervals are known to be too narrow.
const FEW_CASES: usize = 10;

/// `REPORT.json` of a comparison.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: String,
    /// Null when cases of all splits are compared.
    split: Option<String>,
    a: SideRecord,
    b: SideRecord,
    #[serde(flatten)]
    paired: Paired,
}

/// The split whose cases are compared: the one that is asked for, or else that of two reports; none where these
/// are about cases of all splits.
///
/// # Errors
/// Exit code 2 for reports of different splits.
pub(super) fn split(given: &[Given; 2], args: &Evaluate) -> Result<Option<String>, Failure> {
    match [given[0].split(), given[1].split()] {
        [Some(a), Some(b)] if args.split.is_none() => {
            if a != b {
                let [a, b] = [a, b].map(|split| split.unwrap_or("all of them"));
                let what = format!(
                    "--split: the reports are about different ones, {a} and {b} (name one)"
                );
                return Err(Failure::usage(what));
            }
            Ok(a.map(str::to_owned))
        }
        _ => Ok(args.tested_split().map(str::to_owned)),
    }
}

pub(super) fn run(
    given: [Given; 2],
    (args, split): (&Evaluate, Option<String>),
    dataset: &Dataset,
    cases: &[CaseSpec],
    device: &Device,
    global: &Global,
) -> Result<ExitCode, Failure> {
    check_names(dataset, &args.structure)?;
    let wanted = |name: &String| args.structure.is_empty() || args.structure.contains(name);
    let mut structures = dataset.structures.iter().map(|s| &s.name).filter(|name| wanted(name));
    if let Some(name) = structures.find(|name| dataset.is_many(name)) {
        let what = format!("structures: {name}: --compare takes structures that occur once");
        return Err(Failure::input(&dataset.path, what));
    }
    let paths = [given[0].path, given[1].path];
    let [a, b] = given.map(|given| given.side(args, dataset, cases, device, global));
    let (a, b) = (a?, b?);
    let names = dataset.structures.iter().map(|s| s.name.as_str());
    let paired = Paired::new(&a.records, &b.records, names, a.length_unit)
        .map_err(|what| Failure::input(paths[1], what))?;
    if paired.pairs == 0 {
        return Err(Failure::input(
            paths[1],
            format!("records: none is of a case and structure of {}", paths[0].display()),
        ));
    }
    let report = Report {
        schema: "pbt-comparison/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: dataset.name.clone(),
        split,
        a: a.record,
        b: b.record,
        paired,
    };
    if !global.quiet {
        print_text(&report.shown())?;
    }
    write_report(args.output.as_deref(), &report, global.quiet)?;
    Ok(if report.a.failed.is_empty() && report.b.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::SOME_FAILED)
    })
}

/// What it means, in words.
fn sentence(difference: &Difference) -> String {
    let unit =
        if difference.unit.is_empty() { String::new() } else { format!(" {}", difference.unit) };
    let cases =
        format!("{} case{}", difference.cases, if difference.cases == 1 { "" } else { "s" });
    let Some(Interval { low, high }) = difference.interval else {
        return format!("{}: one case cannot tell which is better", difference.measure);
    };
    let (size, range) = (
        difference.difference.abs(),
        format!("95 % interval of B − A {low:+.3} to {high:+.3}{unit}, {cases}"),
    );
    match difference.better {
        Some(better) => {
            let (better, other) = if better == "a" { ("A", "B") } else { ("B", "A") };
            let how = if difference.lower_is_better { "lower" } else { "higher" };
            format!(
                "{}: {better} is better, {size:.3}{unit} {how} than {other} ({range})",
                difference.measure
            )
        }
        None if low == 0.0 && high == 0.0 => {
            format!("{}: the same in every case ({cases})", difference.measure)
        }
        None => {
            format!("{}: these cases cannot tell which is better ({range})", difference.measure)
        }
    }
}

fn cells(difference: &Difference, first: &str) -> Vec<String> {
    let interval =
        difference.interval.map_or("-".to_owned(), |i| format!("{:+.3} to {:+.3}", i.low, i.high));
    let better = difference.better.map_or("-".to_owned(), str::to_uppercase);
    let mut cells = row([first, difference.unit]);
    cells.extend([
        difference.pairs.to_string(),
        format!("{:.3}", difference.mean_a),
        format!("{:.3}", difference.mean_b),
    ]);
    cells.extend([format!("{:+.3}", difference.difference), interval, better]);
    cells
}

impl Report {
    fn shown(&self) -> String {
        let paired = &self.paired;
        let split =
            self.split.as_ref().map_or("all splits".to_owned(), |split| format!("split {split}"));
        let mut text = format!(
            "{}, {split}: {} pairs in {} cases\nA  {}\nB  {}\n\n",
            self.dataset, paired.pairs, paired.cases, self.a.path, self.b.path
        );
        if paired.unpaired > 0 {
            text.push_str(&format!(
                "{} records that only one side has are left out\n\n",
                paired.unpaired
            ));
        }
        let head =
            |first: &str| row([first, "", "n", "A", "B", "B − A", "95 % interval", "better"]);
        let mut overall = vec![head("(all)")];
        overall.extend(paired.overall.iter().map(|d| cells(d, d.measure)));
        text.push_str(&table(2, &overall));
        if paired.structures.len() > 1 {
            let mut centres = vec![head("centre error")];
            let of = |list: &[Difference], name: &str| {
                list.iter().find(|d| d.measure == "centre error").map(|d| cells(d, name))
            };
            centres
                .extend(paired.structures.iter().filter_map(|s| of(&s.differences, &s.structure)));
            centres.extend(paired.boxes.iter().filter_map(|list| of(list, "(boxes)")));
            centres.extend(paired.landmarks.iter().filter_map(|list| of(list, "(landmarks)")));
            text.push_str(&format!("\n{}", table(2, &centres)));
        }
        text.push('\n');
        for difference in
            paired.overall.iter().filter(|d| ["centre error", "right"].contains(&d.measure))
        {
            text.push_str(&format!("{}\n", sentence(difference)));
        }
        if paired.cases < FEW_CASES {
            text.push_str(&format!(
                "With fewer than {FEW_CASES} cases intervals are too narrow: take them as hints.\n"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(better: Option<&'static str>, interval: Option<(f64, f64)>) -> Difference {
        Difference {
            measure: "centre error",
            unit: "mm",
            lower_is_better: true,
            cases: 20,
            pairs: 40,
            mean_a: 3.0,
            mean_b: 2.55,
            difference: -0.45,
            interval: interval.map(|(low, high)| Interval { low, high }),
            better,
        }
    }

    #[test]
    fn a_difference_is_told_and_noise_is_not() {
        let better = sentence(&difference(Some("b"), Some((-0.5, -0.4))));
        assert!(better.starts_with("centre error: B is better, 0.450 mm lower than A"), "{better}");
        let noise = sentence(&difference(None, Some((-1.0, 0.1))));
        assert!(noise.contains("cannot tell which is better (95 % interval"), "{noise}");
        let same = sentence(&difference(None, Some((0.0, 0.0))));
        assert!(same.contains("the same in every case"), "{same}");
        assert!(sentence(&difference(None, None)).contains("one case cannot tell"));
    }
}
