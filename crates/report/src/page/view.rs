//! What a page shows, whatever it is about, and the template that shows it.

use crate::encode::base64;
use crate::niivue;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, context};
use pbt_volume::sha256;
use serde::Serialize;

/// A page that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the page could not be made: {0}")]
pub struct PageError(#[from] minijinja::Error);

/// A page.
#[derive(Debug, Default, Serialize)]
pub(crate) struct View {
    pub(crate) title: String,
    /// What was measured with what, as name and value.
    pub(crate) about: Vec<(String, String)>,
    /// What all cases have in common that a reader must know.
    pub(crate) notes: Vec<String>,
    /// The figures to see first.
    pub(crate) facts: Vec<Fact>,
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    /// In the order in which they should be looked at.
    pub(crate) cases: Vec<CaseView>,
    /// Why that is the order.
    pub(crate) order: String,
    /// What there is to say of the viewer, where one was asked for.
    pub(crate) viewer: Option<String>,
}

/// What shows a case in three dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Viewer {
    /// Nothing.
    #[default]
    None,
    /// NiiVue, which the page then carries.
    NiiVue,
}

/// A number to see first.
#[derive(Debug, Serialize)]
pub(crate) struct Fact {
    pub(crate) value: String,
    pub(crate) name: String,
}

/// A table that the reader can sort by its columns.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Without these columns where no row has a number in them.
    pub(crate) fn without_empty(mut self, titles: &[&str]) -> Self {
        let is_empty = |n: usize| self.rows.iter().all(|row| row[n].number.is_none());
        let kept: Vec<bool> = (self.columns.iter().enumerate())
            .map(|(n, title)| !(titles.contains(title) && is_empty(n)))
            .collect();
        let mut keep = kept.iter();
        self.columns.retain(|_| keep.next() == Some(&true));
        for row in &mut self.rows {
            let mut keep = kept.iter();
            row.retain(|_| keep.next() == Some(&true));
        }
        self
    }
}

/// A cell: its text, and the number that it is sorted by, where it is one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) number: Option<f64>,
    /// A class of the style sheet.
    pub(crate) class: &'static str,
}

/// A chart as SVG without scripts, and what it shows.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) svg: String,
    pub(crate) note: String,
}

/// A case.
#[derive(Debug, Serialize)]
pub(crate) struct CaseView {
    pub(crate) name: String,
    /// One of `good`, `unsure` and `bad`.
    pub(crate) class: &'static str,
    /// What there is to say of it in a few words.
    pub(crate) summary: String,
    pub(crate) notes: Vec<String>,
    pub(crate) table: Table,
    /// SVG that this crate has drawn.
    pub(crate) picture: Option<String>,
    /// The scene for the viewer, as JSON without `<`.
    pub(crate) scene: Option<String>,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), number: None, class: "" }
    }

    /// A number with so many decimals; a dash where there is none.
    pub(crate) fn number(number: Option<f64>, decimals: usize) -> Self {
        let text = number.map_or_else(|| "–".to_owned(), |n| format!("{n:.decimals$}"));
        Self { text, number, class: "number" }
    }

    pub(crate) fn count(count: usize) -> Self {
        Self::number(Some(count as f64), 0)
    }

    pub(crate) fn of_class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

const TEMPLATE: &str = include_str!("../../assets/page.html");
const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
const VIEWER_STYLE: &str = include_str!("../../assets/viewer.css");
/// One script, whose names nothing else in the page sees.
const VIEWER_SCRIPT: &str = concat!(
    "\"use strict\";\n{\n",
    include_str!("../../assets/marks.js"),
    include_str!("../../assets/viewer.js"),
    "}\n"
);

/// What the viewer adds to a page, beside the scenes.
pub(crate) const VIEWER_BYTES: usize =
    niivue::packed_length() + niivue::LICENCES.len() + VIEWER_SCRIPT.len() + VIEWER_STYLE.len();

impl View {
    /// The page. Names are shown as text whatever they hold; the browser is told to run these
    /// scripts alone, each known by its hash, and to load nothing. Where a case has a scene, the page
    /// carries the viewer, which stays packed until a reader opens one.
    pub(crate) fn html(&self) -> Result<String, PageError> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.add_template("page.html", TEMPLATE)?;
        let hash = |script: &str| base64(&sha256(&[script.as_bytes()]));
        let viewer = self.cases.iter().any(|case| case.scene.is_some()).then(|| {
            context! {
                style => VIEWER_STYLE,
                script => VIEWER_SCRIPT,
                hashes => [hash(VIEWER_SCRIPT), niivue::script_hash()],
                library => niivue::packed_script(),
                licences => niivue::LICENCES,
            }
        });
        let page = context! {
            view => Value::from(Serde(self)),
            style => STYLE,
            script => SCRIPT,
            script_hash => hash(SCRIPT),
            viewer,
        };
        Ok(environment.get_template("page.html")?.render(page)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_a_number_are_left_out_where_that_is_wanted() {
        let row = |volume: Option<f64>| {
            vec![Cell::text("a"), Cell::number(volume, 1), Cell::number(None, 1)]
        };
        let table = |rows: Vec<Vec<Cell>>| Table {
            title: String::new(),
            columns: vec!["name", "volume", "radius"],
            rows,
        };
        let without = table(vec![row(None), row(None)]).without_empty(&["volume"]);
        assert_eq!(without.columns, ["name", "radius"]);
        assert!(without.rows.iter().all(|row| row.len() == 2));
        let with = table(vec![row(None), row(Some(2.0))]).without_empty(&["volume"]);
        assert_eq!((with.columns.len(), with.rows[0].len()), (3, 3));
    }

    #[test]
    fn the_browser_may_run_this_script_alone_and_text_stays_text() {
        let cell = Cell::text("</td><img src=x onerror=alert(1)>");
        let view = View {
            title: "a < b & \"c\"".to_owned(),
            tables: vec![Table {
                title: String::new(),
                columns: vec!["name"],
                rows: vec![vec![cell, Cell::number(None, 2), Cell::number(Some(0.25), 1)]],
            }],
            ..View::default()
        };
        let page = view.html().unwrap();
        assert!(page.contains("<h1>a &lt; b &amp; &quot;c&quot;</h1>"));
        assert!(!page.contains("<img") && page.contains("data-number=\"0.25\">0.2<"));
        let (_, rest) = page.split_once("<script>").unwrap();
        let (script, _) = rest.split_once("</script>").unwrap();
        let hash = base64(&sha256(&[script.as_bytes()]));
        assert!(
            page.contains(&format!("script-src 'sha256-{}'", hash.replace('/', "&#x2f;")))
                || page.contains(&format!("script-src 'sha256-{hash}'"))
        );
    }
}
