//! Commands within another program, such as a Python interpreter.

use std::fmt;

/// Who runs a command within another program: is told how far it is, in place of a person at a
/// terminal, and may end it, in place of Ctrl-C.
pub trait Host: Send + Sync + fmt::Debug {
    /// So much of the whole is done, 0 to 1, and this is being worked on.
    fn progress(&self, what: &str, done: f64);

    /// What a person should look at, although the command goes on.
    fn warning(&self, text: &str);

    /// Whether the command is to stop at its next step.
    fn interrupted(&self) -> bool;
}
