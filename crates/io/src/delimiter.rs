//! What parts the columns of a table that is text.

use std::path::Path;

/// The character between the cells of a table with this header: a tab in `.tsv` files, a semicolon where the
/// header has one and no comma, since spreadsheets part columns by these where the decimal sign is a comma,
/// or else a comma.
pub fn delimiter(path: &Path, header: &str) -> u8 {
    if header.contains(';') && !header.contains(',') {
        b';'
    } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv")) {
        b'\t'
    } else {
        b','
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_parted_by_what_the_header_has() {
        let of = |file: &str, header: &str| char::from(delimiter(Path::new(file), header));
        assert_eq!(of("a.csv", "case_id,path"), ',');
        assert_eq!(of("a.csv", "case_id;path"), ';');
        assert_eq!(of("a.csv", "case_id,path;old"), ',');
        assert_eq!(of("a.TSV", "case_id\tpath"), '\t');
    }
}
