//! `pbt`
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pbt::main()
}
