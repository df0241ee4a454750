//! Errors of the TOML reader in words that name the key.

use pbt_volume::nearest;
use toml::Spanned;
use toml::de::DeValue;

/// The key whose name or value stands at a place of the text, the innermost one:
/// `refinement.passes[1].shift`.
pub(super) fn key_at(value: &DeValue<'_>, at: usize) -> Option<String> {
    let found = |name: String, value: &Spanned<DeValue<'_>>, is_here: bool| match key_at(
        value.get_ref(),
        at,
    ) {
        // What is in a list goes on with its number, without a dot.
        Some(rest) if rest.starts_with('[') => Some(name + &rest),
        Some(rest) => Some(format!("{name}.{rest}")),
        None => (is_here || value.span().contains(&at)).then_some(name),
    };
    match value {
        DeValue::Table(table) => table.iter().find_map(|(key, value)| {
            found(key.get_ref().to_string(), value, key.span().contains(&at))
        }),
        DeValue::Array(items) => {
            items.iter().enumerate().find_map(|(n, item)| found(format!("[{n}]"), item, false))
        }
        _ => None,
    }
}

/// An unknown key with the one that was probably meant, or, where there is none, with all that are known.
fn unknown_key(message: &str) -> Option<String> {
    let mut words = message.strip_prefix("unknown field `")?.split('`');
    let slip = words.next()?;
    // Every second piece is between backticks: ", expected one of `", "a", "`, `", "b".
    let known: Vec<&str> = words.skip(1).step_by(2).collect();
    let meant = nearest(slip, known.iter().copied())?;
    Some(format!("unknown key; did you mean `{meant}`?"))
}

/// An error of the TOML reader on one line, with the type that it expects in words.
pub(super) fn in_words(message: &str) -> String {
    let message = message.replace('\n', " ");
    if let Some(better) = unknown_key(&message) {
        return better;
    }
    let Some((found, expected)) = message.rsplit_once("expected ") else { return message };
    let expected = match expected {
        "usize" | "u64" | "u32" => "a whole number from 0 on",
        "u8" => "a whole number from 0 to 255",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    format!("{found}expected {expected}")
}
