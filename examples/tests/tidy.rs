//! What must not drift apart.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_readmes_quick_start_is_the_example() {
    let readme = read("README.md");
    let after = readme.split("```rust\n").nth(1).expect("the README has a Rust block");
    let example = read("examples/quickstart/main.rs");
    let (_, code) = example.split_once("\n\n").expect("a line of documentation stands in front");
    assert_eq!(after.split("```").next(), Some(code));
}

#[test]
fn every_example_is_listed() {
    let (manifest, listed) = (read("examples/Cargo.toml"), read("examples/README.md"));
    let names: Vec<&str> = manifest.split("[[example]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 2, "{names:?}");
    names.iter().for_each(|name| assert!(listed.contains(&format!("`{name}`")), "{name} is not in examples/README.md"));
}
