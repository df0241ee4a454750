//! The models of phantoms, which are in the program itself: they need neither data nor files.

/// A model with its card.
#[derive(Debug)]
pub struct BuiltInModel {
    /// By which it is asked for.
    pub name: &'static str,
    /// The model file.
    pub bytes: &'static [u8],
    /// Its card for people, in Markdown.
    pub card: &'static str,
    /// Its card for programs, in JSON.
    pub record: &'static str,
}

macro_rules! built_in {
    ($name:literal) => {
        BuiltInModel {
            name: $name,
            bytes: include_bytes!(concat!("../../../../models/", $name, ".pbt")),
            card: include_str!(concat!("../../../../models/", $name, ".md")),
            record: include_str!(concat!("../../../../models/", $name, ".json")),
        }
    };
}

/// All of them. `cargo xtask models` makes the files.
pub static BUILT_IN_MODELS: [BuiltInModel; 3] =
    [built_in!("phantom-ct"), built_in!("phantom-mr"), built_in!("phantom-us")];
