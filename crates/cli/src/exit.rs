//! The documented exit codes.

/// Done.
pub const DONE: u8 = 0;
/// Something went wrong.
pub const FAILURE: u8 = 1;
/// The command was not used as documented.
pub const USAGE: u8 = 2;
/// A batch or an evaluation is done, but some cases failed.
pub const SOME_FAILED: u8 = 3;
/// An input cannot be read or is invalid.
pub const INPUT: u8 = 4;
/// A model is rejected.
pub const MODEL: u8 = 5;
/// The device is not there.
pub const DEVICE: u8 = 6;
/// What shells report for a command that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// The same in the help.
pub const HELP: &str = "Exit codes: 0 done, 1 failure, 2 usage, 3 batch, merge or evaluation finished but some cases failed, 4 input unreadable or invalid, \
5 model rejected, 6 device not available, 130 ended with Ctrl-C.";
