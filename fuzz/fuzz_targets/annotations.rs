//! Markups and tables of landmarks: the first byte chooses the format, the rest is the file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let names = ["a.mrk.json", "a.fcsv", "a.csv", "a.tsv"];
    let _ =
        pbt_io::read_annotations(&pbt_fuzz::file(names[usize::from(*first) % names.len()], bytes));
});
