//! Loading and launching kernels.

use cudarc::driver::LaunchConfig;

/// Blocks of `threads` threads for `n` threads in all.
pub(crate) fn blocks_of(threads: u32, n: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (n.div_ceil(threads as usize).max(1) as u32, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// The module that was compiled from `kernels/NAME.cu`: `module!(context, "NAME")`.
macro_rules! module {
    ($context:expr, $name:literal) => {
        $context.cuda.load_module(cudarc::nvrtc::Ptx::from_src(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/kernels/",
            $name,
            ".ptx"
        ))))
    };
}
pub(crate) use module;

/// Launches a kernel: `launch!(context, function, config, arguments …)`, the arguments as
/// references.
macro_rules! launch {
    ($context:expr, $function:expr, $config:expr, $($argument:expr),+ $(,)?) => {{
        use cudarc::driver::PushKernelArg;
        // SAFETY: the arguments are those of the kernel, in its order, and the buffers have the
        // sizes that it expects; the tests on the device run under compute-sanitizer.
        unsafe { $context.stream.launch_builder($function)$(.arg($argument))+.launch($config) }.map(|_| ()).map_err($crate::GpuError::from)
    }};
}
pub(crate) use launch;
