//! `train-pbt`: the same as `pbt train`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pbt::main_of_train_pbt()
}
