//! What teaches: `--help`, completions, manual pages.

use crate::support::{pbt, program, scratch, text, tiny};
use std::process::Command;

const COMMANDS: [&str; 16] = [
    "demo",
    "init",
    "train",
    "detect",
    "batch",
    "merge",
    "evaluate",
    "learning-curve",
    "info",
    "doctor",
    "validate",
    "convert",
    "components",
    "report",
    "completions",
    "man",
];

#[test]
fn every_command_explains_itself_with_examples() {
    let all = pbt(["--help"]).exits_with(0).stdout;
    assert!(all.contains("Exit codes: 0 done"));
    for command in COMMANDS {
        assert!(
            all.lines().any(|line| line.trim_start().starts_with(command)),
            "{command} is not listed"
        );
        let help = pbt([command, "--help"]).exits_with(0).stdout;
        assert!(
            help.contains("Example") && help.contains(&format!("\n  pbt {command}")),
            "{command} has no example:\n{help}"
        );
        assert!(pbt(["help", command]).exits_with(0).stdout.contains("Usage: pbt"));
    }
    // Without a command, the help says what there is.
    assert!(pbt([] as [&str; 0]).exits_with(2).stderr.contains("Usage: pbt"));
}

#[test]
fn wrong_arguments_are_one_line() {
    for (arguments, expected) in [
        (
            &["detect", "--modle", "m.pbt"] as &[&str],
            "unexpected argument '--modle' found (a similar argument exists: '--model')",
        ),
        (
            &["train", "wings", "-o", "w.pbt"],
            "unexpected argument 'wings' found (write -i wings, if it is the input; see --help)",
        ),
        (&["convert", "a.nii", "b.nii", "c"], "unexpected argument 'c' found (see --help)"),
        (&["detcet"], "unrecognized subcommand 'detcet' (a similar subcommand exists: 'detect')"),
        (&["help", "nothing"], "unrecognized subcommand 'nothing' (see --help)"),
        (
            &["detect"],
            "required arguments were not provided: --model <MODEL.pbt>, --input <IMAGE>, --output <FOLDER> (see --help)",
        ),
        (
            &["demo", "--modality", "ctt"],
            "'--modality <MODALITY>' [possible values: ct, mr, us] (a similar value exists: 'ct')",
        ),
        (
            &["demo", "--cases", "1"],
            "invalid value '1' for '--cases <N>': 1 is not in 2..=500 (see --help)",
        ),
        (
            &["train", "-i", ".", "-o", "m.pbt", "--cases", "-3"],
            "invalid value '-3' for '--cases <N>': expected a whole number from 1 on (see --help)",
        ),
        (
            &["train", "-i", ".", "-o", "m.pbt", "--cases", "0"],
            "invalid value '0' for '--cases <N>': expected a whole number from 1 on (see --help)",
        ),
        (
            &["train", "-i", ".", "-o", "m.pbt", "--seed", "abc"],
            "invalid value 'abc' for '--seed <S>': a seed is a whole number from 0 to ",
        ),
        (
            &["evaluate", "-m", "m.pbt", "-i", ".", "--tolerance", "-1"],
            "invalid value '-1' for '--tolerance <MM>': expected a length in mm above 0 (see --help)",
        ),
        (
            &["evaluate", "--leave-one-out", "-i", ".", "--cases", "2.5"],
            "invalid value '2.5' for '--cases <N>': expected a whole number from 1 on (see --help)",
        ),
        (
            &["report", "found", "-o", "page.html", "--pictures", "-1"],
            "invalid value '-1' for '--pictures <N>': expected a whole number from 0 on (see --help)",
        ),
        (
            &["convert", "a.nii", "b.nii", "--frame", "-1"],
            "'--frame <N>': expected the number of a time point, from 0 on (see --help)",
        ),
        (
            &["learning-curve", "-i", ".", "--sizes", "5,-1"],
            "'--sizes <N,N,...>': expected a whole number from 1 on (see --help)",
        ),
        (
            &["tune", "-i", ".", "-o", "t.toml", "--vary", "a=1", "--seed", "-1"],
            "invalid value '-1' for '--seed <S>': a seed is a whole number from 0 to ",
        ),
        (
            &["tune", "-i", ".", "-o", "t.toml", "--vary", "a=1", "--cases", "0"],
            "invalid value '0' for '--cases <N>': expected a whole number from 1 on (see --help)",
        ),
        (
            &["tune", "-i", ".", "-o", "t.toml", "--vary", "a=1", "--folds", "-2"],
            "invalid value '-2' for '--folds <N>': -2 is not in 2..=100 (see --help)",
        ),
        (
            &["evaluate", "-i", ".", "--folds", "-2"],
            "invalid value '-2' for '--folds <N>': -2 is not in 2..=1000 (see --help)",
        ),
        (
            &["detect", "-m", "m", "-i", "i", "-o", "o", "--crop", "x", "--margin-mm", "-2"],
            "invalid value '-2' for '--margin-mm <MM>': expected a number from 0 on (see --help)",
        ),
        (
            &["info", "--devices", "--threads", "-1"],
            "invalid value '-1' for '--threads <N>': -1 is not in 1..=1024 (see --help)",
        ),
        (
            &["demo", "-q", "-v"],
            "the argument '--quiet' cannot be used with '--verbose' (see --help)",
        ),
        (
            &["-q"],
            "requires a subcommand but one was not provided [subcommands: demo, init, train, ",
        ),
    ] {
        let outcome = pbt(arguments).exits_with(2);
        assert!(
            outcome.error_line().contains(expected) && outcome.stderr.lines().count() == 1,
            "{arguments:?}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stdout, "");
    }
    let output = Command::new(program("train-pbt")).args(["-i", "."]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "error: the following required arguments were not provided: --output <MODEL.pbt> (see --help)\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

#[test]
fn too_few_cases_are_the_fault_of_the_option() {
    let data = text(tiny().folder());
    let out = scratch();
    let model = out.path().join("m.pbt");
    let training = pbt(["train", "-i", data, "-o", text(&model), "--cases", "1"]).exits_with(2);
    assert!(training.error_line().contains("--cases: 1 is too few"), "{}", training.error_line());
    let turns = pbt(["evaluate", "--leave-one-out", "-i", data, "--cases", "2"]).exits_with(2);
    assert!(turns.error_line().contains("--cases: "), "{}", turns.error_line());
}

#[test]
fn train_pbt_is_pbt_train() {
    let run = |name: &str, arguments: &[&str]| {
        let output = Command::new(program(name)).args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let options = |help: String| help.split_once("Options:").unwrap().1.to_owned();
    assert_eq!(options(run("train-pbt", &["--help"])), options(run("pbt", &["train", "--help"])));
}

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = pbt(["completions", shell]).exits_with(0).stdout;
        for word in COMMANDS.iter().chain(&["leave-one-out"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    pbt(["completions", "dos"]).exits_with(2);
}

#[test]
fn manual_pages_are_printed_and_written() {
    assert!(pbt(["man"]).exits_with(0).stdout.contains(".TH pbt 1"));
    let folder = scratch();
    let pages = folder.path().join("man1");
    pbt(["man".as_ref(), "-o".as_ref(), pages.as_os_str()]).exits_with(0);
    let page = |name: &str| {
        std::fs::read_to_string(pages.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    assert!(page("train-pbt.1").contains("checkpoint") || page("train-pbt.1").contains("resume"));
    for command in COMMANDS {
        assert!(
            page(&format!("pbt-{command}.1")).contains("EXTRA"),
            "{command}: examples are missing"
        );
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    pbt(["man".as_ref(), "-o".as_ref(), file.as_os_str()]).exits_with(1).error_line();
}
