//! The lists in `kv-events/tests/README.md` and `kv-routing/tests/README.md`: every test that they name is there, says whose complaint it
//! answers, and none that is owed is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What each crate owes: complaints of `complaints.md`, and defects of section 10 of `behaviour.md`, as `#n`.
const EVENTS: &str = "R1 R2 R3 R4 R6 D9 D10 D11 D12 D13 D14 D15 D16 D17 D18 D19 D26 P1 P2 P4 P11 P13 P14 P19 P20 P22 P23 P25 P27 P32 P33 \
                      P34 P37 #3 #6 #7 #10 #19 #20 #21 #22 #23";
const ROUTING: &str = "D27 D28 D29 D30 D31 D32 D33 D34 D35 D36 #9 #11 #12 #24 #25 #26 #27 #28 #29 #30 #31 #33 #34";

/// The rows of the list: an id, and the files and names of its tests.
fn rows(readme: &str) -> Vec<(&str, Vec<(&str, &str)>)> {
    let row = |line| {
        let mut cells = str::split(line, '|').map(str::trim).skip(1);
        let (id, _, tests) = (cells.next()?, cells.next()?, cells.next()?);
        let tests: Vec<_> = tests.split('`').filter_map(|test| test.rsplit_once("::")).collect();
        (!tests.is_empty()).then_some((id, tests))
    };
    readme.lines().filter_map(row).collect()
}

/// The comment, the attributes and the body of the test `name` in `source`.
fn text_of<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let at = [format!("fn {name}("), format!("fn {name} (")].iter().find_map(|start| source.find(start.as_str()))?;
    let start = source[..at].rfind("\n\n").unwrap_or_default();
    let end = source[at..].find("\n\n").map_or(source.len(), |end| at + end);
    // A body may have blank lines in it: what is cited stands in front of it, or near its start.
    source.get(start..end).filter(|text| text.contains("test"))
}

/// A defect is cited as `#9`, or in words.
fn cites(text: &str, id: &str) -> bool {
    let is_part = |symbol: char| symbol.is_alphanumeric() || symbol == '#';
    text.replace("Defect ", "#").replace("defect ", "#").split(|symbol| !is_part(symbol)).any(|word| word == id)
}

#[test]
fn every_complaint_that_is_owed_has_a_test_that_cites_it() {
    check("kv-events", EVENTS);
    check("kv-routing", ROUTING);
}

fn check(package: &str, owed: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let readme = fs::read_to_string(root.join(package).join("tests/README.md")).expect("the list");
    let rows = rows(&readme);
    for (id, tests) in &rows {
        for (file, name) in tests {
            let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{id}: {file}: {error}"));
            let text = text_of(&source, name).unwrap_or_else(|| panic!("{id}: there is no test {name} in {file}"));
            assert!(cites(text, id), "{id}: {name} in {file} does not cite it");
        }
    }
    let listed: BTreeSet<&str> = rows.iter().map(|row| row.0).collect();
    let missing: Vec<&str> = owed.split_whitespace().filter(|id| !listed.contains(id)).collect();
    assert!(missing.is_empty(), "not listed in {package}: {missing:?}");
}
