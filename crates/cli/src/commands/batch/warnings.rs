//! What the results of a batch warn of: each warning once, however many cases have it.

/// So many are told; the results have all.
const TOLD: usize = 10;

/// Warnings, with the cases that have them.
#[derive(Default)]
pub(super) struct Warnings(Vec<Warning>);

struct Warning {
    text: String,
    /// The first case that has it.
    case: String,
    cases: usize,
}

impl Warnings {
    /// Adds those of a case. Of what it says twice one counts.
    pub(super) fn add(&mut self, case: &str, warnings: &[String]) {
        for (n, text) in warnings.iter().enumerate() {
            if warnings[..n].contains(text) {
                continue;
            }
            match self.0.iter_mut().find(|known| known.text == *text) {
                Some(known) => known.cases += 1,
                None => {
                    self.0.push(Warning { text: text.clone(), case: case.to_owned(), cases: 1 })
                }
            }
        }
    }

    /// What there is to say, that of most cases first.
    pub(super) fn lines(mut self) -> Vec<String> {
        self.0.sort_by_key(|warning| std::cmp::Reverse(warning.cases));
        let left_out = self.0.len().saturating_sub(TOLD);
        let line = |Warning { text, case, cases }| match cases {
            1 => format!("{case}: {text}"),
            _ => format!("{text} ({cases} cases)"),
        };
        let mut lines: Vec<String> = self.0.into_iter().take(TOLD).map(line).collect();
        if left_out > 0 {
            lines.push(format!(
                "{left_out} more are in the results (each with its case in CASE.json)"
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_of_many_cases_is_said_once() {
        let mut warnings = Warnings::default();
        let text = |text: &str| text.to_owned();
        warnings.add("a", &[text("cut"), text("unmeasured"), text("cut")]);
        warnings.add("b", &[text("unmeasured")]);
        warnings.add("c", &[]);
        assert_eq!(warnings.lines(), ["unmeasured (2 cases)", "a: cut"]);
        let mut many = Warnings::default();
        (0..TOLD + 2).for_each(|n| many.add("a", &[n.to_string()]));
        let lines = many.lines();
        assert_eq!((lines.len(), &lines[0][..]), (TOLD + 1, "a: 0"));
        assert!(lines[TOLD].starts_with("2 more"), "{}", lines[TOLD]);
    }
}
