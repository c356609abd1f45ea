//! Tables that are written down, and that the code must agree with.

use std::path::Path;

/// Compares `table` with the file `name` of this folder's tests, which `KV_WRITE_TABLE=1` writes anew.
#[track_caller]
pub(crate) fn assert_written(name: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    if std::env::var_os("KV_WRITE_TABLE").is_some() {
        std::fs::write(&path, table).expect("the table can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differences: Vec<_> = table.lines().zip(written.lines()).filter(|(is, was)| is != was).collect();
    assert!(table == written, "KV_WRITE_TABLE=1 writes {name} anew; now and then: {differences:#?}");
}
