//! How an image becomes the grid and pyramid on which it is searched.

pub(crate) mod channels;
pub(crate) mod choice;
pub(crate) mod spec;
