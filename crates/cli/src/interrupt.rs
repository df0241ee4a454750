//! Ctrl-C: once, and the command stops at its next step; twice, and it ends at once.

use crate::args::Global;
use crate::exit;
use crate::host::Host;
use crate::output::tell;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on the first Ctrl-C asks the running command to stop at its next step, the second ends
/// the process. Within another program that is for the host to say.
pub(crate) fn catch_interrupts(global: &Global) {
    if global.host.is_some() {
        return;
    }
    // Only the first call of a process can set the handler; others find it in place.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
        tell(
            "\nstopping after the current step; press Ctrl-C again to stop at once (what is written is kept either way)",
        );
    });
}

/// Whether Ctrl-C was pressed since [`catch_interrupts`], or the host ends the command.
pub(crate) fn interrupted(host: Option<&dyn Host>) -> bool {
    host.map_or_else(|| INTERRUPTED.load(Ordering::SeqCst), Host::interrupted)
}
