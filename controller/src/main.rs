//! The program `controller`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    controller::app::run(controller::args::parse(std::env::args_os()))
}
