//! Binary entry point: passes the command line and the environment to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul::cli::main(std::env::args_os(), std::env::vars_os())
}
