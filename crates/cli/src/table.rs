//! Tables of text.

/// Rows as lines of aligned columns, the first `left` columns flush left and the others flush
/// right. Columns are as wide as their widest cell in characters; every line ends without blanks.
pub fn table(left: usize, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(column, cell): (usize, &String)| {
            let width = widths[column];
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        let line: Vec<String> = row.iter().enumerate().map(cell).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A row of a [`table`].
pub fn row<T: Into<String>>(cells: impl IntoIterator<Item = T>) -> Vec<String> {
    cells.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows =
            [row(["name", "mm", "°"]), row(["hippocampus", "0.5", "12.25"]), row(["x", "", ""])];
        assert_eq!(table(1, &rows), "name          mm      °\nhippocampus  0.5  12.25\nx\n");
        assert_eq!(table(1, &[]), "");
    }
}
