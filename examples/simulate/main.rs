//! Plays a fleet in virtual time. See `--help`.

use clap::Parser;
use kv_examples::simulate::{Options, compare, table};

fn main() {
    let options = Options::parse();
    let first = options.seeds.all().next().unwrap_or_default();
    let scenes = options.scenes(first);
    if scenes.is_empty() {
        eprintln!("no scene has {:?} in its name", options.scene);
        std::process::exit(2);
    }
    println!("{} seeds from {first}", options.seeds.all().count());
    for scene in scenes {
        println!("\n{}: {} (about {} requests)", scene.name, scene.shows, scene.arrivals.len());
        print!("{}", table(&compare(&options, scene.name)));
    }
}
