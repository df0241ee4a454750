//! Channels of scans in files of their own, numbered as nnU-Net numbers them: `scan_0000.nii.gz`,
//! `scan_0001.nii.gz`, ….

use super::notes::Notes;
use super::scans::Scan;
use pbt_volume::MOST_CHANNELS;

/// Makes the files of further channels part of each scan, where all scans have the same.
pub(super) fn join(scans: &mut [Scan], notes: &mut Notes) {
    let numbers = |scan: &Scan| scan.channels.iter().map(|(n, _)| *n).collect::<Vec<u16>>();
    let files: usize = scans.iter().map(|scan| scan.channels.len()).sum();
    let Some(further) = scans.first().map(numbers).filter(|_| files > 0) else { return };
    let why = if scans.iter().any(|scan| numbers(scan) != further) {
        "not every image has the same".to_owned()
    } else if further.len() >= MOST_CHANNELS {
        format!("an image has at most {MOST_CHANNELS} channels")
    } else {
        let names: Vec<String> =
            std::iter::once(0).chain(further).map(|n| format!("channel_{n}")).collect();
        notes.found.push(format!("{} channels of each image: {}", names.len(), names.join(", ")));
        notes.assumed.push(
            "files that end in _0000, _0001 and so on are channels of one image (`channels` in the file names them)"
                .to_owned(),
        );
        for scan in scans {
            scan.read.channels.clone_from(&names);
            scan.read.further = scan.channels.drain(..).map(|(_, path)| path).collect();
        }
        return;
    };
    notes
        .left_out
        .push(format!("{files} files of further channels (_0001 and so on), since {why}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn scan(numbers: &[u16]) -> Scan {
        let file = |&n: &u16| (n, PathBuf::from(format!("a_{n:04}.nii")));
        Scan { channels: numbers.iter().map(file).collect(), ..Scan::default() }
    }

    #[test]
    fn channels_are_those_that_every_scan_has() {
        let joined = |numbers: &[&[u16]]| {
            let (mut scans, mut notes) =
                (numbers.iter().map(|n| scan(n)).collect::<Vec<_>>(), Notes::default());
            join(&mut scans, &mut notes);
            let last = scans.pop().unwrap().read;
            (last.channels, last.further.len(), notes.left_out.len())
        };
        let names = ["channel_0", "channel_1", "channel_3"].map(str::to_owned).to_vec();
        assert_eq!(joined(&[&[1, 3], &[1, 3]]), (names, 2, 0));
        assert_eq!(joined(&[&[], &[]]), (vec![], 0, 0));
        // The same number of others is not the same.
        assert_eq!(joined(&[&[1], &[2]]), (vec![], 0, 1));
        assert_eq!(joined(&[&[1], &[]]), (vec![], 0, 1));
        let many: Vec<u16> = (1..=MOST_CHANNELS as u16).collect();
        assert_eq!(joined(&[&many, &many]), (vec![], 0, 1));
    }
}
