//! What is a comment in a table, and what is a row.

/// The text of a table without its comments, line by line: lines that begin with `#`, before the header,
/// and behind it where they have not as many columns as the header. A row may begin so, too, because names
/// do.
pub(crate) fn without_comments(text: &str, delimiter: u8) -> String {
    let columns = |line: &str| {
        let mut reader = csv::ReaderBuilder::new();
        let reader = reader.has_headers(false).delimiter(delimiter);
        reader.from_reader(line.as_bytes()).records().next()?.ok().map(|record| record.len())
    };
    let mut of_header = None;
    let mut kept = |line: &str| {
        if line.starts_with('#') {
            return of_header.is_some() && columns(line) == of_header;
        }
        if of_header.is_none() {
            of_header = columns(line);
        }
        true
    };
    // Empty lines stay, since messages count lines.
    let end = |line: &str| if line.ends_with('\n') { "\n" } else { "" };
    text.split_inclusive('\n').map(|line| if kept(line) { line } else { end(line) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_no_comments() {
        for (text, delimiter, expected) in [
            ("# a, b\n\n#1,2\na,b\n#1,2\n# made by hand\n", b',', "\n\n\na,b\n#1,2\n\n"),
            ("a,b\n#1,\"2,3\"\n#1,2,3", b',', "a,b\n#1,\"2,3\"\n"),
            ("a\tb\r\n#1\t2\r\n#1,2\r\n", b'\t', "a\tb\r\n#1\t2\r\n\n"),
        ] {
            assert_eq!(without_comments(text, delimiter), expected);
        }
    }
}
