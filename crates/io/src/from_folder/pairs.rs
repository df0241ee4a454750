//! Which masks and annotations belong to which image, by their names.

use super::place::{Place, behind};
use std::collections::BTreeMap;

/// Images by their places, to be asked what belongs to them.
pub(super) struct Images<'a> {
    places: &'a [Place],
    by_folder: BTreeMap<&'a [String], Vec<usize>>,
    by_key: BTreeMap<&'a str, Vec<usize>>,
}

/// Whose a file is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// That of this image as a whole.
    Image(usize),
    /// That of this image, and the file names a part.
    Part(usize, String),
    /// Nobody's.
    None,
    /// The names fit several images.
    Several(Vec<usize>),
}

impl<'a> Images<'a> {
    /// Of these places.
    pub(super) fn new(places: &'a [Place]) -> Self {
        let (mut by_folder, mut by_key) = (BTreeMap::new(), BTreeMap::new());
        for (n, place) in places.iter().enumerate() {
            by_folder.entry(&place.folders[..]).or_insert_with(Vec::new).push(n);
            by_key.entry(base(place)).or_insert_with(Vec::new).push(n);
        }
        Self { places, by_folder, by_key }
    }

    fn within(&self, folders: &[String]) -> &[usize] {
        self.by_folder.get(folders).map_or(&[], Vec::as_slice)
    }

    /// Whose a file is: of the image of its name in its folder, or of the image whose name begins its
    /// own, or of the only image of its folder, or of the only image of its name anywhere. Folders that
    /// name a role do not count.
    pub(super) fn owner(&self, place: &Place) -> Owner {
        let here = self.within(&place.folders);
        // An image that is named as the file is goes before one with a channel's number behind it.
        for name in [|place: &Place| place.key.clone(), |place: &Place| base(place).to_owned()] {
            let same: Vec<usize> =
                here.iter().copied().filter(|&n| name(&self.places[n]) == place.key).collect();
            match same[..] {
                [] => {}
                [one] => return Owner::Image(one),
                _ => return Owner::Several(same),
            }
        }
        let start = |n: usize| {
            let names = [&self.places[n].key[..], base(&self.places[n])];
            let rest =
                names.iter().filter_map(|name| behind(&place.key, name)).min_by_key(|r| r.len());
            Some((n, rest?))
        };
        // The longest name: `a_1` goes before `a`.
        let longest = here.iter().filter_map(|&n| start(n)).min_by_key(|(_, rest)| rest.len());
        if let Some((n, rest)) = longest {
            return Owner::Part(n, rest.to_owned());
        }
        let part = |n: usize| match place.key.as_str() {
            "" => Owner::Image(n),
            key => Owner::Part(n, key.to_owned()),
        };
        if let (&[only], false) = (here, place.folders.is_empty()) {
            return part(only);
        }
        // `labels/a/liver.nii` of `images/a.nii`, and `labels/a.nii` of `images/a/scan.nii`.
        if let Some((last, above)) = place.folders.split_last() {
            let named: Vec<usize> = self
                .within(above)
                .iter()
                .copied()
                .filter(|&n| base(&self.places[n]) == last.as_str())
                .collect();
            if let [only] = named[..] {
                return part(only);
            }
        }
        let below = [&place.folders[..], std::slice::from_ref(&place.key)].concat();
        if let [only] = self.within(&below)[..] {
            return Owner::Image(only);
        }
        match self.by_key.get(place.key.as_str()).filter(|_| !place.key.is_empty()) {
            None => Owner::None,
            Some(all) => match all[..] {
                [only] => Owner::Image(only),
                _ => Owner::Several(all.clone()),
            },
        }
    }

    /// Of a further channel (`_0001`) the image of the first channel, if that is there, too, and the number.
    pub(super) fn channel(&self, image: usize) -> Option<(usize, u16)> {
        let place = &self.places[image];
        let (name, number) = place.key.rsplit_once('_')?;
        let is_number = number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit());
        let number = number.parse().ok().filter(|&number| is_number && number > 0)?;
        let is_first = |n: &usize| {
            let other = &self.places[*n];
            other.folders == place.folders && other.key.len() == place.key.len()
        };
        let first = self.by_key.get(name)?.iter().copied().find(is_first)?;
        Some((first, number))
    }
}

/// The name of an image without nnU-Net's number of the first channel.
pub(super) fn base(place: &Place) -> &str {
    place.key.strip_suffix("_0000").unwrap_or(&place.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn place(path: &str) -> Place {
        let stem = path.rsplit('/').next().unwrap().split('.').next().unwrap();
        Place::new(Path::new(path), stem)
    }

    #[test]
    fn files_belong_to_the_image_that_their_names_say() {
        let part = |n, name: &str| Owner::Part(n, name.to_owned());
        for (images, file, owner) in [
            (&["a.nii", "b.nii"] as &[&str], "b_seg.nii", Owner::Image(1)),
            (&["images/a.nii", "images/b.nii"], "labels/b.nii", Owner::Image(1)),
            (&["a.nii", "a_1.nii"], "a_1_liver_mask.nii", part(1, "liver")),
            (&["imagesTr/a_0000.nii"], "labelsTr/a.nii", Owner::Image(0)),
            // Four digits that are no channel.
            (&["images/a_0000.nii", "images/a_0001.nii"], "labels/a_0001.nii", Owner::Image(1)),
            (&["s1/ct.nii", "s2/ct.nii"], "s2/segmentations/liver.nii", part(1, "liver")),
            (&["s1/image.nii", "s2/image.nii"], "s2/mask.nii", Owner::Image(1)),
            (&["images/s1.nii", "images/s2.nii"], "labels/s2/liver.nii", part(1, "liver")),
            (&["images/s1/scan.nii", "images/s2/scan.nii"], "labels/s2.nii", Owner::Image(1)),
            (&["ct/a.nii", "ct/b.nii"], "labels/b.nii", Owner::Image(1)),
            (&["ct/a.nii", "mr/a.nii"], "labels/a.nii", Owner::Several(vec![0, 1])),
            (&["a.nii", "a.mha"], "a_seg.nii", Owner::Several(vec![0, 1])),
            (&["a.nii"], "b_seg.nii", Owner::None),
        ] {
            let places: Vec<Place> = images.iter().map(|path| place(path)).collect();
            assert_eq!(Images::new(&places).owner(&place(file)), owner, "{file}");
        }
    }

    #[test]
    fn further_channels_have_a_first_one() {
        let places = ["a_0000.nii", "a_0001.nii", "b_0001.nii", "a_0012.nii"].map(place);
        let images = Images::new(&places);
        let expected = [None, Some((0, 1)), None, Some((0, 12))];
        assert_eq!([0, 1, 2, 3].map(|n| images.channel(n)), expected);
    }
}
