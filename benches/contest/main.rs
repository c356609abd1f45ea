//! The contest as a benchmark program. See `--help`, and the README for the method.

use contest::measure::alloc::Counting;
use contest::runner;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> std::process::ExitCode {
    runner::main()
}
