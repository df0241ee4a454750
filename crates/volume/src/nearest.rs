//! Which of the known words was probably meant by one that is not known.

/// From here on, on the scale of Jaro's similarity, a word may be a slip for another one. `clap`, which
/// does the same for options, takes 0.7, and its words are longer than names of keys.
const ALIKE: f64 = 0.8;

/// Of shorter words any other may be meant.
const SHORTEST: usize = 3;

/// The word that is most like another one, if any is alike enough; of several as much alike the first.
/// Capitals do not count.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    if word.chars().count() < SHORTEST {
        return None;
    }
    let mut best: Option<(f64, &str)> = None;
    for candidate in known {
        let alike = strsim::jaro(&word, &candidate.to_lowercase());
        if alike > best.map_or(ALIKE, |(most, _)| most) {
            best = Some((alike, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `; did you mean X?` with X in backticks, or nothing: to be put behind what is wrong with a word.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or(String::new(), |meant| format!("; did you mean `{meant}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_near_and_other_words_are_not() {
        let keys =
            ["schema", "name", "modality", "structures", "labels", "cases", "split", "image"];
        for (slip, meant) in [
            ("modalty", Some("modality")),
            ("Modality", Some("modality")),
            ("strucures", Some("structures")),
            ("label", Some("labels")),
            ("lables", Some("labels")),
            ("slpit", Some("split")),
            ("case", Some("cases")),
            ("comment", None),
            ("author", None),
            ("", None),
        ] {
            assert_eq!(nearest(slip, keys), meant, "{slip}");
        }
        assert_eq!(nearest("leftparotid", ["RightParotid", "LeftParotid"]), Some("LeftParotid"));
        assert_eq!(nearest("train", ["test", "dev"]), None);
        assert_eq!(nearest("13", ["1", "2"]), None);
        assert_eq!(did_you_mean("tset", ["train", "test"]), "; did you mean `test`?");
        assert_eq!(did_you_mean("fold-1", ["train", "test"]), "");
    }
}
