//! What a user is told about what was found in a folder.

/// Each a list of sentences without a full stop.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) found: Vec<String>,
    pub(super) assumed: Vec<String>,
    pub(super) left_out: Vec<String>,
}

/// So many structures, in words.
pub(super) fn structures_of(count: usize) -> String {
    format!("{count} structure{}", if count == 1 { "" } else { "s" })
}

/// `1 case` or `3 cases`.
pub(super) fn cases_of(count: usize) -> String {
    format!("{count} case{}", if count == 1 { "" } else { "s" })
}

/// `1 image` or `3 images`.
pub(super) fn images_of(count: usize) -> String {
    format!("{count} image{}", if count == 1 { "" } else { "s" })
}

/// The first names of a list, and how many more there are.
pub(super) fn few(names: &[String], between: &str) -> String {
    const MOST: usize = 5;
    let shown = names[..names.len().min(MOST)].join(between);
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
