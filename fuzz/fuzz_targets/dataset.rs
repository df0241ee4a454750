//! Data sets, tables of names in BIDS folders, and results.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = pbt_fuzz::file("dataset.json", bytes);
    let _ = pbt_io::Dataset::load_with_faults(&path);
    let _ = pbt_io::read_result(&path);
    for file in ["bids/sub-1/sub-1_T1w.nii", "bids/sub-1/sub-1_dseg.nii"] {
        pbt_fuzz::file(file, b"");
    }
    let description =
        pbt_fuzz::file("bids/dataset_description.json", br#"{"BIDSVersion": "1.10.0"}"#);
    pbt_fuzz::file("bids/dseg.tsv", bytes);
    let _ = pbt_io::Dataset::load_with_faults(&description);
});
